# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter.node_pairs import FilterModule

node_pairs = FilterModule().filters()["node_pairs"]


def test_rounds_are_lists_that_ansible_can_hold() -> None:
    assert node_pairs(["a", "b", "c"]) == [[["b", "c"]], [["a", "c"]], [["a", "b"]]]
    assert node_pairs(["a"]) == [[]]
