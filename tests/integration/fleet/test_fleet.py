# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
site.yml changes nothing on the finished nodes of make bench-fleet.

Its other runs are left to make bench-fleet.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from patience import HANGS  # type: ignore[import-not-found]

CHECKOUT = Path(__file__).parents[3]
LINES = """\
site.yml, 4 nodes: nothing changed
"""


def test_no_run_fails_or_changes_a_finished_node() -> None:
    command = [sys.executable, "tests/benchmark/fleet.py", "--prove", "-n", "4", "--runs", "site"]

    done = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, timeout=HANGS * 2, check=False)

    assert (done.stdout, done.stderr, done.returncode) == (LINES, "", 0), f"{done.stderr}\n{done.stdout}"
