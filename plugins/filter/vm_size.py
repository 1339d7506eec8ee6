# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the hardware record of a VM size."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

DOCUMENTATION = r"""
name: vm_size
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Return the hardware record of a VM size
description:
  - Looks up a VM size in the hardware catalogue of the collection, or checks a record that the site gives.
  - Numbers carry their unit in the key. The result has no optional keys that the record does not give,
    but RV(_value.nvme), RV(_value.infiniband), RV(_value.topology), RV(_value.nccl), RV(_value.environment) and
    RV(_value.thresholds) are always there.
  - Fails if the name is unknown, naming the known ones, or if the record is not of the right form, naming every fault.
positional: record
options:
  _input:
    description:
      - Name of the VM size, such as V(Standard_ND96isr_H100_v5); case does not matter.
      - With O(variable), a record.
    type: raw
    required: true
  record:
    description:
      - A record of the site's own, usually C(gpucluster_vm_size_record).
      - It wins over the catalogue when it is given and not empty, whatever O(_input) is.
    type: dict
  variable:
    description:
      - Name of the variable that holds the record O(_input), such as the input C(gpu_hardware) of a role.
      - The filter then checks that record. It names the variable where the record is missing or wrong.
    type: str
seealso:
  - plugin: hpcai.gpucluster.slurm_node_hardware
    plugin_type: filter
  - plugin: hpcai.gpucluster.gres_lines
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show the number of GPUs and their highest clock in MHz
  ansible.builtin.debug:
    msg: "{{ record.gpus.count }} x {{ record.gpus.clocks.graphics }}"
  vars:
    record: "{{ 'Standard_ND96isr_H100_v5' | hpcai.gpucluster.vm_size }}"

- name: Let the record of the site win
  ansible.builtin.debug:
    msg: "{{ (gpucluster_vm_size | hpcai.gpucluster.vm_size(gpucluster_vm_size_record)).numa_nodes }}"

- name: Refuse a record that is missing or wrong
  ansible.builtin.debug:
    msg: "{{ (gpu_hardware | hpcai.gpucluster.vm_size(variable='gpu_hardware')).gpus.count }}"
"""

RETURN = r"""
_value:
  description: The record.
  type: dict
  contains:
    name:
      description: Name of the VM size.
      type: str
    cpus:
      description: What C(lscpu) shows, V(sockets), V(cores_per_socket), V(threads_per_core), and how CPU ids run.
      type: dict
    numa_nodes:
      description: Number of NUMA nodes.
      type: int
    memory_mib:
      description: Memory that the operating system was seen to have, in MiB.
      type: int
    memory_tolerance_percent:
      description: How far the memory of a healthy machine may be from that, in percent.
      type: float
    gpus:
      description: The GPUs, V(count), V(model), V(memory_mib) in MiB, V(clocks) in MHz. V(count) is always there.
      type: dict
    nvme:
      description: Local NVMe drives, V(count).
      type: dict
    infiniband:
      description:
        - The fabric, V(rate_gbps) in 10^9 bits per second and V(hcas), the RDMA devices.
        - Zero and empty without one.
      type: dict
    accelerated_network:
      description: The RDMA device of the Ethernet interface, V(device) and V(rate_gbps). Missing if there is none.
      type: dict
    topology:
      description:
        - One mapping per GPU, V(index), V(numa_node), V(pci), V(hca), V(hca_pci), V(bridge).
        - Empty if it is not known.
      type: list
      elements: dict
    nccl:
      description: What NCCL needs, V(family), V(topology_file), V(max_message_gib), V(environment).
      type: dict
    environment:
      description: Other environment variables that jobs on this size want.
      type: dict
    thresholds:
      description:
        - By measurement, a mapping with V(expected), V(warn) and V(fail), each only where it is known.
        - V(_gbps) is 10^9 bytes per second, V(_gbitps) is 10^9 bits per second.
        - V(_us) is microseconds, where less is better.
      type: dict
"""


def vm_size(name: t.Any, record: t.Any = None, variable: str = "") -> dict[str, t.Any]:
    """Return the hardware record of a VM size, or the checked record of a variable."""
    try:
        return records.needed(name, variable) if variable else records.find(name, record)
    except records.CatalogueError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.vm_size: {exc}") from exc


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"vm_size": vm_size}
