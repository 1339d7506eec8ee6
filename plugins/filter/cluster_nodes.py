# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter cluster_nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: cluster_nodes
short_description: Group the nodes of the cluster by hardware
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads the variables C(gpucluster_vm_size) (or C(azure_vm_size) or C(virtual_machine_size)),
    C(gpucluster_vm_size_record) and C(slurm_node_config) of each host and groups hosts with equal values.
  - The files of Slurm then have one line for each kind of machine instead of one for each machine.
  - Does not need the facts of any host.
  - Fails if a host has an unknown VM size, or no VM size unless O(unsized=skip). The message names the host.
extends_documentation_fragment:
  - hpcai.gpucluster._cluster_hosts
options:
  unsized:
    description: Action for a host without a VM size and without a record, V(fail) or V(skip).
    type: str
    choices: [fail, skip]
    default: fail
  sizes:
    description:
      - File with the VM sizes of hosts whose C(gpucluster_vm_size) is V(auto).
      - M(hpcai.gpucluster.vm_sizes) writes it.
    version_added: 0.3.0
    type: path
    default: ""
"""

EXAMPLES = r"""
- name: Show the kinds of machines
  ansible.builtin.debug:
    msg: "{{ groups['slurm_compute'] | hpcai.gpucluster.cluster_nodes(hostvars) }}"
"""

RETURN = r"""
_value:
  description: One mapping for each kind of machine.
  type: list
  elements: dict
  contains:
    hosts:
      description: Inventory names as a hostlist expression of Slurm, such as V(gpu[1-400]).
      type: str
    record:
      description: The hardware record, as P(hpcai.gpucluster.vm_size#filter) returns it.
      type: dict
    config:
      description: Parameters that C(slurm_node_config) adds to the node line.
      type: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import nodes


def cluster_nodes(hosts: list[str], hostvars: t.Any, unsized: str = "fail", sizes: str = "") -> list[dict[str, t.Any]]:
    """Return the nodes, grouped by hardware."""
    if unsized not in ("fail", "skip"):
        raise AnsibleFilterError(f"hpcai.gpucluster.cluster_nodes: unsized is {unsized!r}, it must be fail or skip")
    try:
        return nodes.group(hosts, hostvars, skip=unsized == "skip", sizes=sizes)
    except nodes.NodeError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.cluster_nodes: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters of this file."""
        return {"cluster_nodes": cluster_nodes}
