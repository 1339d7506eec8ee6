#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action check_controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: check_controller
short_description: Refuse what a controller of Slurm would refuse later, before any machine is changed
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Refuses a release of Slurm to which the cluster cannot change, as M(hpcai.gpucluster.slurm_release) does, and a
    configuration that would lose running jobs, such as another name of the cluster, as M(hpcai.gpucluster.slurm_config)
    does.
  - Refuses another UID of a user, and the removal of a user, while Slurm has jobs of this user, also pending ones. If
    Slurm does not answer, this is refused, too.
  - Refuses a new accounting database for a cluster that has had one.
  - It is an action. It reads on the controller, and decides on the control node.
  - With O(silent=true), it refuses the changes of users only.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
  - hpcai.gpucluster._attributes.info_module
options:
  inputs:
    description: The inputs of the role C(slurm) by name. C(slurm_allow_job_loss) also allows changes of users who have
      jobs.
    type: dict
    required: true
  upgrade:
    description: Whether another major release of Slurm is allowed.
    type: bool
    default: false
  users:
    description: The users of the machines, in the form of M(hpcai.gpucluster.accounts).
    type: list
    elements: raw
    default: []
  removed:
    description: Users to be removed, in the same form. Those with C(force=true) are removed with their jobs.
    type: list
    elements: raw
    default: []
  user_jobs_seconds:
    description: Time to wait for the jobs of users, in seconds, before the refusal.
    type: int
    default: 0
  database:
    description: The result of M(hpcai.gpucluster.slurm_database_info). Without C(clusters), they are unknown.
    type: dict
    default: {}
  new_database:
    description: Whether the accounting of an existing cluster may begin anew.
    type: bool
    default: false
  users_only:
    description: Whether only changes of users are refused, because the run changes nothing of Slurm.
    type: bool
    default: false
  silent:
    description: Whether no controller answers. The module then runs on another machine, and refuses each other UID and
      each removal there.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Refuse what the controller refuses
  hpcai.gpucluster.check_controller:
    inputs: "{{ slurm_inputs }}"
    users: "{{ users_accounts }}"
    removed: "{{ users_deleted }}"
  become: true
  delegate_to: control
"""

RETURN = r"""
problems:
  description: All reasons for the refusal.
  returned: failure
  type: list
  elements: str
  sample: ["users_accounts (alice): uid 2001 becomes 2101: Slurm has jobs of this user: 17 (RUNNING on gpu1)"]
"""
