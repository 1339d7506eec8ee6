# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbooks/lab_fault.yml breaks in the simulated GPUs is what the health check finds."""

from __future__ import annotations

import re
import subprocess
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

PLAYBOOKS = Path(__file__).parents[3] / "playbooks"
VARIABLES = yaml_load((PLAYBOOKS / "vars/lab_faults.yml").read_text(encoding="utf-8"))
FAULTS: dict[str, dict[str, t.Any]] = VARIABLES["__lab_faults"]
# The fault that hangs would hang here as well; the tour and the lab have a nvidia-smi of their own.
SIMULATED = [name for name, fault in FAULTS.items() if "simulation" in fault and name != "smi_hangs"]
SIZE = "simulated_h100"
# The program that causes the others has a case for each.
CASES = re.findall(r"^  ([a-z_ |]+)\)$", (PLAYBOOKS / "files/lab_fault.sh").read_text(encoding="utf-8"), re.MULTILINE)
CAUSED = " | ".join(CASES).split(" | ")


def merged(before: dict[str, t.Any], after: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return what combine(recursive=true) returns."""
    both = {
        key: merged(before[key], value) if isinstance(value, dict) and isinstance(before.get(key), dict) else value
        for key, value in after.items()
    }
    return {**before, **both}


def test_there_are_enough_faults() -> None:
    assert len(FAULTS) >= 15
    assert {"gpu_lost", "xid", "ecc", "nvlink", "hot", "slow_link", "mount", "disk_full"} <= set(FAULTS)
    assert "none" not in FAULTS


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_described_and_can_be_mended(name: str) -> None:
    fault = FAULTS[name]

    assert set(fault) <= {"about", "check", "simulation"}
    assert fault["about"]
    assert ("simulation" in fault) != (name in CAUSED)
    assert fault.get("check", "slurmd") in machines.expectations(SIZE)["checks"]


@pytest.mark.parametrize("name", SIMULATED)
def test_the_check_that_the_fault_names_finds_it(name: str) -> None:
    machine = machines.healthy(SIZE)
    smi = t.cast("machines.Smi", machine.tools["nvidia-smi"])
    remembered: dict[str, dict[str, t.Any]] = {}
    config = machines.expectations(SIZE)
    before = machines.judge(machine, config, remembered)
    smi.config = merged(smi.config, FAULTS[name]["simulation"])
    for _round in range(3):  # as many samples as the most patient check wants
        machine.clock += 10
        after = machines.judge(machine, config, remembered)

    assert before[FAULTS[name]["check"]].status == "healthy"
    assert after[FAULTS[name]["check"]].status == "unhealthy"


@pytest.mark.parametrize(
    ("health", "seconds", "status", "said"),
    [
        (
            "[ $(wc -l < calls) -ge 9 ] || { echo 'gpu_count: unknown: no answer within 30 s'; exit 3; }",
            PATIENCE,
            0,
            "",
        ),
        (
            "echo 'mount: unhealthy: gone'; exit 1",
            0,
            1,
            "The node is not healthy after 0 s; gpucluster-health says: mount: unhealthy: gone\n",
        ),
    ],
)
def test_a_repaired_node_is_checked_until_a_busy_machine_answers(
    tmp_path: Path, health: str, seconds: int, status: int, said: str
) -> None:
    stubs = {"gpucluster-check": "echo $@ >> calls", "gpucluster-health": health, "sleep": ""}
    for name, text in stubs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)

    done = subprocess.run(
        ["sh", str(PLAYBOOKS / "files/lab_check.sh"), str(seconds)],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )

    assert (done.returncode, done.stderr) == (status, said)
