# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What public health checks get wrong, each with the value that their code gets wrong (docs/health.md lists them)."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import gpu, throughput
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import UnhealthyError, UnknownError
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from collections.abc import Callable

SIZE = "standard_nd96isr_h100_v5"


def _smi(machine: machines.FakeMachine) -> machines.Smi:
    return t.cast("machines.Smi", machine.tools["nvidia-smi"])


def _one(check: str, change: Callable[[machines.FakeMachine], None]) -> str:
    """Return the verdict of one check on a healthy machine after a change, with no sample before it."""
    machine = machines.healthy(SIZE)
    change(machine)
    config = machines.expectations(SIZE, **{check: {"samples": 1}})
    return machines.judge(machine, config, names=[check])[check].status


# azurehpc azure_cuda_bandwidth.nhc and azure_ib_write_bw_gdr.nhc compare numbers as text.
@pytest.mark.parametrize(
    ("least", "found", "status"),
    [
        (24.0, 9.5, "unhealthy"),  # as text "9.5" is more than "24.0"
        (24.0, 100.1, "healthy"),  # as text "100.1" is less than "24.0"
        (185, 99.0, "unhealthy"),
        (375, 1000.0, "healthy"),
        (24.0, 24.0, "healthy"),
        (24.0, float("nan"), "unhealthy"),
    ],
)
def test_bandwidths_are_compared_as_numbers(least: float, found: float, status: str) -> None:
    assert throughput.judge_copies(least, [500.0, found], most=1000).status == status
    assert throughput.judge_adapters(least, {"mlx5_ib0": 500.0, "mlx5_ib1": found}).status == status


# azure_gpu_ecc.nhc compares "No" with 0 as text and drains healthy GPUs; AzNHC's "Yes" -gt 0 never fires.
@pytest.mark.parametrize("field", ["remapped_rows__pending", "remapped_rows__failure"])
@pytest.mark.parametrize(
    ("word", "status"),
    [("No", "healthy"), ("Yes", "unhealthy"), ("0", "healthy"), ("1", "unhealthy"), ("Maybe", "unknown")],
)
def test_yes_and_no_are_words(field: str, word: str, status: str) -> None:
    assert _one("gpu_remap", lambda machine: _smi(machine).shows(5, **{field: word})) == status


# azure_gpu_ecc.nhc reads a fourth column of a query with three, so its limit of 512 is never seen.
@pytest.mark.parametrize(("rows", "status"), [("512", "healthy"), ("513", "unhealthy"), ("1000", "unhealthy")])
def test_remapped_rows_have_a_limit(rows: str, status: str) -> None:
    assert _one("gpu_remap", lambda machine: _smi(machine).shows(0, remapped_rows__uncorrectable=rows)) == status


# azurehpc's table of throttle bits lacks 0x40 and has one bit twice; its check only logs.
@pytest.mark.parametrize(
    ("bits", "status"),
    [
        ("0x0000000000000001", "healthy"),  # idle
        ("0x0000000000000004", "healthy"),  # software power cap: daily work
        ("0x0000000000000008", "unhealthy"),
        ("0x0000000000000020", "unhealthy"),
        ("0x0000000000000040", "unhealthy"),
        ("0x0000000000000080", "unhealthy"),
        ("0x0000000000000045", "unhealthy"),  # among harmless ones
        ("0x0000000000000105", "healthy"),
    ],
)
def test_throttle_bits_are_those_of_nvml(bits: str, status: str) -> None:
    assert _one("gpu_throttle", lambda machine: _smi(machine).shows(3, clocks_throttle_reasons__active=bits)) == status


# azure_ib_link_flapping.nhc computes with an undefined variable, says "ok" and deletes what it knew.
def test_a_flapping_port_is_found_and_not_forgotten() -> None:
    machine = machines.healthy(SIZE)
    config = machines.expectations(SIZE)
    counter = "/sys/class/infiniband/mlx5_ib3/ports/1/counters/link_downed"
    remembered: dict[str, dict[str, t.Any]] = {}
    seen = []
    for downs in ("0", "1", "2", "3", "3"):
        machine.files[counter] = downs
        machine.clock += 300
        seen.append(machines.judge(machine, config, remembered, ["infiniband_flaps"])["infiniband_flaps"].status)
    machine.clock += 10_801
    seen.append(machines.judge(machine, config, remembered, ["infiniband_flaps"])["infiniband_flaps"].status)

    assert seen == ["healthy", "healthy", "healthy", "unhealthy", "unhealthy", "healthy"]


# check_cuda_bw returns success with a warning where its helper is missing.
@pytest.mark.parametrize("check", ["host_to_device", "device_to_host", "nvlink_allreduce", "infiniband_bandwidth"])
def test_a_missing_tool_is_not_success(check: str) -> None:
    machine = machines.healthy(SIZE)
    verdict = machines.judge(machine, machines.expectations(SIZE), names=[check])[check]

    assert (verdict.status, verdict.reason.endswith(" is missing")) == ("not run", True)


# AzNHC's boost uses the memory clock of the H100, 2619 MHz, as its graphics clock.
@pytest.mark.parametrize(
    ("field", "mhz", "status"),
    [
        ("clocks__max__graphics", "1980", "healthy"),
        ("clocks__max__graphics", "1755", "unhealthy"),
        ("clocks__max__memory", "1593", "unhealthy"),
        ("clocks__applications__graphics", "345", "unhealthy"),
        # max_gpu_app_clocks.sh takes the shell's error on these words as "fine"; here the maximum still counts.
        ("clocks__applications__graphics", "[Requested functionality has been deprecated]", "healthy"),
        ("clocks__max__graphics", "[N/A]", "unknown"),
        ("clocks__max__graphics", "[Unknown Error]", "unknown"),
    ],
)
def test_clocks_are_judged_by_their_own_domain(field: str, mhz: str, status: str) -> None:
    assert _one("gpu_clocks", lambda machine: _smi(machine).shows(2, **{field: mhz})) == status


# azure_gpu_persistence.nhc looks at the exit status of another command.
@pytest.mark.parametrize(
    ("words", "status"), [("Enabled", "healthy"), ("Disabled", "unhealthy"), ("[N/A]", "unknown"), ("", "unknown")]
)
def test_persistence_is_what_the_gpu_says(words: str, status: str) -> None:
    assert _one("gpu_persistence", lambda machine: _smi(machine).shows(7, persistence_mode=words)) == status


# azure_hw_topology_check.nhc sees only self-closing elements, and passes a file that has none.
def test_topology_elements_with_children_are_seen() -> None:
    path = "/opt/microsoft/ndv5-topo.xml"

    def open_elements(machine: machines.FakeMachine) -> None:
        machine.files[path] = machine.files[path].replace('link_width="16"/>', 'link_width="16"></pci>')

    def one_missing(machine: machines.FakeMachine) -> None:
        open_elements(machine)
        machine.files[path] = machine.files[path].replace("0009:00:00.0", "0019:00:00.0")

    assert _one("nccl_topology", open_elements) == "healthy"
    assert _one("nccl_topology", one_missing) == "unhealthy"


# The throughput checks of azurehpc and AzNHC start beside whatever computes already.
def test_throughput_is_not_measured_beside_a_job() -> None:
    machine = machines.healthy(SIZE)
    _smi(machine).processes = "GPU-0a000000-0000-4000-8000-000000000000, 4242, /usr/bin/python3 -c a,b, 70000\n"
    machine.tools["nvbandwidth"] = machines.says("{}")
    verdict = machines.judge(machine, machines.expectations(SIZE), names=["host_to_device"])["host_to_device"]

    assert verdict.status == "not run"
    assert verdict.reason == "the GPUs are in use by 4242"


# AzNHC's repeat counts and README thresholds differ from what runs; here one sum hides no slow GPU.
def test_the_slowest_gpu_decides() -> None:
    finding = throughput.judge_copies(48, [55.1, 55.0, 13.9, 55.2])

    assert finding.status == "unhealthy"
    assert finding.reason == "expected at least 48 GB/s per GPU, found GPU 2 13.9"


def test_table_of_throttle_bits_is_complete() -> None:
    assert sorted(gpu.THROTTLE_BITS) == [1 << bit for bit in range(9)]


def test_large_bandwidth_table_is_read() -> None:
    folder = Path(__file__).parents[3] / "fixtures/gpucluster_check"

    assert throughput.busbw((folder / "all_reduce_perf-2.19.6-h200-x4.txt").read_text()) == 347.53
    with pytest.raises(UnhealthyError, match="wrong"):
        throughput.busbw((folder / "hypercube_perf-2.19.6-wrong-results.txt").read_text())
    cut = (folder / "all_reduce_perf-2.19.6-h200-x4.txt").read_text().partition("# Out of bounds")[0]
    with pytest.raises(UnknownError, match="no complete table"):
        throughput.busbw(cut)
