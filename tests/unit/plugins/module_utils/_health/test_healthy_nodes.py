# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy node stays in service: no false positive on any catalogued size."""

from __future__ import annotations

import functools
import json
import random
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import worst
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import nvlink
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

# All rounds on one size show what adds up; on the others, a tenth shows what their hardware changes.
ROUNDS = {"standard_nd96isr_h100_v5": 1000}
MACHINES = "tests/unit/plugins/module_utils/_health/machines.py"


def test_a_healthy_machine_has_what_every_check_reads() -> None:
    files, idle = place(MACHINES, "def files("), place(MACHINES, "IDLE = ")

    expect_none(
        f"{line}. {files}: add to files() what `{name}` reads on a healthy machine, or its tool to healthy(). "
        f"If nothing is expected of a machine without a parameter, add {name!r} to IDLE ({idle})"
        for name, line in machines.unprepared().items()
    )


@pytest.mark.parametrize("size", machines.SIZES)
def test_many_rounds_on_a_healthy_node_drain_nothing(size: str, monkeypatch: pytest.MonkeyPatch) -> None:
    config = machines.expectations(size)
    names = machines.prepared(config)
    machine = machines.healthy(size)
    t.cast("machines.Smi", machine.tools["nvidia-smi"]).remember = True
    monkeypatch.setattr(nvlink, "parse", functools.lru_cache(nvlink.parse))
    dice = random.Random(size)
    remembered: dict[str, dict[str, object]] = {}

    bad = []
    for number in range(ROUNDS.get(size, 100)):
        machines.age(machine, dice)
        verdicts = machines.judge(machine, config, remembered, names)
        bad += [
            (number, verdict.line())
            for verdict in verdicts.values()
            if verdict.status not in ("healthy", "not applicable")
        ]
        assert not bad

    # What is remembered after all rounds still is a small file.
    assert len(json.dumps(remembered)) < 300_000


# What a check needs of the record's GPUs; where no source says it, the check does not apply.
_KEYS = {"clocks": "clocks", "pcie": "pcie_generation"}


@pytest.mark.parametrize("size", machines.SIZES)
def test_every_check_that_applies_was_really_run(size: str) -> None:
    hardware = machines.record(size)
    config = machines.expectations(size)
    verdicts = machines.judge(machines.healthy(size), config, names=machines.prepared(config))

    # The program's exit status is 0, although a node without adapters, drives or arrays has nothing to judge there.
    assert worst(verdict.status for verdict in verdicts.values()) == "healthy"
    idle = {name for name, verdict in verdicts.items() if verdict.status == "not applicable"}
    expected = machines.IDLE & set(verdicts)
    if not hardware["gpus"]["count"]:
        expected |= {name for name in verdicts if name.startswith(("gpu_", "nvlink"))}
    if not str(hardware["gpus"].get("model")).startswith(("H", "B", "GB")):  # Ampere and older report no fabric
        expected |= {"gpu_fabric"}
    expected |= {f"gpu_{name}" for name in ("clocks", "pcie") if not hardware["gpus"].get(_KEYS[name])}
    if not hardware["gpus"].get("nvlinks"):
        expected |= {"nvlink", "nvlink_errors"}
    if not hardware["infiniband"]["hcas"]:
        expected |= {"infiniband", "infiniband_errors", "infiniband_flaps"}
    if not hardware["nccl"].get("topology_file"):
        expected |= {"nccl_topology"}
    if not hardware["nvme"]["count"]:
        expected |= {"nvme"}
    wrong = ("is not applicable, but should be judged", "is judged, but nothing should be expected")
    expect_none(
        f"{name} {wrong[name in expected]} on {size}: correct the check, or add the rule of its hardware to "
        f"{place(Path(__file__), 'def test_every_check_that_applies')}"
        for name in sorted(idle ^ expected)
    )
