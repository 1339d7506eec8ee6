# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.maintenance_plan import maintenance_plan

REASON = "gpucluster maintenance"


def node(name: str, state: str = "idle", reason: str = "", answers: bool = True) -> dict[str, t.Any]:
    return {"name": name, "state": state, "reason": reason, "answers": answers}


NODES = [node(f"gpu{number}") for number in range(1, 21)]
NAMES = [one["name"] for one in NODES]


def plan(nodes: t.Any = None, max_down: t.Any = "10%", **given: t.Any) -> dict[str, t.Any]:
    nodes = NODES if nodes is None else nodes
    names = [one["name"] for one in nodes]
    return maintenance_plan(
        nodes, **{"named": names, "needing": names, "max_down": max_down, "reason": REASON, **given}
    )


@pytest.mark.parametrize(
    ("max_down", "wave"),
    [(1, 1), ("1", 1), (3, 3), ("10%", 2), ("14%", 2), ("15%", 3), ("1%", 1), ("100%", 20), (" 5% ", 1), (50, 50)],
)
def test_the_budget_is_a_number_or_a_percentage(max_down: t.Any, wave: int) -> None:
    found = plan(max_down=max_down)

    assert found["wave"] == found["max_down"] == wave
    assert [name for one in found["waves"] for name in one] == NAMES
    assert max(map(len, found["waves"])) == min(wave, 20)


@pytest.mark.parametrize("max_down", [0, "0", "0%", "101%", -1, "", "all", None, True, 1.5, "10 %", [1]])
def test_another_budget_is_refused(max_down: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"maintenance_max_down is .*; allowed: a number of nodes from 1"):
        plan(max_down=max_down)


@pytest.mark.parametrize(
    ("away", "said"),
    [
        (node("gpu2", "drained", "bad cable"), "drained: bad cable"),
        (node("gpu2", "draining", "bad cable"), "draining: bad cable"),
        (node("gpu2", "down", ""), "down: no reason given"),
        (node("gpu2", "idle", "", answers=False), "idle, slurmd does not answer: no reason given"),
        (node("gpu2", "drained", f"{REASON} of bob"), f"drained: {REASON} of bob"),
    ],
)
def test_a_node_that_is_out_of_service_is_left_and_counts(away: dict[str, t.Any], said: str) -> None:
    nodes = [away if one["name"] == "gpu2" else one for one in NODES]
    found = plan(nodes)

    assert found["skipped"] == {"gpu2": said}
    assert "gpu2" not in found["nodes"]
    assert found["wave"] == 1


def test_a_full_budget_is_refused_and_names_the_nodes() -> None:
    nodes = [node("gpu1", "drained", "bad cable"), node("gpu2"), node("gpu3")]

    with pytest.raises(AnsibleFilterError, match=r"1 of 3 nodes, and 1 are out of service already: gpu1"):
        plan(nodes, 1)


def test_nodes_of_an_interrupted_run_come_first_and_take_no_budget() -> None:
    nodes = [*NODES[:18], node("gpu19", "drained", REASON), node("gpu20", "draining", REASON)]
    found = plan(nodes, needing=["gpu1"])

    assert found["nodes"] == ["gpu19", "gpu20", "gpu1"]
    assert found["wave"] == 2
    assert found["skipped"]["gpu2"] == "needs nothing"


def test_nothing_to_do_is_no_wave_even_without_a_budget() -> None:
    nodes = [node("gpu1", "drained", "bad cable"), node("gpu2")]
    found = plan(nodes, 1, needing=[])

    assert found["waves"] == found["nodes"] == []


def test_a_node_that_slurm_does_not_know_is_skipped() -> None:
    assert plan(named=["gpu99"])["skipped"] == {"gpu99": "unknown to Slurm"}


@pytest.mark.parametrize("state", ["allocated", "mixed", "completing", "planned"])
def test_a_node_with_jobs_is_in_service(state: str) -> None:
    assert plan([node("gpu1", state)], 1)["nodes"] == ["gpu1"]
