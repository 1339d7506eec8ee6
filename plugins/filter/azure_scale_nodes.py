# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter azure_scale_nodes."""

from __future__ import annotations

DOCUMENTATION = r"""
name: azure_scale_nodes
short_description: Compare a set of nodes in Azure with Slurm, and choose the nodes that leave
version_added: 0.3.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns the nodes that must join the cluster, the nodes that leave so that O(count) machines stay, and the nodes
    that Slurm still knows without a machine.
  - Machines that do not run leave first, then idle nodes, then nodes that are down. Among equals, those of the last
    scale set with the highest number leave first.
  - A node that a person or a health check drained or reserved stays unless O(drained=true). A node with jobs stays
    unless O(jobs=true). If too few nodes may leave, the filter fails and names the nodes that stay.
  - Host names in the inventory, names in Slurm and host names in Azure are compared without case.
positional: nodes, hosts, count
options:
  _input:
    description: The result of M(hpcai.gpucluster.azure_scale_set).
    type: dict
    required: true
  nodes:
    description:
      - RV(hpcai.gpucluster.slurm_nodes_info#module:nodes).
      - Null means that nobody asked Slurm. Then a machine that runs counts as one with jobs.
    type: list
    elements: dict
    required: true
  hosts:
    description: The compute nodes of the inventory, usually C(groups.slurm_compute).
    type: list
    elements: str
    required: true
  count:
    description: Number of machines that the set shall have. By default, no node leaves.
    type: int
  leave:
    description: Names of the nodes that leave, instead of a choice by O(count).
    type: list
    elements: str
    default: []
  drained:
    description: Whether drained and reserved nodes may leave.
    type: bool
    default: false
  jobs:
    description: Whether nodes with jobs may leave.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Choose the nodes that leave so that eight stay
  ansible.builtin.debug:
    msg: "{{ (h100_set | hpcai.gpucluster.azure_scale_nodes(slurm.nodes, groups.slurm_compute, 8)).leave }}"
"""

RETURN = r"""
_value:
  description: What has to be done.
  type: dict
  contains:
    leave:
      description: The nodes that leave, in the order of the choice.
      type: list
      elements: str
    drains:
      description:
        - The nodes of RV(_value.leave) that Slurm knows, as one list for each kind of state, because their drain
          differs. The kinds are nodes that take jobs, drained nodes, and nodes that are down.
      type: list
      elements: list
    kept:
      description: One sentence for the nodes with jobs, and one for the drained nodes, that stay.
      type: list
      elements: str
    join:
      description: Hosts of the inventory whose machine runs and that Slurm does not know, or that never answered.
      type: list
      elements: str
    unlisted:
      description: Machines that run and that the inventory does not list.
      type: list
      elements: str
    gone:
      description: Nodes of Slurm without a machine and without a host, such as evicted spot machines.
      type: list
      elements: str
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import nodes as set_nodes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ScaleError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def azure_scale_nodes(
    found: Mapping[str, t.Any],
    nodes: Sequence[Mapping[str, t.Any]] | None,
    hosts: Sequence[str],
    count: int | None = None,
    leave: Sequence[str] = (),
    drained: bool = False,
    jobs: bool = False,
) -> dict[str, t.Any]:
    """Return what has to be done with the nodes of a set."""
    machines = list(found["machines"])
    names = set_nodes.Names(map(str, hosts), nodes)
    stay = len(machines) if count is None else int(count)
    try:
        chosen = set_nodes.leaving(machines, names, stay, list(leave), drained_too=drained, jobs_too=jobs)
    except ScaleError as exc:
        raise AnsibleFilterError(f"{exc}. Nothing was changed") from exc
    return {
        "leave": chosen.nodes,
        "drains": set_nodes.drains(chosen.nodes, names),
        "kept": chosen.kept,
        "join": set_nodes.joining(machines, names),
        "unlisted": set_nodes.unlisted(machines, names),
        "gone": set_nodes.gone(machines, names, [str(one) for one in found.get("prefixes") or ()]),
    }


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file by name."""
        return {"azure_scale_nodes": azure_scale_nodes}
