#!/usr/bin/python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action slurm_config."""

from __future__ import annotations

DOCUMENTATION = r"""
module: slurm_config
short_description: Write Slurm's configuration to a controller, and apply it to the daemons
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Renders C(slurm.conf), C(cgroup.conf), C(gres.conf), C(mpi.conf), C(topology.conf) and others from the inputs of the
    role C(slurm), and compares them with the files of the controller. Applies a change in the least disruptive way,
    which is nothing, C(scontrol reconfigure), or a restart of slurmctld.
  - Records the necessary actions on the controller before it writes a file, so that the next run completes an
    interrupted one.
  - Refuses a change that would lose running jobs.
  - It is an action. Decisions are made on the control node; a controller with the wanted files is read once.
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
  description: Names of the written files.
  returned: success
  type: list
  elements: str
actions:
  description:
    - The actions that applied the files to the daemons, one per changed file. C(action) is V(nothing),
      V(reconfigure) or V(restart). C(reconfigure) and C(restart) list the daemons, C(reasons) and C(warnings) are
      texts, and C(jobs_at_risk) says whether jobs could be lost.
  returned: success
  type: list
  elements: dict
"""
