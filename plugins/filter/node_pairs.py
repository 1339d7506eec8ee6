# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the rounds of a tournament of nodes."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import isolation

DOCUMENTATION = r"""
name: node_pairs
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Arrange nodes in pairs that can be measured at the same time
description:
  - Returns the rounds of a round-robin tournament. Each pair occurs once, and each node at most once in a round.
  - An even number of nodes gives one round less than nodes; an odd number as many rounds as nodes, in each of which
    one rests.
positional: rounds
options:
  _input:
    description: Names of the nodes.
    type: list
    elements: str
    required: true
  rounds:
    description:
      - So many rounds, and the pair of the next one that has the node which rested in all of them, so that nobody is
        left out. V(0) means all rounds.
    type: int
    default: 0
"""

EXAMPLES = r"""
- name: Show the pairs of the first round
  ansible.builtin.debug:
    msg: "{{ (['gpu1', 'gpu2', 'gpu3', 'gpu4'] | hpcai.gpucluster.node_pairs)[0] }}"
"""

RETURN = r"""
_value:
  description: The rounds; each is a list of pairs, each a list of two names.
  type: list
  elements: list
"""


def node_pairs(nodes: t.Sequence[str], rounds: int = 0) -> list[list[list[str]]]:
    """Return the rounds."""
    return [[list(pair) for pair in pairs] for pairs in isolation.tournament(nodes, rounds)]


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filter by name."""
        return {"node_pairs": node_pairs}
