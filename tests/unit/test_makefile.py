# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make alone prints the verbs, and starts nothing."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROOT = Path(__file__).parents[2]


def test_make_alone_prints_every_verb() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    verbs = re.findall(r"^([a-z-]+):", text, flags=re.MULTILINE)

    printed = subprocess.run(
        ["make"], cwd=ROOT, env=_of_a_shell(), capture_output=True, text=True, check=True, timeout=PATIENCE
    ).stdout

    assert [line.split()[1] for line in printed.splitlines()] == verbs
    assert verbs[:2] == ["help", "lab"]


def _of_a_shell() -> dict[str, str]:
    """Return an environment without the variables of a make above (make test), which change the output."""
    return {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
