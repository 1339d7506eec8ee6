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
        *[("gpu:(null):2(IDX:0-1)", 2), ("gpu:8a", 0), ("gpu:4090:2", 2), ("gpu:h100", 0), ("shard:gpu:8", 0), ("", 0)],
    ],
)
def test_gpus_are_counted(gres: str, count: int) -> None:
    assert slurm_nodes.gpus(gres) == count


@pytest.mark.parametrize(
    ("cell", "damaged"),
    [
        *[("|96|dead", "|0x|dead"), ("|96|dead", "|-96|dead"), ("|96|dead", "|96,0|dead"), ("|96|dead", "||dead")],
        *[("|96|dead", ""), ("gpu5|", "\ufeffgpu5|"), ("gpu5|main|", "gpu5||"), ("|idle*|", "||")],
        *[
            ("gpu:h100:8(S:0-1)", "gpu:h100:N/A"),
            ("gpu:h100:8(S:0-1)", ""),
            ("gpu:h", "gp\xfcu:h"),
            ("24.11.5|gpu:", "24.11.\x005|gpu:"),
        ],
        *[("port 3\n", "port 3"), ("gpu5|main|idle*|", "le*|")],
    ],
)
def test_a_row_that_is_not_understood_is_refused(cell: str, damaged: str) -> None:
    text = FIXTURE.read_text(encoding="utf-8")
    assert cell in text

    with pytest.raises(slurm_nodes.OutputError, match=r"sinfo (printed|says)"):
        slurm_nodes.parse(text.replace(cell, damaged))


def test_a_reason_can_have_several_lines(nodes: list[slurm_nodes.Node]) -> None:
    text = FIXTURE.read_text(encoding="utf-8").replace("bad cable, port 3", "bad cable,\nport 3\r")

    assert slurm_nodes.parse(text) == nodes


@pytest.mark.parametrize(
    ("reason", "read"),
    [
        ("\nbad cable", "bad cable"),
        ("bad\n| 0  H100 | 45C |\n|====+====|", "bad | 0  H100 | 45C | |====+====|"),
        ("Xid 79 | a | b | c | d | e | f", "Xid 79 | a | b | c | d | e | f"),
        ("Xid\t79 | port 3", "Xid\t79 | port 3"),
    ],
)
def test_a_person_may_write_any_reason(nodes: list[slurm_nodes.Node], reason: str, read: str) -> None:
    found = slurm_nodes.parse(FIXTURE.read_text(encoding="utf-8").replace("bad cable, port 3", reason))

    assert found == [node._replace(reason=read) if node.name == "gpu4" else node for node in nodes]


@pytest.mark.parametrize("gres", ["gpu", "gpu:h100", "gpu:h100,nic:2"])
def test_a_node_that_never_registered_shows_what_slurm_conf_says(gres: str) -> None:
    assert slurm_nodes.parse(f"gpu9|main|unknown*|N/A|{gres}|64|none\n")[0].gres == gres


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


# As of 24.11: powering down, about to reboot, rebooting, maintenance, powered down, planned, silent.
SUFFIXES = """\
n1|p|idle%|24.11.5|gpu:h100:8|96|none
n2|p|idle@|24.11.5|gpu:h100:8|96|none
n3|p|idle^|24.11.5|gpu:h100:8|96|none
n4|p|idle$|24.11.5|gpu:h100:8|96|none
n5|p|idle~|24.11.5|gpu:h100:8|96|none
n6|p|idle-|24.11.5|gpu:h100:8|96|none
n7|p|idle*|24.11.5|gpu:h100:8|96|none
n8|p|idle#|24.11.5|gpu:h100:8|96|none
n9|p|mixed!|24.11.5|gpu:h100:8|96|none
n10|p|allocated+|24.11.5|gpu:h100:8|96|none
"""


def test_a_node_that_leaves_or_starts_is_not_free() -> None:
    nodes = slurm_nodes.parse(SUFFIXES)

    chosen = slurm_nodes.select(nodes, busy_too=True)
    assert chosen.selected == ["n6", "n10"]
    assert chosen.unusable == ["n1", "n2", "n3", "n4", "n5", "n7", "n8", "n9"]
    assert [node.condition for node in nodes[:3]] == ["idle, powering down", "idle, about to reboot", "idle, rebooting"]
    assert not any(node.lost for node in nodes if node.answers)
    with pytest.raises(slurm_nodes.SelectionError, match="no idle node: 1 idle and powered down, 1 idle and does not"):
        slurm_nodes.select(nodes, nodelist=["n5", "n7"])
