# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GPUs that are divided, that have no ECC, and that sleep: what they cannot show is no fault, and hides none."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.process import DONE, Result
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import worst
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

SIZE = "standard_nd96isr_h100_v5"
EVERY = list(range(8))
WORKSTATION: dict[str, t.Any] = {
    **machines.record("standard_nc24rs_v3"),
    "name": "workstation",
    "gpus": {"model": "RTX 2080", "count": 4, "memory_mib": 8192, "pcie_generation": 3, "pcie_width": 16},
    "nccl": {},
    "topology": [],
}


def _smi(machine: machines.FakeMachine) -> machines.Smi:
    return t.cast("machines.Smi", machine.tools["nvidia-smi"])


def _divided(*positions: int) -> machines.FakeMachine:
    machine = machines.healthy(SIZE)
    _smi(machine).config["faults"] = {"mig": list(positions)}
    return machine


def test_a_divided_node_stays_in_service_and_takes_jobs() -> None:
    machine, config = _divided(*EVERY), machines.expectations(SIZE)
    remembered: dict[str, dict[str, t.Any]] = {}
    for _round in range(5):
        machine.clock += 300
        verdicts = machines.judge(machine, config, remembered, machines.prepared(config))

    assert worst(verdict.status for verdict in verdicts.values()) == "healthy"
    for name in ("gpu_remap", "nvlink", "nvlink_errors"):
        assert verdicts[name].status == "not applicable"
        assert "in MIG mode" in verdicts[name].reason
    assert verdicts["gpu_ecc"].reason.endswith("and 4 more")
    assert "in MIG mode without counters: GPU 0 (00000001:00:00.0)" in verdicts["gpu_ecc"].reason
    assert not [call for call in machine.calls if "nvlink" in call]


def test_what_is_divided_hides_nothing_of_what_is_whole() -> None:
    machine, config = _divided(0, 3), machines.expectations(SIZE, nvlink={"samples": 1})
    names = ["gpu_ecc", "gpu_remap", "nvlink", "nvlink_errors"]
    well = machines.judge(machine, config, names=names)
    _smi(machine).shows(5, remapped_rows__pending="Yes", ecc__errors__uncorrected__volatile__dram="1")
    _smi(machine).config["nvlink"] = 17
    sick = machines.judge(machine, config, names=names[:3])

    assert {verdict.status for verdict in well.values()} == {"healthy"}
    assert "on 6 GPUs; not judged: GPU 0 (00000001:00:00.0) in MIG mode, GPU 3" in well["gpu_remap"].reason
    assert well["nvlink"].reason == "18 NVLinks up on 6 GPUs"
    assert well["nvlink_errors"].reason.startswith(f"no counter of {6 * 18 * 3} grew")
    assert {verdict.status for verdict in sick.values()} == {"unhealthy"}


@pytest.mark.parametrize("field", ["remapped_rows__pending", "ecc__mode__current"])
def test_a_divided_gpu_that_shows_a_fault_is_sick(field: str) -> None:
    machine = _divided(*EVERY)
    _smi(machine).shows(2, **{field: "Yes" if "rows" in field else "Disabled"})
    check = "gpu_remap" if "rows" in field else "gpu_ecc"

    assert machines.judge(machine, machines.expectations(SIZE), names=[check])[check].status == "unhealthy"


@pytest.mark.parametrize("check", ["host_to_device", "device_to_host", "nvlink_allreduce"])
def test_the_throughput_of_divided_gpus_is_not_that_of_a_record(check: str) -> None:
    machine = _divided(1)
    verdict = machines.judge(machine, machines.expectations(SIZE), names=[check])[check]

    assert (verdict.status, verdict.reason) == ("not applicable", "in MIG mode: GPU 1 (00000002:00:00.0)")


@pytest.mark.parametrize("words", ["[N/A]", "[Not Supported]", "[Unknown Error]"])
@pytest.mark.parametrize("check", ["gpu_ecc", "gpu_remap"])
def test_a_whole_gpu_of_a_data_centre_must_show_its_memory(check: str, words: str) -> None:
    machine = machines.healthy(SIZE)
    _smi(machine).shows(6, remapped_rows__pending=words, ecc__mode__current=words)

    assert machines.judge(machine, machines.expectations(SIZE), names=[check])[check].status == "unknown"


def _workstation(**settings: t.Any) -> tuple[machines.FakeMachine, dict[str, t.Any]]:
    machine = machines.healthy("standard_nc24rs_v3")
    machine.tools["nvidia-smi"] = machines.Smi(WORKSTATION, **settings)
    return machine, expectations.expectations(WORKSTATION)


def test_a_workstation_without_ecc_that_sleeps_is_healthy() -> None:
    machine, config = _workstation()
    remembered: dict[str, dict[str, t.Any]] = {}
    names = [name for name in config["sets"]["fast"] if name.startswith(("gpu_", "nvlink"))]
    for _round in range(5):
        machine.clock += 300
        verdicts = machines.judge(machine, config, remembered, names)

    assert worst(verdict.status for verdict in verdicts.values()) == "healthy"
    assert verdicts["gpu_ecc"].reason.startswith("GPU 0 (00000000:00:06.0) has no ECC")
    assert verdicts["gpu_remap"].status == "not applicable"
    assert "idle, only the width judged: GPU 0 (00000000:00:06.0)" in verdicts["gpu_pcie"].reason


@pytest.mark.parametrize(
    ("busy", "shown", "words"),
    [
        (True, {}, ""),
        (True, {"pcie__link__gen__current": "1"}, "GPU 2 (00000000:00:08.0): generation 1 x16"),
        (False, {"pcie__link__width__current": "8"}, "GPU 2 (00000000:00:08.0): generation 1 x8"),
        # Awake and idle, as GPUs of data centres are: the link is a slow one.
        (False, {"pstate": "P0"}, "GPU 2 (00000000:00:08.0): generation 1 x16"),
    ],
)
def test_a_slow_link_is_found_unless_the_gpu_sleeps(busy: bool, shown: dict[str, str], words: str) -> None:
    machine, config = _workstation(busy=busy)
    config["checks"]["gpu_pcie"]["samples"] = 1
    _smi(machine).shows(2, **shown)
    verdict = machines.judge(machine, config, names=["gpu_pcie"])["gpu_pcie"]

    assert verdict.status == ("unhealthy" if words else "healthy")
    assert words in verdict.reason


# Of one link as driver 595 prints it: what grows all the time, and what repairs itself, is no error.
NEWER: dict[str, int | str] = {
    "Tx packets": 7_000_000,
    "Rx bytes": 9_000_000,
    "Malformed packet Errors": 0,
    "Rx Errors": 0,
    "Tx discards": 0,
    "Link recovery successful events": 0,
    "FEC Errors - 0": 36_140_749_276,
    "FEC Errors - 1": 4_000,
    "Raw Errors Lane 0": 82,
    "Effective BER": "15e-255",
    "Effective Errors": 0,
}


@pytest.mark.parametrize(
    ("grown", "status"),
    [
        ("", "healthy"),
        ("Tx packets", "healthy"),
        ("Rx bytes", "healthy"),
        ("FEC Errors - 0", "healthy"),
        ("FEC Errors - 1", "healthy"),
        ("Raw Errors Lane 0", "healthy"),
        *[(name, "unhealthy") for name in ("Effective Errors", "Rx Errors", "Tx discards", "Malformed packet Errors")],
        ("Link recovery successful events", "unhealthy"),
    ],
)
def test_only_errors_of_a_link_are_counted(grown: str, status: str) -> None:
    machine, config = machines.healthy(SIZE), machines.expectations(SIZE)
    remembered: dict[str, dict[str, t.Any]] = {}
    for step in (0, 1_000_000):
        machine.clock += 300
        _smi(machine).config["link_counters"] = NEWER | ({grown: int(NEWER[grown]) + step} if grown else {})
        verdict = machines.judge(machine, config, remembered, ["nvlink_errors"])["nvlink_errors"]

    assert verdict.status == status, verdict.reason
    assert grown in verdict.reason or status == "healthy"


def _slices(slices: dict[str, int], *positions: int, answer: str | None = None) -> t.Any:
    """Return the verdict of gpu_count on a node with two slices of 3g.40gb on each of these GPUs."""
    machine = _divided(*positions)
    if answer is not None:
        simulated = _smi(machine)
        machine.tools["nvidia-smi"] = lambda argv, stdin: (
            Result(DONE, 0, answer) if "-L" in argv else simulated(argv, stdin)
        )
    config = machines.expectations(SIZE, gpu_count={"slices": slices})
    return machines.judge(machine, config, names=["gpu_count"])["gpu_count"]


def test_all_slices_of_the_record_are_healthy() -> None:
    verdict = _slices({"3g.40gb": 16}, *EVERY)

    assert (verdict.status, verdict.reason) == ("healthy", "16 slices 3g.40gb")


def test_a_slice_that_is_missing_is_named() -> None:
    verdict = _slices({"3g.40gb": 16}, *EVERY[1:])
    other = _slices({"3g.40gb": 16, "1g.10gb": 8}, *EVERY)

    assert verdict.status == other.status == "unhealthy"
    assert "14 of 3g.40gb (GPU 1: 2, GPU 2: 2" in verdict.reason
    assert "GPU 0" not in verdict.reason
    assert "0 of 1g.10gb" in other.reason


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n",
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n  MIG 3g.40gb     Dev",
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n  MIG 3g.40gb     Device  0: (UUID: ERR!)\n",
        "".join(f"GPU {gpu}: NVIDIA H100 (UUID: GPU-{gpu})\n" for gpu in range(7)),
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n" + "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n" * 2,
        "GPU 0: NVIDIA H100 (UUID: GPU-1)\n  MIG 3g.4\x000gb     Device  0: (UUID: MIG-1)\n",
    ],
)
def test_a_list_of_slices_that_is_not_understood_is_unknown(answer: str) -> None:
    verdict = _slices({"3g.40gb": 16}, *EVERY, answer=answer)

    assert verdict.status == "unknown"
    assert "-L printed" in verdict.reason
