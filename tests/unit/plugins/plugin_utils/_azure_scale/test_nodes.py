# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of Azure, nodes of Slurm and hosts of the inventory, whose names differ in case."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.azure_scale_nodes import azure_scale_nodes
from ansible_collections.hpcai.gpucluster.plugins.filter.azure_scale_request import azure_scale_request
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import nodes as set_nodes

HOSTS = [f"hpc-h100-00000{digit}" for digit in "0123A"]


def machine(name: str, power: str = "running") -> dict[str, t.Any]:
    return {"node": name.lower(), "power": power, "usable": power == "running"}


def node(name: str, state: str = "idle", reason: str = "", answers: bool = True) -> dict[str, t.Any]:
    return {"name": name, "state": state, "reason": reason, "answers": answers}


def found(*machines: dict[str, t.Any]) -> dict[str, t.Any]:
    return {"machines": list(machines), "prefixes": ["hpc-h100-"]}


ALL = found(*map(machine, HOSTS))


def test_new_machines_join_by_their_name_in_the_inventory() -> None:
    plan = azure_scale_nodes(ALL, [node(HOSTS[0]), node(HOSTS[1])], HOSTS, 5)

    assert plan["join"] == ["hpc-h100-000002", "hpc-h100-000003", "hpc-h100-00000A"]
    assert (plan["leave"], plan["gone"], plan["unlisted"]) == ([], [], [])


@pytest.mark.parametrize(
    ("state", "reason", "answers", "joins"),
    [
        ("idle", "", True, False),
        ("unknown", "", False, True),
        ("down", "Not responding", False, True),
        ("down", "NHC: xid", False, False),
        ("down", "", True, False),
        ("drained", "bad fan", False, False),
        ("allocated", "", True, False),
    ],
)
def test_an_interrupted_join_is_repeated_and_no_node_that_works_joins_again(
    state: str, reason: str, answers: bool, joins: bool
) -> None:
    plan = azure_scale_nodes(found(machine(HOSTS[0])), [node(HOSTS[0], state, reason, answers)], HOSTS)

    assert plan["join"] == ([HOSTS[0]] if joins else [])


def test_a_machine_without_a_host_is_named_and_does_not_join() -> None:
    plan = azure_scale_nodes(ALL, [], HOSTS[:4])

    assert plan["unlisted"] == ["hpc-h100-00000a"]
    assert len(plan["join"]) == 4


def test_a_machine_that_does_not_run_neither_joins_nor_outlives_an_idle_node() -> None:
    machines = found(machine(HOSTS[0], "deallocated"), machine(HOSTS[1]), machine(HOSTS[2]))
    slurm = [node(HOSTS[0], "down", "Not responding", answers=False), node(HOSTS[1]), node(HOSTS[2])]

    plan = azure_scale_nodes(machines, slurm, HOSTS, 2)

    assert (plan["leave"], plan["join"]) == ([HOSTS[0]], [])
    assert plan["drains"] == [[HOSTS[0]]]


def test_nodes_that_leave_are_drained_by_the_kind_of_their_state() -> None:
    slurm = [
        node(HOSTS[0], "drained", "removed by node_remove"),
        node(HOSTS[1], "down", "Not responding", answers=False),
        node(HOSTS[2]),
        node(HOSTS[3]),
    ]

    plan = azure_scale_nodes(ALL, slurm, HOSTS, 0)

    assert plan["leave"] == [HOSTS[4], HOSTS[0], HOSTS[3], HOSTS[2], HOSTS[1]]
    assert plan["drains"] == [[HOSTS[3], HOSTS[2]], [HOSTS[0]], [HOSTS[1]]]


def test_a_person_names_the_nodes_that_leave() -> None:
    slurm = [node(name) for name in HOSTS]

    assert azure_scale_nodes(ALL, slurm, HOSTS, leave=["HPC-h100-000001"])["leave"] == [HOSTS[1]]
    with pytest.raises(AnsibleFilterError, match="the set has no nodes x; there are hpc-h100-000000"):
        azure_scale_nodes(ALL, slurm, HOSTS, leave=["x", HOSTS[0]])
    with pytest.raises(AnsibleFilterError, match=r"run jobs .*Nothing was changed"):
        azure_scale_nodes(ALL, [node(HOSTS[1], "mixed")], HOSTS, leave=[HOSTS[1]])


def test_without_slurm_nobody_knows_the_jobs() -> None:
    machines = found(machine(HOSTS[0]), machine(HOSTS[1], "deallocated"))

    with pytest.raises(AnsibleFilterError, match=r"hpc-h100-000000 .unknown. run jobs"):
        azure_scale_nodes(machines, None, HOSTS, 0)
    assert azure_scale_nodes(machines, None, HOSTS, 1)["leave"] == [HOSTS[1]]
    assert azure_scale_nodes(machines, None, HOSTS, 0, jobs=True)["leave"] == [HOSTS[1], HOSTS[0]]


def test_evicted_nodes_are_gone_and_others_are_none_of_our_business() -> None:
    slurm = [
        node("hpc-h100-00000Z", "down", answers=False),
        node("hpc-h100-00000Y", "allocated"),
        node("hpc-h100-2-00000Z", "down"),
        node("login1", "down"),
        node(HOSTS[0]),
    ]

    assert azure_scale_nodes(ALL, slurm, HOSTS)["gone"] == ["hpc-h100-00000Z"]
    assert azure_scale_nodes(ALL, slurm, [*HOSTS, "hpc-h100-00000Z"])["gone"] == []


def test_names_without_slurm_are_those_of_the_inventory() -> None:
    names = set_nodes.Names(["GPU1"], [])

    assert names.of({"node": "gpu1"}) == "GPU1"
    assert names.of({"node": "gpu2"}) == "gpu2"


CLUSTER = {"name": "hpc", "subscription_id": "s", "gpu_sets": [{"name": "h100", "instances_per_group": 300}]}


def test_a_request_is_returned_as_python_types() -> None:
    asked = azure_scale_request(CLUSTER, "h100", "16", "", "60")

    assert (asked["count"], asked["nodes"], asked["wait_for_jobs"], asked["limit"]) == (16, [], 60, 300)
    assert (asked["resource_group"], asked["cluster"], asked["subscription_id"]) == ("hpc", "hpc", "s")
    assert azure_scale_request(CLUSTER, "h100", "", " a, b,")["nodes"] == ["a", "b"]
    assert azure_scale_request(CLUSTER, "h100", 0)["count"] == 0


@pytest.mark.parametrize(
    ("cluster", "words", "texts"),
    [
        ({}, ("h100", 1), ["azure_cluster is not defined"]),
        ("hpc", ("h100", 1), ["azure_cluster is not defined"]),
        (CLUSTER, ("h10", 1), ["set: found 'h10'; allowed: h100; did you mean 'h100'?"]),
        (CLUSTER, ("h100", ""), ["set count"]),
        (CLUSTER, ("h100", 1, "a"), ["set count"]),
        (CLUSTER, ("x", "many", "", "-1"), ["set: found 'x'", "count: found 'many'", "wait_for_jobs: found '-1'"]),
        ({"name": "hpc"}, ("h100", 1), ["none, because azure_cluster has no gpu_sets"]),
    ],
)
def test_a_wrong_request_is_refused_with_all_faults(cluster: t.Any, words: tuple[t.Any, ...], texts: list[str]) -> None:
    with pytest.raises(AnsibleFilterError) as refused:
        azure_scale_request(cluster, *words)

    assert all(text in str(refused.value) for text in texts)
    assert "Nothing was changed" in str(refused.value)
