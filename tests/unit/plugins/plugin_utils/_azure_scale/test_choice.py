# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Idle nodes leave first. Nodes with jobs, and nodes that somebody drained, leave only if the user says so."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.choice import Node, choose
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ScaleError

IDLE = Node("idle")
NODES = {
    "n0": IDLE,
    "n1": IDLE,
    "n2": Node("allocated", jobs=True),
    "n3": Node("drained", "NHC: gpu_count"),
    "n4": Node("down*", "Not responding"),
    "n5": Node("planned"),
    "n6": Node("idle"),
}


def test_idle_nodes_leave_first_and_the_last_ones_of_the_set_before_the_others() -> None:
    assert choose(NODES, list(NODES), 3).nodes == ["n6", "n1", "n0"]
    assert choose(NODES, list(NODES), 5).nodes == ["n6", "n1", "n0", "n5", "n4"]


def test_nodes_with_jobs_and_drained_nodes_stay_and_the_message_says_so() -> None:
    with pytest.raises(ScaleError) as refused:
        choose(NODES, list(NODES), 6)

    assert "6 nodes must leave, but only 5 may" in str(refused.value)
    assert "n2 (allocated) run jobs (-e azure_scale_force_jobs=true" in str(refused.value)
    assert "n3 (drained: NHC: gpu_count) are drained or reserved" in str(refused.value)


def test_both_leave_if_the_user_says_so_and_jobs_last() -> None:
    assert choose(NODES, list(NODES), 6, drained_too=True).nodes[-1] == "n3"
    assert choose(NODES, list(NODES), 6, jobs_too=True).nodes[-1] == "n2"
    assert choose(NODES, list(NODES), 7, jobs_too=True, drained_too=True).nodes[-2:] == ["n3", "n2"]


@pytest.mark.parametrize(
    "node",
    [
        Node("drained", "bad fan"),
        Node("drained*", "bad fan"),
        Node("idle+drain", "bad fan"),
        Node("down", "NHC: xid 79"),
        Node("down", "pulled by alice"),
        Node("maint"),
        Node("reserved"),
        Node("idle+reserved"),
        Node("fail"),
        Node("error"),
        Node("inval"),
        Node("reboot^"),
        Node("something new"),
    ],
)
def test_a_node_that_somebody_holds_never_leaves(node: Node) -> None:
    with pytest.raises(ScaleError):
        choose({"n": node}, ["n"], 1)
    assert choose({"n": node}, ["n"], 1, drained_too=True).nodes == ["n"]


@pytest.mark.parametrize("state", ["allocated", "mixed", "mixed-", "completing", "allocated+"])
def test_a_node_with_jobs_never_leaves(state: str) -> None:
    with pytest.raises(ScaleError):
        choose({"n": Node(state)}, ["n"], 1, drained_too=True)
    assert choose({"n": Node(state)}, ["n"], 1, jobs_too=True).nodes == ["n"]


def test_a_draining_node_needs_both_permissions() -> None:
    for some in ({"drained_too": True}, {"jobs_too": True}):
        with pytest.raises(ScaleError):
            choose({"n": Node("draining", "bad fan")}, ["n"], 1, **some)
    assert choose({"n": Node("draining", "bad fan")}, ["n"], 1, drained_too=True, jobs_too=True).nodes == ["n"]


def test_an_interrupted_run_goes_on_with_the_same_nodes() -> None:
    nodes = {"a": IDLE, "b": Node("drained", "removed by node_remove"), "d": IDLE}

    assert choose(nodes, ["a", "b", "c", "d"], 2).nodes == ["c", "b"]


def test_a_running_job_is_never_overlooked_whatever_the_state_says() -> None:
    with pytest.raises(ScaleError):
        choose({"n": Node("idle", jobs=True)}, ["n"], 1)
    with pytest.raises(ScaleError):
        choose({"n": Node("drained", "removed by node_remove", jobs=True)}, ["n"], 1)


STATES = st.sampled_from([*NODES.values(), Node("mixed"), Node("draining", "x"), Node("idle~")])


@given(states=st.lists(STATES, max_size=12), number=st.integers(0, 12), told=st.tuples(st.booleans(), st.booleans()))
def test_what_leaves_is_allowed_to_leave(states: list[Node], number: int, told: tuple[bool, bool]) -> None:
    nodes = {f"n{index}": node for index, node in enumerate(states)}
    try:
        chosen = choose(nodes, list(nodes), number, drained_too=told[0], jobs_too=told[1]).nodes
    except ScaleError:
        return

    assert len(chosen) == len(set(chosen)) == number
    assert told[1] or not any(nodes[name].jobs or nodes[name].state in ("mixed", "draining") for name in chosen)
    assert told[0] or not any("drain" in nodes[name].state for name in chosen)
