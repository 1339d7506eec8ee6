# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filter slurm_topology."""

from __future__ import annotations

DOCUMENTATION = r"""
name: slurm_topology
short_description: Slurm's topology.conf or topology.yaml from where each host is
version_added: 0.1.0
author:
  - HPC AI Infrastructure Team (@hpcai)
description:
  - Prints a tree of switches or a list of blocks from a mapping of hosts to places. The text grows with switches and
    blocks, not with hosts; 10,000 hosts take a fraction of a second.
  - Where more than one switch has none above it, one is added above them all, since Slurm places no job on nodes that
    no switch connects.
  - It fails, naming all of the problems, for a host in two places, a place of a host that is no node of the cluster, a
    node without place, a switch below two others or below itself, a switch with hosts and with switches below it, and
    block sizes that topology.conf(5) does not allow.
positional: kind
options:
  _input:
    description:
      - Where each host is. A key is a host name or a hostlist expression such as V(gpu[1-32]).
      - The place is a path from the top to the leaf, such as V(spine1/leaf3) or the list V([spine1, leaf3]), or the
        name of a rack, placement group or block. Empty or none is no place.
    type: dict
    required: true
  kind:
    description: What is printed.
    type: str
    choices: [tree, block]
    default: tree
  known:
    description: The nodes of the cluster, as names or hostlist expressions. Without it the hosts are not compared.
    type: list
    elements: str
  unplaced:
    description: Name of a leaf or block for nodes without a place. Without it they are a problem.
    type: str
    default: ""
  root:
    description: Name of the switch that is added above all others, where one is needed.
    type: str
    default: root
  block_sizes:
    description: Sizes of blocks for C(BlockSizes), the smallest first, each a power of two times the one before.
    type: list
    elements: int
    default: []
  form:
    description: V(conf) is topology.conf; V(yaml) is topology.yaml, which Slurm reads from 25.05 on.
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
  description: The text of the file, without a comment.
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
    """Return the text of topology.conf or topology.yaml."""
    try:
        return topology.render(places, kind, **options)
    except (ValueError, AttributeError, TypeError) as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.slurm_topology: {exc}") from exc


class FilterModule:
    """Tell Ansible the name of the filter."""

    def filters(self) -> dict[str, Callable[..., t.Any]]:
        """Return the filters of this file."""
        return {"slurm_topology": slurm_topology}
