# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where tasks belong."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import placement
from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records


# The lab's simulated GPUs are more than its processors.
@pytest.fixture(params=[name for name in records.names() if not name.startswith("simulated")])
def record(request: pytest.FixtureRequest) -> dict[str, t.Any]:
    return records.find(request.param)


def test_every_task_is_on_the_numa_node_of_its_gpu(record: dict[str, t.Any]) -> None:
    nodes = {gpu["index"]: gpu["numa_node"] for gpu in record["topology"]}

    for task in placement.place(record, placement.default_tasks(record)):
        assert set(task.cpus) == set(hardware_record.numa_cpus(record, task.numa_node))
        assert all(nodes.get(gpu, task.numa_node) == task.numa_node for gpu in task.gpus)


def test_every_gpu_has_one_task(record: dict[str, t.Any]) -> None:
    if record["gpus"]["count"]:
        tasks = placement.place(record, record["gpus"]["count"])
        assert [gpu for task in tasks for gpu in task.gpus] == list(range(record["gpus"]["count"]))


@pytest.mark.parametrize("share", [1, 2])
def test_no_two_tasks_share_a_cpu(record: dict[str, t.Any], share: int) -> None:
    tasks = placement.default_tasks(record)
    homes = [task.numa_node for task in placement.place(record, tasks)]
    busiest = max(homes.count(node) for node in homes)
    threads = hardware_record.cpu_count(record) // record["numa_nodes"] // busiest // share

    cpus = [cpu for task in placement.place(record, tasks, threads or 1) for cpu in task.cpus]

    assert len(cpus) == len(set(cpus))
    assert len(cpus) >= tasks * (threads or 1)


def test_threads_take_whole_cores_before_they_share_one() -> None:
    record = records.find("DGX_A100")

    assert [task.cpus for task in placement.place(record, 8, 8)][:2] == [list(range(48, 56)), list(range(56, 64))]
    assert placement.place(record, 8, 16)[0].cpus == [*range(48, 56), *range(176, 184)]


@pytest.mark.parametrize("name", ["Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4"])
def test_masks_of_nd_a100_v4_are_those_that_its_users_know(name: str) -> None:
    assert [hardware_record.hex_mask(task.cpus) for task in placement.place(records.find(name), 8)] == [
        *["0xffffff000000"] * 2,
        *["0xffffff"] * 2,
        *["0xffffff000000000000000000"] * 2,
        *["0xffffff000000000000"] * 2,
    ]


def test_tasks_with_several_gpus_get_neighbours() -> None:
    assert [task.gpus for task in placement.place(records.find("Standard_ND96asr_v4"), 4)] == [
        [0, 1],
        [2, 3],
        [4, 5],
        [6, 7],
    ]


def test_too_many_threads_are_refused_with_what_fits() -> None:
    with pytest.raises(placement.LayoutError, match="want 26 CPUs of NUMA node 1, which has 24; at most 12 threads"):
        placement.place(records.find("Standard_ND96asr_v4"), 8, 13)


@pytest.mark.parametrize(("tasks", "threads"), [(0, None), (8, 0), (-1, 4)])
def test_numbers_below_one_are_refused(tasks: int, threads: int | None) -> None:
    with pytest.raises(placement.LayoutError, match="at least 1"):
        placement.place(records.find("lab"), tasks, threads)


@pytest.mark.parametrize(
    ("name", "tasks", "threads", "text"),
    [
        ("Standard_ND96asr_v4", 8, 13, "want 104 CPUs, Standard_ND96asr_v4 has 96: use at most 12 threads"),
        ("DGX_H100", 8, 20, "more than the 112 cores: two threads will share a core"),
        ("Standard_ND96asr_v4", 8, 6, "6 threads per task leave cores beside the GPUs idle; 12 would use them"),
        ("Standard_ND96asr_v4", 16, None, "16 tasks share 8 GPUs"),
        ("Standard_ND96asr_v4", 12, None, "12 tasks are not a multiple of 8 GPUs"),
        ("Standard_ND96asr_v4", 3, None, "3 tasks cannot share 8 GPUs evenly"),
        ("Standard_ND96asr_v4", 1, None, r"task 0 has GPUs on the NUMA nodes \[1, 0, 3, 2\]"),
        ("Standard_NC24rs_v3", 4, None, "does not say where its GPUs are"),
        ("Standard_ND96asr_v4", 9, None, "the NUMA nodes have between"),
    ],
)
def test_bad_layout_is_warned_about(name: str, tasks: int, threads: int | None, text: str) -> None:
    found = placement.warnings(records.find(name), tasks, threads)

    assert any(__import__("re").search(text, warning) for warning in found), found


@pytest.mark.parametrize(
    ("name", "threads"), [("Standard_ND96asr_v4", 12), ("Standard_ND96isr_H100_v5", 12), ("lab", 2)]
)
def test_good_layout_draws_no_warning(name: str, threads: int) -> None:
    record = records.find(name)

    assert placement.warnings(record, placement.default_tasks(record), threads) == []


def test_tasks_without_gpus_are_spread_over_the_numa_nodes_in_blocks() -> None:
    record = {**records.find("DGX_H100"), "gpus": {"count": 0}, "topology": []}

    assert [task.numa_node for task in placement.place(record, 4)] == [0, 0, 1, 1]
    assert [task.numa_node for task in placement.place(record, 3)] == [0, 0, 1]
    assert placement.default_tasks(record) == 2
