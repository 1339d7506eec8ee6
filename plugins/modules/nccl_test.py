#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module that measures collective operations with nccl-tests."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_test
short_description: Measure collective operations with nccl-tests in Slurm jobs
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Runs programs of nccl-tests, or any program with the same arguments and output table, on groups of nodes, and
    returns the figures.
  - Measures all groups in one allocation. Groups that share no node are measured in parallel.
  - The figure of a measurement is the out-of-place bus bandwidth at the largest size. It is not the average over all
    sizes, which depends on the range of sizes.
  - A measurement that failed, hung, was interrupted or returned wrong results has V(failed) in its RV(results[].state)
    and no bandwidth. The module itself fails only without an allocation, or if the allocation ended before the first
    measurement.
  - A measurement for which the allocation had no time left has V(not_measured), because it says nothing about its
    nodes.
  - A table whose printed average is not the mean of its rows, whose sizes do not grow by one factor, or that has a row
    twice, is no measurement. Nor are programs that each ran alone, because they were built without MPI.
  - Accepts the output of nccl-tests since 2.13 (August 2022), with the prefixes and time stamps of mpirun, prterun,
    mpich, torchrun and srun, and mixed with lines of NCCL.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._slurm_allocation
attributes:
  check_mode:
    support: full
    details: Nothing is run in check mode, and RV(results) is empty.
  diff_mode:
    support: N/A
    details: This module measures.
  idempotent:
    support: N/A
    details: This module measures each time.
options:
  groups:
    description:
      - Names of the nodes of each group. Each operation is measured on each group.
    type: list
    elements: list
    required: true
  collectives:
    description:
      - Names of the operations as nccl-tests writes them.
    type: list
    elements: str
    default: [all_reduce]
  command:
    description:
      - Program with its first arguments. V({collective}) in it is replaced by the name of the operation.
      - The module appends the sizes and the number of iterations as options of nccl-tests.
    type: list
    elements: str
    default: ["{collective}_perf"]
  tasks_per_node:
    description:
      - Processes per node, usually one per GPU.
    type: int
    default: 1
  cpus_per_task:
    description:
      - CPUs of each process.
    type: int
  cpu_bind:
    description:
      - Value for C(srun --cpu-bind), such as V(mask_cpu:ff,ff00).
    type: str
  gpus_per_node:
    description:
      - GPUs of each node.
    type: int
  mpi:
    description:
      - Value for C(srun --mpi).
    type: str
    default: pmix
  container_image:
    description:
      - Container image with the program, started by pyxis.
    type: str
  container_mounts:
    description:
      - Mounts of the container, in the format of pyxis.
    type: list
    elements: str
    default: []
  environment:
    description:
      - Environment variables of the program.
    type: dict
    default: {}
  min_bytes:
    description:
      - Smallest message, such as V(8) or V(1M).
    type: str
    default: 1M
  max_bytes:
    description:
      - Largest message, such as V(8G).
    type: str
    default: 4G
  factor:
    description:
      - Factor between the sizes.
    type: int
    default: 2
  iterations:
    description:
      - Iterations per size.
    type: int
    default: 20
  repeat:
    description:
      - Number of repetitions of each measurement.
    type: int
    default: 1
  timeout:
    description:
      - Time limit of one measurement in seconds.
    type: int
    default: 300
seealso:
  - module: hpcai.gpucluster.slurm_job
"""

EXAMPLES = r"""
- name: Measure all-reduce between two nodes
  hpcai.gpucluster.nccl_test:
    groups: [[gpu1, gpu2]]
    tasks_per_node: 8
    gpus_per_node: 8
    max_bytes: 8G
  register: __nccl

- name: Measure two pairs at the same time, in a container
  hpcai.gpucluster.nccl_test:
    groups:
      - [gpu1, gpu2]
      - [gpu3, gpu4]
    container_image: /shared/images/nccl-tests.sqsh
    command: ["/opt/nccl-tests/{collective}_perf"]
    tasks_per_node: 8
    gpus_per_node: 8
    environment: {NCCL_DEBUG: WARN}
"""

RETURN = r"""
job_id:
  description: ID of the job that held the nodes.
  returned: when something was measured
  type: int
results:
  description: One entry per group, operation and repetition, in that order.
  returned: always
  type: list
  elements: dict
  contains:
    nodes:
      description: Names of the nodes.
      type: list
      elements: str
    collective:
      description: Name of the operation.
      type: str
    state:
      description: V(ok), V(failed), or V(not_measured) if the job had already ended.
      type: str
    message:
      description: Reason why it failed or was not measured.
      type: str
    busbw:
      description:
        - Out-of-place bus bandwidth at the largest size, in GB/s; null unless the state is V(ok).
        - A run that did not reach the requested largest size, because of too little memory, has failed.
      type: float
      sample: 345.36
    largest:
      description: Largest size that was measured, in bytes.
      type: int
    checked:
      description: Whether the program verified its results.
      type: bool
    wrong:
      description: Whether the program found wrong results.
      type: bool
    rows:
      description: Size in bytes and bus bandwidth in GB/s, for each size.
      type: list
      elements: dict
    version:
      description: Version of nccl-tests, if the program prints it.
      type: str
    nccl:
      description: Version of NCCL, if the program prints it.
      type: str
    world:
      description:
        - Number of processes in one communicator; V(1) if each process ran alone, as when MPI and C(srun --mpi) do not
          match.
      type: int
    hosts:
      description: Number of machines of these processes.
      type: int
    devices:
      description: Names of their GPUs, as the program prints them.
      type: list
      elements: str
    rc:
      description: Exit status; 124 after a timeout.
      type: int
    seconds:
      description: Duration in seconds.
      type: float
    log:
      description: End of the output, if it failed.
      type: str
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import perf_tests
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import allocation
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import job as slurm_job


def measurements(params: dict[str, t.Any]) -> list[tuple[list[str], str]]:
    """Return groups and operations in the order of measurement."""
    return [
        (list(group), collective)
        for group in params["groups"]
        for collective in params["collectives"]
        for _repetition in range(params["repeat"])
    ]


def step(params: dict[str, t.Any], nodes: list[str], collective: str) -> slurm_job.Step:
    """Return the step of one measurement."""
    return slurm_job.Step(
        name=params["name"],
        nodes=tuple(nodes),
        options=tuple(step_options(params, len(nodes))),
        command=tuple(program(params, collective)),
        limit=params["timeout"],
    )


def step_options(params: dict[str, t.Any], nodes: int) -> list[str]:
    """Return the options of srun."""
    environment = ["ALL", *(f"{name}={value}" for name, value in sorted(params["environment"].items()))]
    return slurm_job.options(
        {
            "mpi": params["mpi"],
            "ntasks": str(nodes * params["tasks_per_node"]),
            "ntasks_per_node": str(params["tasks_per_node"]),
            "cpus_per_task": params["cpus_per_task"] and str(params["cpus_per_task"]),
            "cpu_bind": params["cpu_bind"],
            "gpus_per_node": params["gpus_per_node"] and str(params["gpus_per_node"]),
            "container_image": params["container_image"],
            "container_mounts": params["container_mounts"],
            "export": environment,
        }
    )


def program(params: dict[str, t.Any], collective: str) -> list[str]:
    """Return the program and its arguments."""
    command = [part.replace("{collective}", collective) for part in params["command"]]
    sizes = ["-b", params["min_bytes"], "-e", params["max_bytes"], "-f", str(params["factor"])]
    return [*command, *sizes, "-n", str(params["iterations"]), "-c", "1", "-g", "1"]


def result(nodes: list[str], collective: str, found: slurm_job.Result, params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Return one measurement."""
    report = perf_tests.parse(f"{found.stdout}\n{found.stderr}")
    ranks = sorted(rank["rank"] for rank in report.ranks)
    problem = (
        f"{found.lost} before this was measured"
        if found.lost
        else perf_tests.problem(report, found.code)
        or perf_tests.too_small(report, params["min_bytes"], params["max_bytes"], params["factor"])
    )
    state = "not_measured" if found.lost else "failed" if problem else "ok"
    return {
        "nodes": nodes,
        "collective": collective,
        "state": state,
        "message": problem or "",
        "busbw": None if problem else report.busbw,
        "largest": report.largest,
        "checked": report.checked,
        "wrong": report.out_of_bounds_ok is False,
        "rows": [{"size": row.size, "busbw": row.out_of_place.busbw} for row in report.rows],
        "version": report.version,
        "nccl": report.nccl,
        "world": len(ranks) if ranks == list(range(len(ranks))) else 1,
        "hosts": len({rank["host"] for rank in report.ranks}),
        "devices": sorted({rank["name"] for rank in report.ranks}),
        "rc": found.code,
        "seconds": round(found.seconds, 2),
        "log": f"{found.stdout}\n{found.stderr}"[-4000:] if problem else "",
    }


def measure(slurm: slurm_job.Slurm, params: dict[str, t.Any]) -> dict[str, t.Any]:
    """Allocate the nodes, run all tests, and release the nodes."""
    if not all(params["groups"]):
        raise slurm_job.SlurmError(
            "groups has a group without nodes; a job for it could run on nodes that nobody named"
        )
    wanted = measurements(params)
    names = list(dict.fromkeys(node for nodes, _collective in wanted for node in nodes))
    with allocation.allocation(slurm, params, names) as job:
        found = slurm.steps(job.id, [step(params, *item) for item in wanted])
    if all(one.lost for one in found):
        raise slurm_job.SlurmError(f"{found[0].lost} before anything was measured")
    return {
        "changed": False,
        "job_id": job.id,
        "results": [result(*item, one, params) for item, one in zip(wanted, found)],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **allocation.ALLOCATION,
            "groups": {"type": "list", "elements": "list", "required": True},
            "collectives": {"type": "list", "elements": "str", "default": ["all_reduce"]},
            "command": {"type": "list", "elements": "str", "default": ["{collective}_perf"]},
            "tasks_per_node": {"type": "int", "default": 1},
            "cpus_per_task": {"type": "int"},
            "cpu_bind": {"type": "str"},
            "gpus_per_node": {"type": "int"},
            "mpi": {"type": "str", "default": "pmix"},
            "container_image": {"type": "str"},
            "container_mounts": {"type": "list", "elements": "str", "default": []},
            "environment": {"type": "dict", "default": {}},
            "min_bytes": {"type": "str", "default": "1M"},
            "max_bytes": {"type": "str", "default": "4G"},
            "factor": {"type": "int", "default": 2},
            "iterations": {"type": "int", "default": 20},
            "repeat": {"type": "int", "default": 1},
            "timeout": {"type": "int", "default": 300},
        },
        supports_check_mode=True,
    )
    if module.check_mode or not module.params["groups"]:
        module.exit_json(changed=False, results=[])
    try:
        found = measure(allocation.slurm(), module.params)
    except slurm_job.SlurmError as exc:
        module.fail_json(msg=str(exc))
    module.exit_json(**found)


if __name__ == "__main__":
    main()
