# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter.node_pairs import FilterModule

node_pairs = FilterModule().filters()["node_pairs"]


def test_rounds_are_lists_that_ansible_can_hold() -> None:
    assert node_pairs(["a", "b", "c"]) == [[["b", "c"]], [["a", "c"]], [["a", "b"]]]
    assert node_pairs(["a"]) == [[]]


def test_who_rests_in_a_single_round_gets_a_pair() -> None:
    assert node_pairs(["a", "b", "c", "d", "e"], 1) == [[["b", "e"], ["c", "d"]], [["a", "e"]]]
    assert node_pairs(["a", "b", "c", "d"], 1) == [[["a", "d"], ["b", "c"]]]
    assert len(node_pairs(["a", "b", "c"], 9)) == 3
