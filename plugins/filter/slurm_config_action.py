# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_config_action."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_config_action
short_description: The least disruptive way to bring a changed file to Slurm's daemons
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Compares two texts of a configuration file key by key and host by host, and says whether nothing is to be done, the
    daemons have to read the file again, or some of them have to restart. No daemon is ever to be stopped.
  - What a key needs is a table with its sources in Slurm's documentation, in C(plugin_utils/_slurm/actions.yml) beside
    the code.
  - Nodes that are added, removed or changed need a reconfigure from Slurm 24.11 on, and a restart of slurmctld and of
    every slurmd before.
positional: after, file, version, drained
options:
  _input:
    description: The text that is on disk. An empty one means that the file is not there yet.
    type: str
    required: true
  after:
    description: The text that is wanted.
    type: str
    required: true
  file:
    description: Name of the file, such as V(slurm.conf), V(cgroup.conf), V(gres.conf) or V(slurmdbd.conf).
    type: str
    default: slurm.conf
  version:
    description: The version of Slurm that runs.
    type: str
    default: "26.05"
  drained:
    description: Nodes without jobs that take no new ones; they may leave the configuration without a risk.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Find out what the new slurm.conf asks for
  ansible.builtin.set_fact:
    __slurm_action: "{{ old | hpcai.gpucluster.slurm_config_action(new, 'slurm.conf', '24.11.5') }}"
  vars:
    old: "NodeName=gpu[1-2] CPUs=96\n"
    new: "NodeName=gpu[1-3] CPUs=96\n"
"""

RETURN = r"""
_value:
  description: What is to be done, and why.
  type: dict
  contains:
    action:
      description: The most disruptive action that is needed.
      type: str
      choices: [nothing, reconfigure, restart]
    restart:
      description:
        - The daemons that restart, in this order.
        - V(slurmd) means those of all nodes that the change concerns, after slurmctld.
      type: list
      elements: str
    reconfigure:
      description:
        - The daemons that read the file again. V(slurmctld) stands for C(scontrol reconfigure), which reaches every
          slurmd, too, after a restart of slurmctld and before one of slurmd; V(slurmdbd) stands for SIGHUP.
      type: list
      elements: str
    jobs_at_risk:
      description: Whether jobs may be lost. The warnings say which and why.
      type: bool
    reasons:
      description: What changed. Passwords are not shown.
      type: list
      elements: str
    warnings:
      description: What else an operator has to know before the change.
      type: list
      elements: str
  sample:
    action: reconfigure
    restart: []
    reconfigure: [slurmctld]
    jobs_at_risk: false
    reasons: ["nodes added: gpu3"]
    warnings: []
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import actions

if t.TYPE_CHECKING:
    from collections.abc import Callable, Collection


def slurm_config_action(
    before: str, after: str, file: str = "slurm.conf", version: str = "26.05", drained: Collection[str] = ()
) -> dict[str, t.Any]:
    """Return what the change of a file asks of the daemons."""
    try:
        return actions.action(before or "", after, file, version, drained)
    except (ValueError, AttributeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_config_action: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_config_action": slurm_config_action}
