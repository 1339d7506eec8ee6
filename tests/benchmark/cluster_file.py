#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Time to load cluster.yml with 1,000 nodes, CPU seconds.

Prints the seconds of C(ansible-inventory --list) with four nodes and with 1,000 nodes, and the difference: what
1,000 nodes cost. The best of the repetitions counts. The exit status is 1 if the difference is over the budget.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUDGET = 1.0


def seconds(example: str, repeat: int, nodes: int) -> float:
    """Return the CPU seconds of ansible-inventory for an example, without those of printing it as YAML."""
    return min(_once(example, nodes) for _number in range(repeat))


def _once(example: str, nodes: int) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "ansible-inventory"), "--list"),
            *("-i", str(ROOT / f"inventories/examples/{example}/cluster.yml")),
        ],
        cwd=ROOT,
        env=os.environ | {"ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = len(json.loads(done.stdout)["slurm_compute"]["hosts"])
    if found != nodes:
        raise SystemExit(f"{example}: {found} nodes instead of {nodes}")
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def main() -> int:
    """Print the figures and return the exit status."""
    parser = argparse.ArgumentParser(description="Measure how long cluster.yml with 1,000 nodes takes.")
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    few, many = seconds("dgx", given.repeat, 4), seconds("thousand", given.repeat, 1000)
    late = many - few > BUDGET
    print(f"4 nodes {few:.2f} s, 1,000 nodes {many:.2f} s, difference {many - few:.2f} s, budget {BUDGET} s")
    return 1 if late else 0


if __name__ == "__main__":
    sys.exit(main())
