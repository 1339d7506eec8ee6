# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import topology
from ansible_collections.hpcai.gpucluster.tests.patience import cheap

PLACES = {"gpu[1-4]": "spine1/leaf1", "gpu5": ["spine1", "leaf2"], "gpu10": "spine2/leaf10"}


def test_a_tree_lists_leaves_and_then_the_switches_above_them() -> None:
    assert topology.render(PLACES, "tree").splitlines() == [
        "SwitchName=leaf1 Nodes=gpu[1-4]",
        "SwitchName=leaf2 Nodes=gpu5",
        "SwitchName=leaf10 Nodes=gpu10",
        "SwitchName=spine1 Switches=leaf[1-2]",
        "SwitchName=spine2 Switches=leaf10",
        "SwitchName=root Switches=spine[1-2]",
    ]


def test_racks_alone_are_a_tree_of_one_level() -> None:
    assert topology.render({"a1": "rack1", "a2": "rack2"}, "tree", root="top") == (
        "SwitchName=rack1 Nodes=a1\nSwitchName=rack2 Nodes=a2\nSwitchName=top Switches=rack[1-2]\n"
    )
    assert topology.render({"a1": "rack1", "a2": "rack1"}, "tree") == "SwitchName=rack1 Nodes=a[1-2]\n"


def test_the_added_switch_takes_no_name_that_is_there() -> None:
    assert "SwitchName=root_ Switches=rack1,root\n" in topology.render({"a": "root", "b": "rack1"}, "tree")


def test_uneven_levels_come_from_below() -> None:
    text = topology.render({"a": "core/agg/leaf1", "b": "core/leaf2"}, "tree")

    assert text.splitlines()[2:] == ["SwitchName=agg Switches=leaf1", "SwitchName=core Switches=agg,leaf2"]


def test_blocks_carry_their_sizes() -> None:
    places = {"n[1-4]": "b1", "n[5-8]": "b2"}

    assert topology.render(places, "block", block_sizes=[4, 8]) == (
        "BlockName=b1 Nodes=n[1-4]\nBlockName=b2 Nodes=n[5-8]\nBlockSizes=4,8\n"
    )
    assert "BlockSizes" not in topology.render(places, "block")


def test_yaml_has_the_form_of_topology_yaml() -> None:
    assert yaml_load(topology.render({"a1": "s/l1", "a2": "s/l2"}, "tree", form="yaml")) == [
        {
            "topology": "default",
            "cluster_default": True,
            "tree": {
                "switches": [
                    {"switch": "l1", "nodes": "a1"},
                    {"switch": "l2", "nodes": "a2"},
                    {"switch": "s", "children": "l[1-2]"},
                ]
            },
        }
    ]
    assert yaml_load(topology.render({"a[1-2]": "b1"}, "block", form="yaml", block_sizes=[2], name="x")) == [
        {
            "topology": "x",
            "cluster_default": True,
            "block": {"block_sizes": [2], "blocks": [{"block": "b1", "nodes": "a[1-2]"}]},
        }
    ]


@pytest.mark.parametrize(
    ("places", "options", "message"),
    [
        ({"a[1-2]": "l1", "a2": "l2"}, {}, "a2 is in l1 and in l2"),
        ({"a1": "l1", "a2": "l1"}, {"known": ["a1"]}, "no node of the cluster is named a2"),
        ({"a1": "l1"}, {"known": ["a1", "a2"]}, "these nodes have no place: a2"),
        ({"a1": "l1", "a2": None}, {}, "these nodes have no place: a2"),
        ({"a1": "s1/l1", "a2": "s2/l1"}, {}, "switch l1 is below s1 and below s2"),
        ({"a1": "s1/l1", "a2": "s1"}, {}, "switch s1 has hosts and switches below it"),
        ({"a1": "x/y/l1", "a2": "y/x/l2"}, {}, "is below itself"),
        ({"a1": "rack 1"}, {}, "'rack 1' is no name for a switch or block"),
        ({"a1": "r" * 65}, {}, "expected at most 64 letters"),
        ({"a1": "s/b"}, {"kind": "block"}, "'s/b' is a path, and a block is one name"),
        ({"a[1-3]": "b1", "a4": "b2"}, {"kind": "block", "block_sizes": [2]}, "base block size of 2 hosts are in b2"),
        ({"a[1-4]": "b1"}, {"kind": "block", "block_sizes": [2, 6]}, "block size 6 is not 2 times a power of two"),
        ({"a[1-4]": "b1"}, {"kind": "block", "block_sizes": [0]}, "expected whole numbers above 0"),
        ({"a1": "l1"}, {"kind": "ring"}, "topology 'ring' in form 'conf', expected one of tree, block"),
        ({"a[1": "l1"}, {}, "the brackets of 'a[1' do not match"),
    ],
)
def test_places_that_make_no_topology_are_refused(places: t.Any, options: t.Any, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        topology.render(places, **{"kind": "tree", **options})

    assert message in str(caught.value)


def test_nodes_without_a_place_may_share_one() -> None:
    text = topology.render({"a1": "l1", "a2": ""}, "tree", known=["a1", "a2", "a3"], unplaced="lost")

    assert "SwitchName=lost Nodes=a[2-3]\n" in text


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(topology.TopologyError) as caught:
        topology.render({"a1": "l1", "a[1-2]": "l2", "b": "r r"}, "tree", known=["a1", "a2"])

    assert len(caught.value.problems) == 2


def test_ten_thousand_nodes_take_less_than_a_second() -> None:
    places = {f"gpu{i}": f"spine{i // 320}/leaf{i // 32}" for i in range(10_000)}

    with cheap(1):
        text = topology.render(places, "tree", known=list(places))

    assert len(text.splitlines()) == 313 + 32 + 1
