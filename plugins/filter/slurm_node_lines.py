# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_node_lines."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_node_lines
short_description: The NodeName lines of slurm.conf
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - One line for each group of equal machines, with hardware from the catalogue, for the filter
    P(hpcai.gpucluster.slurm_conf#filter).
positional: memory_headroom_percent
options:
  _input:
    description: Groups of nodes, as P(hpcai.gpucluster.cluster_nodes#filter) returns them.
    type: list
    elements: dict
    required: true
  memory_headroom_percent:
    description: Part of the physical memory, in percent, that is not offered to jobs.
    type: float
    default: 5
"""

EXAMPLES = r"""
- name: Show the lines
  ansible.builtin.debug:
    msg: "{{ groups['slurm_compute'] | hpcai.gpucluster.cluster_nodes(hostvars) | hpcai.gpucluster.slurm_node_lines }}"
"""

RETURN = r"""
_value:
  description: One mapping of keys of C(slurm.conf) for each line.
  type: list
  elements: dict
  sample:
    - {NodeName: "gpu[1-2]", Sockets: 1, CoresPerSocket: 2, ThreadsPerCore: 1, RealMemory: 972, State: UNKNOWN}
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_node_hardware import slurm_node_hardware


def slurm_node_lines(nodes: list[dict[str, t.Any]], memory_headroom_percent: float = 5) -> list[dict[str, t.Any]]:
    """Return the NodeName lines of slurm.conf, one for each group of nodes."""
    return [
        {
            "NodeName": group["hosts"],
            **slurm_node_hardware(group["record"], memory_headroom_percent),
            "State": "UNKNOWN",
            **group.get("config", {}),
        }
        for group in nodes
    ]


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"slurm_node_lines": slurm_node_lines}
