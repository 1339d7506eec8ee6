# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_config_action."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_config_action
short_description: Find the least disruptive way to apply a changed file to the daemons of Slurm
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Compares two versions of a configuration file key by key and host by host. Returns whether the daemons need no
    action, a reconfigure or a restart. No action stops a daemon permanently.
  - The table C(plugin_utils/_slurm/actions.yml) lists the action for each key, with its source in the documentation of
    Slurm.
  - Nodes that are added, removed or changed need a reconfigure with Slurm 24.11 or newer. Older releases need a restart
    of slurmctld and of every slurmd.
positional: after, file, version, drained
options:
  _input:
    description: The current content of the file. An empty string means that the file does not exist yet.
    type: str
    required: true
  after:
    description: The desired content of the file.
    type: str
    required: true
  file:
    description: Name of the file, such as V(slurm.conf), V(cgroup.conf), V(gres.conf) or V(slurmdbd.conf).
    type: str
    default: slurm.conf
  version:
    description: The running version of Slurm.
    type: str
    default: "26.05"
  drained:
    description: Nodes that run no jobs and accept no new ones. They can be removed from the configuration without risk.
    type: list
    elements: str
    default: []
"""

EXAMPLES = r"""
- name: Find the action that the new slurm.conf needs
  ansible.builtin.set_fact:
    __slurm_action: "{{ old | hpcai.gpucluster.slurm_config_action(new, 'slurm.conf', '24.11.5') }}"
  vars:
    old: "NodeName=gpu[1-2] CPUs=96\n"
    new: "NodeName=gpu[1-3] CPUs=96\n"
"""

RETURN = r"""
_value:
  description: The required actions and their reasons.
  type: dict
  contains:
    action:
      description: The most disruptive action that is required.
      type: str
      choices: [nothing, reconfigure, restart]
    restart:
      description:
        - The daemons that restart, in this order.
        - V(slurmd) means the slurmd of every affected node, after slurmctld.
      type: list
      elements: str
    reconfigure:
      description:
        - The daemons that read the file again. V(slurmctld) means C(scontrol reconfigure), which also reaches every
          slurmd. It runs after a restart of slurmctld and before a restart of slurmd. V(slurmdbd) means SIGHUP.
      type: list
      elements: str
    jobs_at_risk:
      description: Whether jobs may be lost. The warnings name them and the reason.
      type: bool
    reasons:
      description: The changes. Passwords are not shown.
      type: list
      elements: str
    warnings:
      description: Additional information for the operator before the change.
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
    """Return the actions of the daemons that a change of a file requires."""
    try:
        return actions.action(before or "", after, file, version, drained)
    except (ValueError, AttributeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_config_action: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_config_action": slurm_config_action}
