#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action check_input."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_input
short_description: Refuse wrong input before any managed node is touched
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Checks the inputs of one role on the host of the task, with their defaults, or the inputs of all roles and playbooks
    of the collection for many hosts, with the defaults of the roles that site.yml applies to them. Hosts with equal
    inputs are checked once.
  - Finds values of the wrong type, values that are not allowed, and values that contradict each other. For many hosts,
    it also finds unknown names that look like an input, and faults of the groups and host names of the inventory.
  - Each message has the variable, the value that was found and the values that are allowed. For many hosts, it names
    the hosts unless it is about all of them. Secrets are never shown.
  - A value that refers to facts that are not gathered yet is skipped. The role checks it when it runs.
  - It is an action. It runs on the control node, needs no connection and sends nothing to a managed node.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  role:
    description:
      - Name of the role, such as V(nfs), whose inputs are checked.
      - Either O(role) or O(hosts) is required.
    type: str
  entry_point:
    description: Entry point of the role whose inputs are checked. The default is those of all entry points.
    type: str
  hosts:
    description: Inventory names of the hosts whose inputs are checked, as the inventory sets them.
    type: list
    elements: str
  main:
    description:
      - The host of O(hosts) whose inputs are those of the whole cluster, such as the first controller.
      - Required with O(hosts).
    type: str
  vm_sizes:
    description: File with the VM sizes that M(hpcai.gpucluster.vm_sizes) has found.
    type: path
"""

EXAMPLES = r"""
- name: Refuse wrong input of the NFS server
  hpcai.gpucluster.check_input:
    role: nfs
    entry_point: server

- name: Refuse wrong input of the cluster
  hpcai.gpucluster.check_input:
    hosts: "{{ ansible_play_hosts_all }}"
    main: "{{ groups['slurm_controller'] | first }}"
  run_once: true
"""

RETURN = r"""
late:
  description:
    - Hosts with an input that refers to facts that are not gathered yet. Check it with O(role) when the facts exist.
  returned: with O(hosts)
  type: list
  elements: str
  sample: [gpu1]
auto:
  description:
    - Compute nodes with C(gpucluster_vm_size=auto) that are not in the file O(vm_sizes).
    - The inputs of roles are not checked for them.
  returned: with O(hosts)
  type: list
  elements: str
  sample: [gpu2]
sets:
  description: Number of sets of hosts with equal inputs and equal groups of the collection.
  returned: with O(hosts)
  type: int
  sample: 3
"""
