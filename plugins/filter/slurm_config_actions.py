# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_config_actions."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_config_actions
short_description: The mildest means by which several changed Slurm files reach the daemons
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Does for all files of a controller what P(hpcai.gpucluster.slurm_config_action#filter) does for one.
positional: after, version
options:
  _input:
    description: The texts that are on disk, by file name. One that is empty or missing is not there yet.
    type: dict
    required: true
  after:
    description: The texts that are wanted, by file name.
    type: dict
    required: true
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
- name: Find out what gpu3 leaving asks for
  ansible.builtin.debug:
    msg: "{{ before | hpcai.gpucluster.slurm_config_actions(after, '24.11.5', drained=['gpu3']) }}"
  vars:
    before: {slurm.conf: "NodeName=gpu[1-3] CPUs=96\n"}
    after: {slurm.conf: "NodeName=gpu[1-2] CPUs=96\n"}
"""

RETURN = r"""
_value:
  description: What P(hpcai.gpucluster.slurm_config_action#filter) returns, for each file of O(after).
  type: list
  elements: dict
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import actions

if t.TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


def slurm_config_actions(
    before: Mapping[str, str], after: Mapping[str, str], version: str = "26.05", drained: Collection[str] = ()
) -> list[dict[str, t.Any]]:
    """Return what the change of each file asks of the daemons."""
    try:
        return [actions.action(before.get(file) or "", text, file, version, drained) for file, text in after.items()]
    except (ValueError, AttributeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_config_actions: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_config_actions": slurm_config_actions}
