# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate runs the unit tests without chance."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import settings

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def test_the_profile_leaves_nothing_to_chance_or_to_a_slow_machine() -> None:
    gate = settings.get_profile("gate")

    assert gate.derandomize
    assert gate.deadline is None
    assert not settings.get_profile("developer").derandomize


def test_pytest_takes_the_profile(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "tests/unit/conftest.py").read_text("utf-8"), encoding="utf-8")
    (tmp_path / "test_it.py").write_text(
        "from hypothesis import settings\ndef test_it():\n    assert settings().derandomize\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    with_profile = subprocess.run(
        [*command, "--hypothesis-profile=gate"], cwd=tmp_path, capture_output=True, timeout=PATIENCE, check=False
    )
    without = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=PATIENCE, check=False)

    assert (with_profile.returncode, without.returncode) == (0, 1)
