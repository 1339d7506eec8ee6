# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_topology_problems."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_topology_problems
short_description: What is wrong with where each host is
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Returns a sentence for each reason that P(hpcai.gpucluster.slurm_topology#filter) would fail for. It takes the same
    options.
positional: kind
options:
  _input:
    description: Where each host is.
    type: dict
    required: true
  kind:
    description: What is to be printed. Empty for nothing, which has no problems.
    type: str
    choices: ["", tree, block]
    default: tree
  known:
    description: The nodes of the cluster, as names or hostlist expressions. Without it the hosts are not compared.
    type: list
    elements: str
  block_sizes:
    description: Sizes of blocks.
    type: list
    elements: int
    default: []
"""

EXAMPLES = r"""
- name: Refuse a wrong topology
  ansible.builtin.assert:
    that: problems | length == 0
    fail_msg: "{{ problems | join('\n') }}"
  vars:
    problems: "{{ {'gpu[1-8]': 'leaf1'} | hpcai.gpucluster.slurm_topology_problems('tree', known=['gpu[1-8]']) }}"
"""

RETURN = r"""
_value:
  description: One message for each problem; empty when there is none.
  type: list
  elements: str
"""

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import topology

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def slurm_topology_problems(places: Mapping[str, t.Any], kind: str = "tree", **options: t.Any) -> list[str]:
    """Return what is wrong with the places of hosts."""
    try:
        if kind:
            topology.render(places, kind, **options)
    except topology.TopologyError as exc:
        return [f"slurm_topology: {problem}" for problem in exc.problems]
    except ValueError as exc:
        return [f"slurm_topology: {exc}"]
    return []


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_topology_problems": slurm_topology_problems}
