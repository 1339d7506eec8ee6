# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import nodes as slurm_nodes

FIXTURE = Path(__file__).parents[3] / "fixtures/slurm/24.11.5/sinfo-nodes.txt"


@pytest.fixture
def nodes() -> list[slurm_nodes.Node]:
    return slurm_nodes.parse(FIXTURE.read_text(encoding="utf-8"))


def test_one_entry_per_node_with_all_of_its_partitions(nodes: list[slurm_nodes.Node]) -> None:
    assert [node.name for node in nodes] == ["gpu1", "gpu2", "gpu3", "gpu4", "gpu5"]
    assert nodes[0].partitions == ("main", "debug")
    assert nodes[3].reason == "bad cable, port 3"
    assert (nodes[4].state, nodes[4].answers, nodes[4].gpus) == ("idle", False, 8)


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        *[("(null)", 0), ("gpu:8", 8), ("gpu:h100:8(S:0-1),nic:2", 8), ("gpu:a100:4,gpu:h100:2", 6), ("nogpu:3", 0)],
        *[("gpu:h100:no_consume:8", 8), ("gpu:no_consume:8(S:0),nic:no_consume:2", 8), ("gpu:1g.18gb:7(S:0)", 7)],
        *[("gpu:8a", 0), ("gpu:4090:2", 2), ("gpu:h100", 0), ("shard:gpu:8", 0), ("", 0)],
    ],
)
def test_gpus_are_counted(gres: str, count: int) -> None:
    assert slurm_nodes.gpus(gres) == count


def test_only_idle_nodes_are_taken_unless_told(nodes: list[slurm_nodes.Node]) -> None:
    chosen = slurm_nodes.select(nodes)

    assert chosen == (["gpu1", "gpu3"], ["gpu2"], ["gpu4", "gpu5"])
    assert slurm_nodes.select(nodes, busy_too=True).selected == ["gpu1", "gpu2", "gpu3"]
    assert slurm_nodes.select(nodes, count=1).selected == ["gpu1"]
    assert slurm_nodes.select(nodes, partition="debug").selected == ["gpu1"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"nodelist": ["gpu1", "gpu9"]}, "no such node in Slurm: gpu9; there are gpu1"),
        ({"partition": "debug", "nodelist": ["gpu2"]}, "no such node in partition debug: gpu2"),
        ({"partition": "nope"}, "partition 'nope' is empty or unknown; Slurm knows debug, main"),
        ({"nodelist": ["gpu2", "gpu4"]}, "no idle node: 1 mixed, 1 drained"),
        ({"nodelist": ["gpu5"]}, "no idle node: 1 idle and does not answer"),
        ({"count": 3}, "3 nodes are asked for, but only 2 are idle"),
    ],
)
def test_what_cannot_be_chosen_is_said(nodes: list[slurm_nodes.Node], options: dict[str, t.Any], words: str) -> None:
    with pytest.raises(slurm_nodes.SelectionError, match=words):
        slurm_nodes.select(nodes, **options)
