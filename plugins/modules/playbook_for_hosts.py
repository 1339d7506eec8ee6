#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action playbook_for_hosts."""

from __future__ import annotations

DOCUMENTATION = r"""
module: playbook_for_hosts
short_description: Run a playbook of this collection for some hosts only
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Runs a playbook of this collection as C(ansible-playbook --limit) does, in a process of its own, and prints its
    output. A playbook cannot limit itself to hosts that it has created.
  - The other run gets the inventories, extra variables, users, keys, vault and password files of this run. It cannot
    ask for a password.
  - The playbook C(azure_scale) uses it to join new nodes.
  - It is an action. It runs on the control node.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: partial
    details: The other run does not start, and the result is changed if there are hosts.
  diff_mode:
    support: partial
    details: The other run prints the differences.
  idempotent:
    support: full
options:
  playbook:
    description: Name of the playbook, such as V(site).
    type: str
    required: true
  hosts:
    description: The hosts. Without any, nothing runs.
    type: list
    elements: str
    required: true
  variables:
    description: More extra variables for the other run.
    type: dict
    default: {}
  seconds:
    description: Time limit in seconds. The other run is killed after it.
    type: int
    default: 7200
"""

EXAMPLES = r"""
- name: Join two nodes
  hpcai.gpucluster.playbook_for_hosts:
    playbook: site
    hosts: [gpu3, gpu4]
  delegate_to: localhost
"""

RETURN = r"""
rc:
  description: Exit status of the other run.
  returned: success
  type: int
hosts:
  description: The numbers C(changed), C(unreachable) and C(failed) by host.
  returned: success
  type: dict
command:
  description: The command.
  returned: success
  type: list
  elements: str
"""
