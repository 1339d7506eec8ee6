#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action check_input."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_input
short_description: Refuse wrong input before any machine is touched
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Judges the inputs of all roles and playbooks of the collection for many hosts, on the machine that runs Ansible.
    Hosts with equal inputs are judged once.
  - Finds values of the wrong type, values that are not allowed, unknown names that look like an input, and what is
    wrong with groups and names of the inventory.
  - Each sentence has the variable, what was found and what is allowed, and names the hosts unless it is about all. A
    secret is never shown.
  - A value that refers to facts is left to its role.
  - It is an action; it needs no connection and looks at no machine.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  hosts:
    description: Inventory names of the hosts whose inputs are judged.
    type: list
    elements: str
    required: true
  main:
    description: The one of them whose inputs are those of the whole cluster, such as the first controller.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Refuse wrong input
  hpcai.gpucluster.check_input:
    hosts: "{{ ansible_play_hosts_all }}"
    main: "{{ groups['slurm_controller'] | first }}"
  run_once: true
"""

RETURN = r"""
storage:
  description: One host of each kind of shared and local storage, whose roles judge what they alone know.
  returned: always
  type: list
  elements: str
sets:
  description: How many distinct sets of inputs there are.
  returned: always
  type: int
"""
