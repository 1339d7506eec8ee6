# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return how to pin the tasks of a job beside their GPUs."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import pinning as validation_pinning

DOCUMENTATION = r"""
name: pinning
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return how to pin the tasks of a job beside their GPUs
description:
  - Where each task of a node belongs, the options of C(srun), Open MPI and Intel MPI that put it there, and what is not
    good about the layout.
  - GPUs are dealt to the tasks in their order, so a program must take the GPUs of its local rank, in the order of
    E(CUDA_DEVICE_ORDER) V(PCI_BUS_ID).
  - Fails if a number is below one. A layout that does not fit is warned about.
positional: nodes, tasks_per_node, threads_per_task
options:
  _input:
    description: A hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
    required: true
  nodes:
    description: Nodes of the job.
    type: int
    default: 1
  tasks_per_node:
    description: Tasks on each node. One per GPU if not given, or one per NUMA node on a machine without GPUs.
    type: int
  threads_per_task:
    description: CPUs of each task. If not given, the cores of a NUMA node are shared out among its tasks.
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
      description: Nodes of the job.
      type: int
    tasks_per_node:
      description: Tasks on each node.
      type: int
    threads_per_task:
      description: CPUs of each task.
      type: int
    numa_nodes:
      description: The NUMA nodes of the machine, V(node), V(cpus) as CPU ids of Linux, V(mask), V(gpus).
      type: list
      elements: dict
    tasks:
      description:
        - The tasks of a node, V(task), V(gpus), V(numa_node), V(cpus) as CPU ids of Linux, V(cores) as logical cores
          and V(mask).
      type: list
      elements: dict
    srun:
      description: Start of the command line for Slurm.
      type: str
    openmpi:
      description:
        - For Open MPI, V(rankfile) as lines to write into a file, V(command) that names it, and V(command_version_4)
          for releases before 5. The cores in it are logical ones.
      type: dict
    intelmpi:
      description: Start of the command line for Intel MPI.
      type: str
    warnings:
      description: What is not good about the layout, and what to do instead.
      type: list
      elements: str
"""


def pinning(
    record: t.Any, nodes: int = 1, tasks_per_node: int | None = None, threads_per_task: int | None = None
) -> dict[str, t.Any]:
    """Return how to pin the tasks of a job beside their GPUs."""
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
