# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Assign GPUs, NUMA nodes and cores of a machine to the tasks of a job."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    Record = dict[str, t.Any]


class Task(t.NamedTuple):
    """The placement of one task of a node."""

    task: int
    gpus: list[int]
    numa_node: int
    cores: list[int]
    cpus: list[int]


class LayoutError(ValueError):
    """The tasks do not fit on the machine."""


def default_tasks(record: Record) -> int:
    """Return the usual number of tasks of a node: one per GPU, or one per NUMA node without GPUs."""
    return int(record["gpus"]["count"]) or int(record["numa_nodes"])


def place(record: Record, tasks: int, threads: int | None = None) -> list[Task]:
    """
    Return the best placement of every task of a node.

    Without threads, every task may use the whole NUMA node of its GPU, as the usual CPU masks do. With threads, each
    task gets separate cores there, with one thread per core as long as the cores suffice.
    """
    if tasks < 1 or (threads is not None and threads < 1):
        raise LayoutError(f"{tasks} tasks with {threads} threads: both must be at least 1")
    homes = [_home(record, tasks, task) for task in range(tasks)]
    return [_placed(record, task, homes, threads) for task in range(tasks)]


def warnings(record: Record, tasks: int, threads: int | None = None) -> list[str]:
    """Return the faults of a layout, each with its correction."""
    return [text for rule in (_fits, _gpu_shares, _spread, _knowledge) for text in rule(record, tasks, threads)]


def gpus_of(record: Record, tasks: int, task: int) -> list[int]:
    """Return the GPUs of a task. GPUs are assigned in order: several per task, or several tasks per GPU."""
    count = int(record["gpus"]["count"])
    if not count:
        return []
    if tasks >= count:
        return [task * count // tasks]
    return list(range(task * count // tasks, (task + 1) * count // tasks))


def numa_nodes_of(record: Record, gpus: list[int]) -> list[int]:
    """Return the NUMA nodes of GPUs, each once, in the order of the GPUs."""
    by_index = {gpu["index"]: gpu["numa_node"] for gpu in record["topology"]}
    return list(dict.fromkeys(by_index[gpu] for gpu in gpus if gpu in by_index))


def _home(record: Record, tasks: int, task: int) -> int:
    nodes = numa_nodes_of(record, gpus_of(record, tasks, task))
    return nodes[0] if nodes else task * int(record["numa_nodes"]) // tasks


def _placed(record: Record, task: int, homes: list[int], threads: int | None) -> Task:
    node = homes[task]
    cores = hardware_record.numa_cores(record, node)
    per_core = int(record["cpus"]["threads_per_core"])
    if threads is not None:
        sharing = homes.count(node)
        if sharing * threads > len(cores) * per_core:
            raise LayoutError(
                f"{sharing} tasks of {threads} threads want {sharing * threads} CPUs of NUMA node {node}, "
                f"which has {len(cores) * per_core}; at most {len(cores) * per_core // sharing} threads per task fit"
            )
        if sharing * threads <= len(cores):
            per_core = 1
        width = -(-threads // per_core)
        start = homes[:task].count(node) * (len(cores) // sharing)
        cores = cores[start : start + width]
    gpus = gpus_of(record, len(homes), task)
    return Task(task, gpus, node, cores, hardware_record.cpu_ids(record, cores, per_core))


def _fits(record: Record, tasks: int, threads: int | None) -> Iterator[str]:
    if threads is None:
        return
    cpus, cores = hardware_record.cpu_count(record), hardware_record.core_count(record)
    if tasks * threads > cpus:
        yield (
            f"{tasks} tasks of {threads} threads want {tasks * threads} CPUs, {record['name']} has {cpus}: "
            f"use at most {cpus // tasks} threads"
        )
    elif tasks * threads > cores:
        yield f"{tasks} tasks of {threads} threads are more than the {cores} cores: two threads will share a core"
    homes = [_home(record, tasks, task) for task in range(tasks)]
    share = cores // int(record["numa_nodes"]) // max(homes.count(node) for node in homes)
    if threads < share:
        yield f"{threads} threads per task leave cores beside the GPUs idle; {share} would use them"


def _gpu_shares(record: Record, tasks: int, _threads: int | None) -> Iterator[str]:
    count = int(record["gpus"]["count"])
    if count and tasks > count:
        yield f"{tasks} tasks share {count} GPUs: several processes on one GPU slow each other down, use {count} tasks"
    if count and tasks < count and count % tasks:
        yield f"{tasks} tasks cannot share {count} GPUs evenly, use a number that divides {count}"
    elif count and tasks > count and tasks % count:
        yield f"{tasks} tasks are not a multiple of {count} GPUs: some GPUs have more tasks than others"


def _spread(record: Record, tasks: int, _threads: int | None) -> Iterator[str]:
    for task in range(tasks):
        nodes = numa_nodes_of(record, gpus_of(record, tasks, task))
        if len(nodes) > 1:
            yield f"task {task} has GPUs on the NUMA nodes {nodes}: half of its traffic crosses sockets, use more tasks"
    homes = [_home(record, tasks, task) for task in range(tasks)]
    shares = {homes.count(node) for node in range(int(record["numa_nodes"])) if homes.count(node)}
    if len(shares) > 1:
        yield f"the NUMA nodes have between {min(shares)} and {max(shares)} tasks: use a number that spreads evenly"


def _knowledge(record: Record, _tasks: int, _threads: int | None) -> Iterator[str]:
    if record["gpus"]["count"] and not record["topology"]:
        yield (
            f"the record of {record['name']} does not say where its GPUs are: "
            "tasks are spread over the NUMA nodes, and a GPU may be far from its task"
        )
