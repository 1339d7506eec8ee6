# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of the former time zone is made once, so it is whole or missing."""

from __future__ import annotations

import resource
import subprocess
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

RECORD = Path(__file__).parents[3] / "roles/timezone/files/record.sh"


def _record(target: Path, **more: t.Any) -> int:
    return subprocess.run(["sh", RECORD, target], timeout=PATIENCE, check=False, capture_output=True, **more).returncode


def test_the_zone_is_recorded(tmp_path: Path) -> None:
    assert _record(tmp_path / "state/zone") == 0

    link, name = (tmp_path / "state/zone").read_text(encoding="utf-8").splitlines()
    known = Path("/etc/timezone")
    assert link.startswith(("/", ".."))
    assert name == (known.read_text(encoding="utf-8").strip() if known.exists() else "")
    assert [path.name for path in (tmp_path / "state").iterdir()] == ["zone"]


def test_a_full_disk_leaves_no_record(tmp_path: Path) -> None:
    """The next run would take an empty file for a record, and the removal would have no zone to restore."""

    def full() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))

    assert _record(tmp_path / "zone", preexec_fn=full, restore_signals=False) != 0
    assert not (tmp_path / "zone").exists()
