#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action slurm_config."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_config
short_description: Bring Slurm's configuration to a controller, and have the daemons use it
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Renders C(slurm.conf), C(cgroup.conf), C(gres.conf), C(mpi.conf), C(topology.conf) and others from the inputs of the
    role C(slurm), compares them with those of the controller, and applies a change by the least disruptive way,
    nothing, C(scontrol reconfigure), or the restart of slurmctld.
  - What has to be done is noted on the controller before a file is written, so that the next run does it if this one is
    interrupted.
  - A change that would lose running jobs is refused.
  - It is an action. Decisions are made on the control node; a controller that has the wanted files is asked once.
extends_documentation_fragment:
  - hpcai.gpucluster._attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  inputs:
    description: The inputs of the role C(slurm) by name.
    type: dict
    required: true
seealso:
  - plugin: hpcai.gpucluster.slurm_config_action
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Configure the cluster
  hpcai.gpucluster.slurm_config:
    inputs: "{{ slurm_inputs }}"
  become: true
"""

RETURN = r"""
cgroup:
  description: Whether control groups contain jobs.
  returned: success
  type: bool
files:
  description: Names of the files that were written.
  returned: success
  type: list
  elements: str
actions:
  description: What was done so that the daemons use the files, as P(hpcai.gpucluster.slurm_config_action#filter) says.
  returned: success
  type: list
  elements: dict
"""
