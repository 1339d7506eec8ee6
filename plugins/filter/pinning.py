# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return how to pin the tasks of a job close to their GPUs."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import pinning as validation_pinning

DOCUMENTATION = r"""
name: pinning
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return how to pin the tasks of a job close to their GPUs
description:
  - Returns the CPUs and GPUs of each task of a node, the options of C(srun), Open MPI and Intel MPI for this layout,
    and warnings about the layout.
  - The tasks get the GPUs in order, so a program must use the GPUs of its local rank, in the order of
    E(CUDA_DEVICE_ORDER) V(PCI_BUS_ID).
  - Fails if a number is below one. A layout that does not fit the machine causes a warning.
positional: nodes, tasks_per_node, threads_per_task
options:
  _input:
    description: A hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
    required: true
  nodes:
    description: Number of nodes of the job.
    type: int
    default: 1
  tasks_per_node:
    description: Tasks per node. The default is one per GPU, or one per NUMA node on a machine without GPUs.
    type: int
  threads_per_task:
    description: CPUs per task. By default, the cores of a NUMA node are divided among its tasks.
    type: int
seealso:
  - plugin: hpcai.gpucluster.vm_size
    plugin_type: filter
  - module: hpcai.gpucluster.process_pinning_info
"""

EXAMPLES = r"""
- name: Show how to start a job on four nodes
  ansible.builtin.debug:
    msg: "{{ ('Standard_ND96asr_v4' | hpcai.gpucluster.vm_size | hpcai.gpucluster.pinning(nodes=4)).srun }}"
"""

RETURN = r"""
_value:
  description: The layout.
  type: dict
  contains:
    vm_size:
      description: Name of the record.
      type: str
    nodes:
      description: Number of nodes of the job.
      type: int
    tasks_per_node:
      description: Tasks per node.
      type: int
    threads_per_task:
      description: CPUs per task.
      type: int
    numa_nodes:
      description: The NUMA nodes of the machine, with V(node), V(cpus) as CPU ids of Linux, V(mask) and V(gpus).
      type: list
      elements: dict
    tasks:
      description:
        - The tasks of a node, with V(task), V(gpus), V(numa_node), V(cpus) as CPU ids of Linux, V(cores) as logical
          cores, and V(mask).
      type: list
      elements: dict
    srun:
      description: First part of the command line for Slurm.
      type: str
    openmpi:
      description:
        - For Open MPI, V(rankfile) with the lines of a rank file, V(command) with the command line that names the file,
          and V(command_version_4) for releases before 5. The rank file lists logical cores.
      type: dict
    intelmpi:
      description: First part of the command line for Intel MPI.
      type: str
    warnings:
      description: Problems of the layout, and how to correct them.
      type: list
      elements: str
"""


def pinning(
    record: t.Any, nodes: int = 1, tasks_per_node: int | None = None, threads_per_task: int | None = None
) -> dict[str, t.Any]:
    """Return how to pin the tasks of a job close to their GPUs."""
    try:
        record = records.checked(record, "hpcai.gpucluster.pinning")
        wanted = validation_pinning.layout(record, int(nodes), _whole(tasks_per_node), _whole(threads_per_task))
        return validation_pinning.describe(record, wanted)
    except records.CatalogueError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    except (TypeError, ValueError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.pinning: {exc}") from exc


def _whole(value: t.Any) -> int | None:
    return None if value is None else int(value)


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"pinning": pinning}
