# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Return the options that bind the tasks of a job to CPUs and GPUs, for each launcher."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import placement
from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware.placement import Task

    Record = dict[str, t.Any]


class Layout(t.NamedTuple):
    """Number of nodes of a job, of tasks on each node, and of CPUs of each task."""

    nodes: int
    tasks: int
    threads: int


def layout(record: Record, nodes: int, tasks: int | None, threads: int | None) -> Layout:
    """Return a layout with defaults: one task per GPU, and all cores of its NUMA node divided among its tasks."""
    tasks = placement.default_tasks(record) if tasks is None else tasks
    if threads is None:
        homes = [task.numa_node for task in placement.place(record, tasks)]
        busiest = max(homes.count(node) for node in homes)
        threads = max(1, len(hardware_record.numa_cores(record, homes[0])) // busiest)
    if min(nodes, tasks, threads) < 1:
        raise placement.LayoutError(f"{nodes} nodes, {tasks} tasks, {threads} threads: each must be at least 1")
    return Layout(nodes, tasks, threads)


def describe(record: Record, wanted: Layout) -> dict[str, t.Any]:
    """Return the placement, the options for each launcher and the warnings about a layout."""
    warnings = placement.warnings(record, wanted.tasks, wanted.threads)
    try:
        tasks = placement.place(record, wanted.tasks, wanted.threads)
    except placement.LayoutError as exc:
        tasks = placement.place(record, wanted.tasks)
        warnings.append(f"{exc}. Tasks share the whole NUMA node below")
    return {
        "vm_size": record["name"],
        "nodes": wanted.nodes,
        "tasks_per_node": wanted.tasks,
        "threads_per_task": wanted.threads,
        "numa_nodes": [_numa_node(record, node) for node in range(int(record["numa_nodes"]))],
        "tasks": [_task(task) for task in tasks],
        "srun": _srun(record, wanted, tasks),
        "openmpi": _openmpi(wanted, tasks),
        "intelmpi": _intelmpi(wanted, tasks),
        "warnings": warnings,
    }


def _numa_node(record: Record, node: int) -> dict[str, t.Any]:
    cpus = hardware_record.numa_cpus(record, node)
    return {
        "node": node,
        "cpus": hardware_record.ranges(cpus),
        "mask": hardware_record.hex_mask(cpus),
        "gpus": [gpu["index"] for gpu in record["topology"] if gpu["numa_node"] == node],
    }


def _task(task: Task) -> dict[str, t.Any]:
    return {
        "task": task.task,
        "gpus": task.gpus,
        "numa_node": task.numa_node,
        "cpus": hardware_record.ranges(task.cpus),
        "cores": hardware_record.ranges(task.cores),
        "mask": hardware_record.hex_mask(task.cpus),
    }


def _srun(record: Record, wanted: Layout, tasks: list[Task]) -> str:
    words = [
        "srun --mpi=pmix --exclusive",
        f"--nodes={wanted.nodes} --ntasks-per-node={wanted.tasks} --cpus-per-task={wanted.threads}",
    ]
    if record["gpus"]["count"]:
        words.append(f"--gpus-per-node={record['gpus']['count']}")
    words.append(f"--cpu-bind=mask_cpu:{','.join(hardware_record.hex_mask(task.cpus) for task in tasks)}")
    return " ".join(words)


def _openmpi(wanted: Layout, tasks: list[Task]) -> dict[str, t.Any]:
    """Return a rank file, which uses logical core numbers, and its option in each generation of Open MPI."""
    head = f"mpirun --np {wanted.nodes * wanted.tasks}"
    return {
        "rankfile": [
            f"rank {node * wanted.tasks + task.task}=+n{node} slot={hardware_record.ranges(task.cores)}"
            for node in range(wanted.nodes)
            for task in tasks
        ],
        "command": f"{head} --map-by rankfile:file=RANKFILE",
        "command_version_4": f"{head} --rankfile RANKFILE",
    }


def _intelmpi(wanted: Layout, tasks: list[Task]) -> str:
    masks = ",".join(f"{hardware_record.mask(task.cpus):x}" for task in tasks)
    return f"mpirun -n {wanted.nodes * wanted.tasks} -ppn {wanted.tasks} -genv I_MPI_PIN_DOMAIN=[{masks}]"
