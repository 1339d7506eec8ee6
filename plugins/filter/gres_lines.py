# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the lines of gres.conf for the GPUs of a machine."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import node_lines

DOCUMENTATION = r"""
name: gres_lines
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return the lines of gres.conf for the GPUs of a machine
description:
  - The lines list the device files and the cores close to each GPU. Slurm therefore needs no NVML library and knows the
    GPUs of a node that is off.
  - C(Cores) are logical cores as Slurm counts them, not the CPU ids of Linux. They are missing if the record has no
    topology.
positional: nodes, numa_as_sockets, device
options:
  _input:
    description: A hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
    type: dict
    required: true
  nodes:
    description:
      - Host list for C(NodeName=), such as V(gpu[1-400]).
      - If not set, the lines apply to every node that reads them.
    type: str
  numa_as_sockets:
    description:
      - Whether Slurm treats every NUMA node as a socket if a socket has several NUMA nodes, as on ND A100 v4.
      - Slurm refuses C(Cores) of a GPU that do not end at a socket boundary. With this option, it knows which cores are
        closest to the GPU. It requires C(SlurmdParameters=numa_node_as_socket) and Slurm 22.05 or newer.
    type: bool
    default: true
  device:
    description: Prefix of the path of the device files. The index of the GPU follows.
    type: str
    default: /dev/nvidia
seealso:
  - plugin: hpcai.gpucluster.vm_size
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the lines
  ansible.builtin.debug:
    msg: "{{ 'Standard_ND96isr_H100_v5' | hpcai.gpucluster.vm_size | hpcai.gpucluster.gres_lines('gpu[1-400]') }}"
# - NodeName=gpu[1-400] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-47
# - NodeName=gpu[1-400] Name=gpu Type=h100 File=/dev/nvidia[4-7] Cores=48-95
"""

RETURN = r"""
_value:
  description: The lines, one per range of GPUs with the same cores. Empty if the machine has no GPUs.
  type: list
  elements: str
"""


def gres_lines(
    record: t.Any, nodes: str | None = None, numa_as_sockets: bool = True, device: str = "/dev/nvidia"
) -> list[str]:
    """Return the lines of gres.conf for the GPUs of a machine."""
    try:
        return node_lines.gres_lines(record, nodes, numa_as_sockets, device, "hpcai.gpucluster.gres_lines")
    except records.CatalogueError as exc:
        raise AnsibleFilterError(str(exc)) from exc


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"gres_lines": gres_lines}
