# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What variables of StackHPC's openhpc mean here: each is used, mapped, or listed with what to set instead."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import cluster as inputs_cluster
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import older_names, openhpc, rules

ROOT = Path(__file__).parents[5]
GROUPS = {
    "all": ["ctl", "login1", "gpu1", "gpu2", "big1"],
    "control": ["ctl"],
    "login": ["login1"],
    "compute": ["gpu1", "gpu2", "big1"],
    "openhpc": ["ctl", "login1", "gpu1", "gpu2", "big1"],
    "lab_gpu": ["gpu1", "gpu2"],
    "lab_big": ["big1"],
}
NODEGROUPS = [
    {"name": "gpu", "features": ["h100", "ib"], "node_params": {"CoreSpecCount": 2}, "gres": [{"conf": "gpu:h100:8"}]},
    {"name": "big", "ram_mb": 1024},
    {"name": "none"},
]


def meaning(name: str = "gpu1", taken: t.Iterable[str] = (), **values: t.Any) -> older_names.Meaning:
    """Return what the variables of a machine mean."""
    member = older_names.Member(name, {"openhpc_cluster_name": "lab", **values}, frozenset(taken))
    return openhpc.translate(member, GROUPS)


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ({}, "slurm_cluster_name", "lab"),
        ({}, "gpucluster_vm_size", "auto"),
        ({"openhpc_state_save_location": "/state/ctld"}, "slurm_state_directory", "/state/ctld"),
        # Not the secret itself: results of tasks are shown.
        ({"openhpc_munge_key_b64": "c2VjcmV0"}, "munge_key", "openhpc_munge_key_b64"),
        ({"openhpc_config": {"KillWait": 60, "SlurmctldDebug": "omit", "SchedulerParameters": ["a", "b=1"]}},
            "slurm_config", {"KillWait": 60, "SlurmctldDebug": None, "SchedulerParameters": "a,b=1"}),
        ({"openhpc_cgroup_config": {"ConstrainCores": "no"}}, "slurm_cgroup_config", {"ConstrainCores": "no"}),
        ({"openhpc_mpi_config": {"PMIxDebug": 1}}, "slurm_mpi_config", {"PMIxDebug": 1}),
        ({"openhpc_nodegroups": NODEGROUPS}, "slurm_node_config", {"Features": "h100,ib", "CoreSpecCount": 2}),
        ({"appliances_enable_pam_slurm_adopt": "yes"}, "slurm_pam_adopt", True),
        ({"appliances_admin_user_groups": ["adm"]}, "slurm_pam_groups", ["adm"]),
        ({"proxy_http_proxy": "http://p:1"}, "gpucluster_proxy", {"http": "http://p:1", "https": "http://p:1"}),
        ({"basic_users_users": [{"name": "a", "uid": 5, "comment": "A", "public_key": "ssh x", "sudo": "a ALL"}]},
            "users_accounts", [{"name": "a", "uid": 5, "gecos": "A", "ssh_keys": ["ssh x"], "sudo": True}]),
    ],
)  # fmt: skip
def test_a_variable_sets_an_input(values: dict[str, t.Any], name: str, expected: t.Any) -> None:
    assert meaning(**values).inputs[name] == expected


@pytest.mark.parametrize(
    "name",
    ["munge_key", "slurm_partitions", "slurm_config", "slurm_node_config", "users_accounts", "slurm_state_directory"],
)
def test_no_variable_sets_no_input(name: str) -> None:
    assert name not in meaning().inputs


def test_the_partitions_are_those_of_openhpc() -> None:
    partitions = [
        {"name": "gpu", "maxtime": "1-0"},
        {"name": "all", "nodegroups": ["gpu", "big"], "default": "NO",
            "partition_params": {"OverSubscribe": "EXCLUSIVE"}},
        {"name": "rebuild", "nodegroups": [], "default": False},
        {"name": "none"},
    ]  # fmt: skip
    found = meaning(openhpc_nodegroups=NODEGROUPS, openhpc_partitions=partitions, openhpc_job_maxtime="3-0")

    assert found.inputs["slurm_partitions"] == [
        {"PartitionName": "gpu", "Nodes": "gpu[1-2]", "Default": True, "MaxTime": "1-0", "State": "UP"},
        {"PartitionName": "all", "Nodes": "big1,gpu[1-2]", "Default": False, "MaxTime": "3-0", "State": "UP",
            "OverSubscribe": "EXCLUSIVE"},
    ]  # fmt: skip
    assert found.ignored["the partition none"] == found.ignored["the partition rebuild"]
    assert found.mapped["openhpc_partitions"] == ["slurm_partitions"]


def test_without_partitions_each_node_group_is_one_and_the_last_is_the_default() -> None:
    found = meaning(openhpc_nodegroups=NODEGROUPS).inputs["slurm_partitions"]

    assert [(one["PartitionName"], one["Default"], one["MaxTime"]) for one in found] == [
        ("gpu", False, "60-0"),
        ("big", True, "60-0"),
    ]


def test_a_machine_has_the_keys_of_its_node_group() -> None:
    assert meaning("big1", openhpc_nodegroups=NODEGROUPS).inputs["slurm_node_config"] == {"RealMemory": 1024}
    assert "slurm_node_config" not in meaning("ctl", openhpc_nodegroups=NODEGROUPS).inputs


def test_parts_without_effect_are_named() -> None:
    found = meaning(
        openhpc_nodegroups=NODEGROUPS,
        openhpc_config={"HealthCheckProgram": "/usr/sbin/nhc", "StateSaveLocation": "/x", "KillWait": 1},
        basic_users_users=[{"name": "a", "uid": 5, "sudo": "a ALL", "generate_ssh_key": False}],
    )

    assert found.inputs["slurm_config"] == {"KillWait": 1}
    assert set(found.ignored) == {
        "openhpc_config.HealthCheckProgram",
        "openhpc_config.StateSaveLocation",
        "openhpc_nodegroups[gpu].gres",
        "the partition none",
        "basic_users_users[a]",
    }
    assert found.ignored["basic_users_users[a]"] == "generate_ssh_key, its rule of sudo; set users_accounts"


def test_an_input_of_the_inventory_takes_precedence_and_the_summary_says_so() -> None:
    found = meaning(taken={"slurm_config"}, openhpc_config={"KillWait": 60})

    assert "slurm_config" not in found.inputs
    assert found.ignored["openhpc_config"] == "the inventory sets slurm_config"


def test_a_value_that_is_not_known_yet_is_named() -> None:
    member = older_names.Member("ctl", {}, frozenset(), frozenset({"openhpc_munge_key_b64"}))

    found = openhpc.translate(member, GROUPS)
    assert found.ignored["openhpc_munge_key_b64"] == "its value needs facts of the machine; set munge_key"


@pytest.mark.parametrize("value", ["text", 5, None, {}, ["x"], [{}]])
def test_a_list_of_another_type_breaks_nothing(value: t.Any) -> None:
    names = ("openhpc_nodegroups", "openhpc_partitions", "openhpc_config", "openhpc_enable", "basic_users_users")

    assert "slurm_partitions" not in meaning(**dict.fromkeys(names, value)).inputs


@pytest.mark.parametrize(
    ("machine", "enable", "expected"),
    [
        ("ctl", {"control": True, "database": "yes", "batch": False}, ["slurm_controller", "slurm_database"]),
        ("gpu1", {"control": "False", "batch": True, "runtime": True}, ["slurm_compute"]),
        ("login1", {"control": False, "batch": False, "database": False, "runtime": True}, ["slurm_login"]),
        ("login1", {"batch": True}, ["slurm_compute", "slurm_login"]),
        ("big1", {}, []),
        ("ctl", None, ["slurm_controller", "slurm_database"]),
        ("gpu1", None, ["slurm_compute"]),
        ("login1", None, ["slurm_login"]),
    ],
)  # fmt: skip
def test_the_functions_of_a_machine(machine: str, enable: dict[str, t.Any] | None, expected: list[str]) -> None:
    values = {"openhpc_login_only_nodes": "login", **({} if enable is None else {"openhpc_enable": enable})}
    member = older_names.Member(machine, values, frozenset())

    found = openhpc.memberships(member, [machine], GROUPS)
    assert found.get(machine, []) == expected
    assert openhpc.memberships(member, [machine], {**GROUPS, **{name: [machine] for name in expected}}) == {}


def test_variables_name_the_machines_of_groups_with_other_names() -> None:
    values = {
        "openhpc_cluster_name": "site",
        "openhpc_slurm_control_host": "head",
        "openhpc_slurmdbd_host": "db",
        "openhpc_nodegroups": [{"name": "gpu"}],
        "openhpc_login_only_nodes": "doors",
    }
    groups = {"site_gpu": ["n1", "n2"], "doors": ["door"], "all": ["head", "db", "n1", "n2", "door", "nas"]}

    found = openhpc.memberships(older_names.Member("head", values, frozenset()), groups["all"], groups)
    assert found == {
        "head": ["slurm_controller"],
        "db": ["slurm_database"],
        "n1": ["slurm_compute"],
        "n2": ["slurm_compute"],
        "door": ["slurm_login"],
    }


def test_only_an_inventory_of_openhpc_is_translated() -> None:
    assert openhpc.known({"openhpc_cluster_name", "nfs_configurations", "own"}) == {
        *("openhpc_cluster_name", "nfs_configurations")
    }
    assert openhpc.known({"nfs_configurations", "own"}) == set()


def test_each_variable_is_in_one_list() -> None:
    names = [name for name in openhpc.table() if not name.endswith("*")]

    found = meaning(**dict.fromkeys(names, "x"))
    listed = [*found.used, *found.mapped, *found.ignored]
    assert sorted(listed) == sorted(names)
    assert all(found.ignored.values())


def test_a_prefix_is_named_once() -> None:
    found = meaning(openhpc_packages_extra=[], openhpc_packages_default=[], openhpc_new=1)

    assert {"openhpc_packages_*", "openhpc_*"} <= set(found.ignored)


def test_each_entry_says_what_it_means() -> None:
    for name, entry in openhpc.table().items():
        assert set(entry) <= {"sets", "same", "instead"}, name
        assert set(entry) & {"sets", "instead"}, name
        assert "*" not in name[:-1], name
        named = {other for other in entry.get("sets", []) if not other.startswith("the group ")}
        assert named <= rules.known(), name
        for text in re.findall(r"\bset ([a-z]+_[a-z_]+)", entry.get("instead", "")):
            assert text in rules.known(), f"{name}: {text}"


def test_the_playbook_sets_each_input() -> None:
    plays = yaml_load((ROOT / "playbooks/groups.yml").read_text(encoding="utf-8"))
    tasks = {task["name"]: task for play in plays for task in play["tasks"]}
    named = {other for entry in openhpc.table().values() for other in entry.get("sets", [])} | set(meaning().inputs)

    facts = set(tasks["Set the inputs that they mean"]["ansible.builtin.set_fact"])
    assert {name for name in named if not name.startswith("the group ")} <= facts


def test_groups_of_the_appliance_are_no_misspelt_groups() -> None:
    names = (
        "hpctests",
        "cluster",
        "topology",
        "nfs",
        "slurm_stats",
        "slurm_recompile",
        "compute_init",
        "nhc",
        "builder",
    )
    members: dict[str, t.Sequence[str]] = {**GROUPS, **{key: ["gpu1"] for key in names}, "slurm_compute": ["gpu1"]}

    found = inputs_cluster.problems(inputs_cluster.Cluster(members, {}, {}))
    assert [text for text in found if "which nothing reads" in text] == []
