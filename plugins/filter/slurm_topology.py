# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_topology."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_topology
short_description: Render topology.conf or topology.yaml of Slurm from the places of hosts
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Writes a tree of switches or a list of blocks from a mapping of hosts to places. The size of the file depends on
    the number of switches and blocks, not of hosts. 10,000 hosts take a fraction of a second.
  - If several switches have no parent, a common parent is added, because Slurm places no job on nodes that no switch
    connects.
  - Fails for a host in two places, a place for a host that is not a node of the cluster, and a node without a place.
  - Fails for a switch that is below two others or below itself, a switch with both hosts and switches below it, and
    block sizes that topology.conf(5) does not allow. The message lists all problems.
positional: kind
options:
  _input:
    description:
      - The place of each host. A key is a host name or a hostlist expression such as V(gpu[1-32]).
      - A place is a path from the top to the leaf, such as V(spine1/leaf3) or the list V([spine1, leaf3]), or the name
        of a rack, placement group or block. Empty or none means no place.
    type: dict
    required: true
  kind:
    description: Kind of topology.
    type: str
    choices: [tree, block]
    default: tree
  known:
    description: The nodes of the cluster, as names or hostlist expressions. If not set, the hosts are not compared.
    type: list
    elements: str
  unplaced:
    description: Name of a leaf or block for nodes without a place. If empty, such nodes are an error.
    type: str
    default: ""
  root:
    description: Name of the switch that is added above all others if it is needed.
    type: str
    default: root
  block_sizes:
    description: Sizes of blocks for C(BlockSizes) in ascending order, each a power of two times the previous one.
    type: list
    elements: int
    default: []
  form:
    description: V(conf) is topology.conf. V(yaml) is topology.yaml, which Slurm 25.05 or newer reads.
    type: str
    choices: [conf, yaml]
    default: conf
  name:
    description: Name of the topology in topology.yaml.
    type: str
    default: default
"""

EXAMPLES = r"""
- name: Write topology.conf
  ansible.builtin.copy:
    dest: /etc/slurm/topology.conf
    mode: "0644"
    content: "{{ places | hpcai.gpucluster.slurm_topology('tree') }}"
  vars:
    places:
      gpu[1-32]: spine1/leaf1
      gpu[33-64]: spine1/leaf2
      gpu65: spine2/leaf3
"""

RETURN = r"""
_value:
  description: The content of the file, without comments.
  type: str
  sample: |
    SwitchName=leaf1 Nodes=gpu[1-32]
    SwitchName=leaf2 Nodes=gpu[33-64]
    SwitchName=leaf3 Nodes=gpu65
    SwitchName=spine1 Switches=leaf[1-2]
    SwitchName=spine2 Switches=leaf3
    SwitchName=root Switches=spine[1-2]
"""

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import topology

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def slurm_topology(places: Mapping[str, t.Any], kind: str = "tree", **options: t.Any) -> str:
    """Return the content of topology.conf or topology.yaml."""
    try:
        return topology.render(places, kind, **options)
    except (ValueError, AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_topology: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_topology": slurm_topology}
