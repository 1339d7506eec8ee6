#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action vm_sizes."""

from __future__ import annotations

DOCUMENTATION = r"""
module: vm_sizes
short_description: Find the VM sizes of machines by their hardware
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Compares results of M(hpcai.gpucluster.machine_info) with the hardware catalogue, and writes the VM sizes to a file
    on the control node. P(hpcai.gpucluster.cluster_nodes#filter) reads it for hosts with C(gpucluster_vm_size=auto).
  - A size fits only if GPUs, CPUs, NUMA nodes, memory, drives and adapters fit. Otherwise the task fails. Its message
    has the nearest size and each difference.
  - It is an action. It runs on the control node, needs no connection and sends nothing to a managed node.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  machines:
    description: Results of M(hpcai.gpucluster.machine_info) by inventory name. One without C(machine) failed.
    type: dict
    required: true
  path:
    description: The file. Sizes of other hosts stay in it.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Find the VM sizes
  hpcai.gpucluster.vm_sizes:
    machines: "{{ dict(ansible_play_hosts_all | zip(ansible_play_hosts_all | map('extract', hostvars, 'machine'))) }}"
    path: /var/cache/vm_sizes.json
  run_once: true
"""

RETURN = r"""
sizes:
  description: VM sizes by inventory name.
  returned: always
  type: dict
  sample: {gpu1: DGX_H100}
"""
