# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the hardware part of a NodeName line of slurm.conf."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import node_lines

DOCUMENTATION = r"""
name: slurm_node_hardware
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return the hardware part of a NodeName line of slurm.conf
description:
  - Returns sockets, cores, threads, memory and GRES in the form of C(slurm.conf), in the order of the line.
  - The same record always results in the same line, regardless of the facts of the machine.
positional: memory_headroom_percent, numa_as_sockets
options:
  _input:
    description: A hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
    required: true
  memory_headroom_percent:
    description:
      - Part of the physical memory, in percent, that is not available to jobs.
      - It covers the operating system, and the difference between the advertised and the visible memory of a machine.
        Slurm drains a node that has less memory than its line states.
    type: float
    default: 5
  numa_as_sockets:
    description:
      - Whether Slurm treats every NUMA node as a socket if a socket has several NUMA nodes, as on ND A100 v4.
      - Slurm refuses C(Cores) of a GPU that do not end at a socket boundary. With this option, it knows which cores are
        closest to the GPU. It requires C(SlurmdParameters=numa_node_as_socket) and Slurm 22.05 or newer.
    type: bool
    default: true
seealso:
  - plugin: hpcai.gpucluster.vm_size
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the line of a node
  ansible.builtin.debug:
    msg: "NodeName=gpu[1-4] {{ hardware.items() | map('join', '=') | join(' ') }}"
  vars:
    hardware: "{{ 'Standard_ND96asr_v4' | hpcai.gpucluster.vm_size | hpcai.gpucluster.slurm_node_hardware }}"
# NodeName=gpu[1-4] Sockets=4 CoresPerSocket=24 ThreadsPerCore=1 RealMemory=861733 Gres=gpu:a100:8
"""

RETURN = r"""
_value:
  description: The parameters of the line by name. C(RealMemory) is in MiB. C(Gres) is missing if there are no GPUs.
  type: dict
  sample: {Sockets: 4, CoresPerSocket: 24, ThreadsPerCore: 1, RealMemory: 861733, Gres: "gpu:a100:8"}
"""


def slurm_node_hardware(
    record: t.Any, memory_headroom_percent: float = 5, numa_as_sockets: bool = True
) -> dict[str, t.Any]:
    """Return the hardware part of a NodeName line of slurm.conf."""
    name = "hpcai.gpucluster.slurm_node_hardware"
    try:
        return node_lines.node_hardware(record, memory_headroom_percent, numa_as_sockets, name)
    except records.CatalogueError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"slurm_node_hardware": slurm_node_hardware}
