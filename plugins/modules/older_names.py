#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action older_names."""

from __future__ import annotations

DOCUMENTATION = r"""
module: older_names
short_description: Translate the variables of DeepOps into inputs of this collection
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Reads the variables of DeepOps that an inventory sets.
  - Returns the inputs of this collection that they mean, the groups that their machines belong to, and a summary.
  - An input that the inventory sets itself is never changed.
  - An inventory is one of DeepOps if it has the group V(slurm-master) and a variable that only DeepOps has.
    For other inventories, it returns nothing.
  - It is an action. It runs on the control node, needs no connection and sends nothing to a managed node.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  hosts:
    description: Inventory names of the hosts whose variables are translated.
    type: list
    elements: str
    required: true
"""

EXAMPLES = r"""
- name: Read the variables of the other project
  hpcai.gpucluster.older_names:
    hosts: "{{ ansible_play_hosts_all }}"
  run_once: true
  register: older
"""

RETURN = r"""
inputs:
  description: Inputs of this collection by inventory name.
  returned: always
  type: dict
  sample: {gpu01: {slurm_pam_adopt: true, gpucluster_vm_size: auto}}
groups:
  description:
    - Machines, each with groups of this collection that it must be added to.
  returned: always
  type: list
  elements: dict
  sample: [{name: login01, groups: [slurm_database]}]
summary:
  description:
    - RV(ignore:summary.used) are the variables that keep their meaning.
    - RV(ignore:summary.mapped) are variables with the inputs that they set.
    - RV(ignore:summary.ignored) are variables without effect, with what to set instead.
    - Empty if the inventory is none of these projects.
  returned: always
  type: dict
"""
