# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cores, CPU ids and masks that follow from a record."""

from __future__ import annotations

import contextlib
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records


@pytest.fixture(params=records.names())
def record(request: pytest.FixtureRequest) -> dict[str, t.Any]:
    return records.find(request.param)


def test_numa_nodes_share_all_cpus_among_them_and_none_twice(record: dict[str, t.Any]) -> None:
    cpus = [cpu for node in range(record["numa_nodes"]) for cpu in hardware_record.numa_cpus(record, node)]

    assert sorted(cpus) == list(range(hardware_record.cpu_count(record)))


def test_dgx_a100_has_the_cpu_ids_that_its_topology_shows() -> None:
    # CPU affinity of GPU 0, 2, 4 and 6 in a capture of nvidia-smi topo -m.
    record = records.find("DGX_A100")

    affinity = [
        hardware_record.ranges(hardware_record.numa_cpus(record, gpu["numa_node"])) for gpu in record["topology"]
    ]

    assert affinity[::2] == ["48-63,176-191", "16-31,144-159", "112-127,240-255", "80-95,208-223"]
    assert affinity[::2] == affinity[1::2]


def test_dgx_h100_has_the_cpu_ids_that_its_topology_shows() -> None:
    record = records.find("DGX_H100")

    assert hardware_record.ranges(hardware_record.numa_cpus(record, 0)) == "0-55,112-167"
    assert hardware_record.ranges(hardware_record.numa_cpus(record, 1)) == "56-111,168-223"


def test_alternating_cpu_ids_still_give_one_block_of_logical_cores() -> None:
    record = records.find("DGX_H100")
    record["cpus"]["numbering"] = "round_robin"

    assert hardware_record.numa_cores(record, 1) == list(range(56, 112))
    assert hardware_record.numa_cpus(record, 1)[:3] == [1, 3, 5]
    assert set(hardware_record.numa_cpus(record, 0)) | set(hardware_record.numa_cpus(record, 1)) == set(range(224))


def test_cores_of_a_gpu_end_at_the_edges_of_sockets(record: dict[str, t.Any]) -> None:
    per_socket = hardware_record.core_count(record) // hardware_record.slurm_sockets(record)

    for gpu in record["topology"]:
        cores = hardware_record.gpu_cores(record, gpu)
        assert cores[0] % per_socket == 0
        assert (cores[-1] + 1) % per_socket == 0
        assert set(hardware_record.numa_cores(record, gpu["numa_node"])) <= set(cores)


@pytest.mark.parametrize(
    ("cpus", "total", "text"),
    [
        (range(24), 96, "00000000,00000000,00ffffff"),
        (range(48, 96), 96, "ffffffff,ffff0000,00000000"),
        (range(20, 40), 40, "000000ff,fff00000"),
        (range(64), 64, "ffffffff,ffffffff"),  # as the H200 machine's cpumap
    ],
)
def test_mask_of_the_kernel(cpus: range, total: int, text: str) -> None:
    assert hardware_record.kernel_mask(cpus, total) == text


def test_type_is_part_of_the_name_that_slurm_finds() -> None:
    # slurmd -C: nvidia_h100_nvl, nvidia_h100_80gb_hbm3, tesla_v100-sxm2-32gb
    assert hardware_record.gres_type(records.find("Standard_NC40ads_H100_v5")) in "nvidia_h100_nvl"
    assert hardware_record.gres_type(records.find("Standard_ND40rs_v2")) in "tesla_v100-sxm2-32gb"


@given(st.sets(st.integers(0, 600), max_size=40))
def test_ranges_survive_the_way_there_and_back(numbers: set[int]) -> None:
    assert hardware_record.parse_ranges(hardware_record.ranges(numbers)) == sorted(numbers)


@settings(max_examples=80)
@given(st.text(alphabet="0123456789,-: a\n", max_size=12))
def test_odd_ranges_are_values_or_value_errors(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert all(number >= 0 for number in hardware_record.parse_ranges(text))
