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
  - Looks up a VM size in the hardware catalogue of the collection, or checks a record of the site.
  - The key of a number contains its unit. The result has only the optional keys of the record. RV(_value.nvme),
    RV(_value.infiniband), RV(_value.topology), RV(_value.nccl), RV(_value.environment) and RV(_value.thresholds) are
    always present.
  - Fails if the name is unknown or the record is invalid. The message lists the known names, or every error of the
    record.
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
      - A record of the site, usually C(gpucluster_vm_size_record).
      - If it is set and not empty, it has precedence over the catalogue, regardless of O(_input).
    type: dict
  variable:
    description:
      - Name of the variable that holds the record O(_input), such as the input C(gpu_hardware) of a role.
      - The filter then checks that record. Its message names the variable if the record is missing or invalid.
    type: str
"""

EXAMPLES = r"""
- name: Show the number of GPUs and their highest clock in MHz
  ansible.builtin.debug:
    msg: "{{ record.gpus.count }} x {{ record.gpus.clocks.graphics }}"
  vars:
    record: "{{ 'Standard_ND96isr_H100_v5' | hpcai.gpucluster.vm_size }}"

- name: Prefer the record of the site
  ansible.builtin.debug:
    msg: "{{ (gpucluster_vm_size | hpcai.gpucluster.vm_size(gpucluster_vm_size_record)).numa_nodes }}"

- name: Refuse a record that is missing or invalid
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
      description: CPUs as C(lscpu) shows them, V(sockets), V(cores_per_socket), V(threads_per_core), and the id order.
      type: dict
    numa_nodes:
      description: Number of NUMA nodes.
      type: int
    memory_mib:
      description: Memory that the operating system reports, in MiB.
      type: int
    memory_tolerance_percent:
      description: Maximum deviation from that memory on a healthy machine, in percent.
      type: float
    gpus:
      description: The GPUs, V(count), V(model), V(memory_mib) in MiB, V(clocks) in MHz. V(count) is always present.
      type: dict
    nvme:
      description: Local NVMe drives, V(count).
      type: dict
    infiniband:
      description:
        - The fabric, V(rate_gbps) in 10^9 bits per second and V(hcas), the RDMA devices.
        - Zero and empty if there is no fabric.
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
      description: Settings for NCCL, V(family), V(topology_file), V(max_message_gib), V(environment).
      type: dict
    environment:
      description: Other environment variables for jobs on this size.
      type: dict
    thresholds:
      description:
        - By measurement, a mapping with V(expected), V(warn) and V(fail), each only if it is known.
        - V(_gbps) is 10^9 bytes per second, V(_gbitps) is 10^9 bits per second.
        - V(_us) is microseconds. Lower values are better.
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
