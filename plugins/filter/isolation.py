# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return what to measure next to find the slow node."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import shortfalls, stages

DOCUMENTATION = r"""
name: isolation
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.1.0
short_description: Find the node or path that holds others back, with as few measurements as possible
description:
  - From what was measured so far it follows what to measure next, and what is known already. There is no state
    besides the input, so a playbook loops until RV(_value.next) is empty.
  - Whatever falls short is to be measured again first (RV(_value.again)). Of several measurements of a group the upper
    median counts, because noise only ever takes bandwidth away.
  - Sets of suspects are halved. Two suspects are measured each with a node that is known to be good, at the same time.
    What looks bad is measured again, with another partner, before it is named.
  - It takes about log2(number of nodes) measurements and two more for each bad node.
options:
  _input:
    description:
      - Results of M(hpcai.gpucluster.nccl_test) as C(node) (one node), C(pair) (pairs), C(all) (all nodes together) and
        C(search) (what this filter asked for), with C(nodes) (all names), C(collectives) (the first one counts),
        C(program) (V(nccl) or V(mpi)), C(thresholds) and C(relative) by C(pair) and C(all).
      - Where no threshold is given, pairs are compared with the upper quartile of all pairs.
    type: dict
    required: true
  repeats:
    description: How often something is measured before it is named.
    type: int
    default: 2
"""

EXAMPLES = r"""
- name: Show what to measure next
  ansible.builtin.debug:
    msg: "{{ (__raw | hpcai.gpucluster.isolation).next }}"
  vars:
    __raw: {nodes: [gpu1, gpu2, gpu3, gpu4], pair: "{{ __pairs.results }}", thresholds: {pair: 180}}
"""

RETURN = r"""
_value:
  description: What to do and what is known.
  type: dict
  contains:
    again:
      description:
        - By kind, the C(groups) and C(collectives) that fell short and were measured less than O(repeats) times.
      type: dict
    next:
      description: Groups of nodes to measure next, all at the same time. Empty if there is nothing more to learn.
      type: list
      elements: list
    verdict:
      description:
        - What is known. Null as long as nothing fell short.
        - C(bad) nodes and C(links) with C(name), C(samples) in GB/s, C(below_usual) as a fraction and
          C(confidence) (V(low), V(medium), V(high)); C(good) nodes; C(undecided) sets with at least one bad
          node each; C(shared) groups that fall short although their nodes are good; C(usual) and C(minimum)
          in GB/s; C(jobs); C(complete).
      type: dict
"""


def isolation(raw: t.Mapping[str, t.Any], repeats: int = 2) -> dict[str, t.Any]:
    """Return what to do and what is known."""
    try:
        return stages.isolate(raw, repeats)
    except shortfalls.ThresholdError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.isolation: {exc}") from exc


class FilterModule:
    """The filter."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filter by name."""
        return {"isolation": isolation}
