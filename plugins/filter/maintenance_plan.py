# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter maintenance_plan."""

from __future__ import annotations

DOCUMENTATION = r"""
name: maintenance_plan
short_description: Plan the waves of a maintenance of nodes
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Selects the nodes that need maintenance. Nodes with O(reason) come first, because an interrupted run left them.
  - Skips nodes that are out of service for another reason, such as the drain of an administrator.
  - The size of a wave is O(max_down), less the nodes that are out of service for another reason. Fails if nothing is
    left.
options:
  _input:
    description: The nodes of Slurm, RV(hpcai.gpucluster.slurm_nodes_info#module:nodes).
    type: list
    elements: dict
    required: true
  named:
    description: Names of the nodes of this maintenance.
    type: list
    elements: str
    required: true
  needing:
    description: Names of the nodes that need it.
    type: list
    elements: str
    required: true
  max_down:
    description: Largest number of nodes out of service at the same time, as a number or a percentage of all nodes.
    type: raw
    required: true
  reason:
    description: Reason of the drains of the maintenance.
    type: str
    required: true
"""

EXAMPLES = r"""
- name: Plan the maintenance of two nodes
  ansible.builtin.set_fact:
    plan: "{{ slurm.nodes | hpcai.gpucluster.maintenance_plan(named=['gpu1', 'gpu2'], needing=['gpu2'], max_down='10%',
      reason='new driver') }}"
"""

RETURN = r"""
_value:
  description: The plan.
  type: dict
  contains:
    nodes:
      description: Names of the nodes, in their order.
      type: list
      elements: str
    wave:
      description: Largest number of nodes of one wave.
      type: int
    max_down:
      description: Largest number of nodes that may be out of service.
      type: int
    skipped:
      description: By name, why a node is skipped.
      type: dict
    waves:
      description: The names of each wave.
      type: list
      elements: list
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import maintenance

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def maintenance_plan(
    nodes: Sequence[Mapping[str, t.Any]], named: Sequence[str], needing: Sequence[str], max_down: t.Any, reason: str
) -> dict[str, t.Any]:
    """Return the plan."""
    try:
        plan = maintenance.plan(nodes, named, needing, max_down, reason)
    except maintenance.MaintenanceError as exc:
        raise AnsibleFilterError(str(exc)) from exc
    waves = [plan.nodes[begin : begin + plan.wave] for begin in range(0, len(plan.nodes), plan.wave)]
    return {**plan._asdict(), "waves": waves}


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"maintenance_plan": maintenance_plan}
