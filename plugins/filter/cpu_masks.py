# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the CPU masks that put every task of a node beside its GPU."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import placement
from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

DOCUMENTATION = r"""
name: cpu_masks
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return the CPU masks that put every task of a node beside its GPU
description:
  - Masks are of CPU ids of Linux, in the order of the tasks of a node, as C(srun --cpu-bind=mask_cpu) takes them.
  - GPUs are dealt to the tasks in their order. Without O(threads_per_task) every task may use the whole NUMA node of
    its GPU; with it each task has cores of its own, one thread on each core as long as there are enough.
  - Fails if the tasks want more CPUs of a NUMA node than it has.
positional: tasks_per_node, threads_per_task
options:
  _input:
    description: A hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
    required: true
  tasks_per_node:
    description: Tasks on each node. One per GPU if not given, or one per NUMA node on a machine without GPUs.
    type: int
  threads_per_task:
    description: CPUs that each task needs.
    type: int
seealso:
  - plugin: hpcai.gpucluster.vm_size
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the binding for eight tasks of twelve threads
  ansible.builtin.debug:
    msg: "--cpu-bind=mask_cpu:{{ record | hpcai.gpucluster.cpu_masks(8, 12) | join(',') }}"
  vars:
    record: "{{ 'Standard_ND96asr_v4' | hpcai.gpucluster.vm_size }}"
"""

RETURN = r"""
_value:
  description: One mask per task.
  type: list
  elements: str
  sample: ["0xfff000000", "0xfff000000000"]
"""


def cpu_masks(record: t.Any, tasks_per_node: int | None = None, threads_per_task: int | None = None) -> list[str]:
    """Return the CPU masks that put every task of a node beside its GPU."""
    try:
        record = records.checked(record, "hpcai.gpucluster.cpu_masks")
        tasks = placement.default_tasks(record) if tasks_per_node is None else int(tasks_per_node)
        threads = None if threads_per_task is None else int(threads_per_task)
        placed = placement.place(record, tasks, threads)
    except records.CatalogueError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    except (TypeError, ValueError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.cpu_masks: {exc}") from exc
    return [hardware_record.hex_mask(task.cpus) for task in placed]


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"cpu_masks": cpu_masks}
