# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.cluster import Cluster, problems

ALICE = {"name": "alice", "uid": 2001}


def found(groups: dict[str, list[str]] | None = None, **values: t.Any) -> list[str]:
    chosen = {"slurm_controller": ["head"], "slurm_compute": ["gpu1", "gpu2"], **(groups or {})}
    hosts = list(dict.fromkeys(host for names in chosen.values() for host in names))
    machines: dict[str, dict[str, t.Any]] = {host: {"host": host} for host in hosts}
    machines.update(values.pop("machines", {}))
    return problems(Cluster({"all": hosts, **chosen}, values, machines))


@pytest.mark.parametrize(
    "more",
    [
        {"slurm-node": ["gpu1", "gpu2"], "slurm-node-gpu": ["gpu1"], "slurm-node-cpu": ["gpu2"]},
        {"slurm_compute_a": ["gpu1"], "slurm_compute_b": ["gpu2"]},
        {"slurm-master": ["head"], "slurm-master-first": ["head"]},
        {"slurm-login": ["head"], "slurm-login-gpu": ["gpu1", "head"]},
        {"slurm_computes": ["gpu1"]},
    ],
)
def test_a_group_of_machines_that_have_their_task_is_right(more: dict[str, list[str]]) -> None:
    assert found(more) == []


def test_storage_of_machines_without_slurm_needs_no_controller() -> None:
    assert found({"slurm_controller": []}) == []


def test_a_plain_cluster_is_right() -> None:
    assert found() == []
    assert found({"slurm_database": ["head"], "nfs_server": ["head"], "lab": ["head"], "rack_a": ["gpu1"]}) == []


@pytest.mark.parametrize("group", ["bastion", "dgx"])
def test_machines_of_a_group_that_plays_do_not_know_are_right(group: str) -> None:
    assert found({group: ["jump1"]}) == []


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("slurm_node", "slurm_compute"),
        ("slurm-nodes", "slurm_compute"),
        ("compute", "slurm_compute"),
        ("nodes", "slurm_compute"),
        ("login", "slurm_login"),
        ("controllers", "slurm_controller"),
        ("nfs_servers", "nfs_server"),
        ("monitoring_servers", "monitoring_server"),
    ],
)
def test_a_group_that_nearly_has_the_name_of_ours_is_refused(name: str, meant: str) -> None:
    said = f"inventory: found the group {name}, which nothing reads; allowed: {meant}, if that is meant"
    assert found({name: ["new1"]}) == [said]
    assert found({name: ["new1"], meant: ["new1", *(["gpu1"] if meant == "slurm_compute" else [])]}) == []


def test_a_machine_in_no_group_is_refused() -> None:
    (said,) = found({"ungrouped": ["gpu9", "localhost"]})
    assert said.startswith("inventory: found gpu9 in no group; allowed: slurm_controller, slurm_compute, ")
    listed = {"vm9": {"host": "192.0.2.1", "computer_name": "vm9"}}
    assert found({"ungrouped": ["vm9"]}, machines=listed) == []
    assert found({"ungrouped": ["mgmt1"], "slurm-node": ["gpu1"]}) == []


@pytest.mark.parametrize(
    ("groups", "values", "words"),
    [
        (
            {},
            {"slurm_controllers": ["head9"]},
            "slurm_controllers: found 'head9'; allowed: the name of a machine of the",
        ),
        ({}, {"slurm_database": "db9"}, "slurm_database: found 'db9'"),
        ({}, {"munge_key_host": "head1"}, "munge_key_host: found 'head1'; .*did you mean head"),
        ({}, {"users_keys_host": "nowhere"}, "users_keys_host: found 'nowhere'"),
        (
            {"slurm_compute": [], "slurm_computes": ["gpu1"]},
            {},
            "found the group slurm_computes.*allowed: slurm_compute",
        ),
        ({"slurm-node": ["gpu1"], "slurm-node-gpu": ["gpu1", "gpu3"]}, {}, "found the group slurm-node-gpu"),
        ({"slurm-nodes": ["head"]}, {}, "found the group slurm-nodes"),
        ({"slurm_compute": []}, {}, "found no compute node"),
        (
            {"slurm_controller": [], "slurm_compute": [], "slurm-node": ["gpu1"], "slurm-node-gpu": ["gpu1"]},
            {},
            "found the group slurm-node and no controller; allowed: one machine or two in slurm-master",
        ),
        ({}, {"gpucluster_removed_nodes": ["gpu1", "gpu2"]}, "found no compute node"),
        ({"nfs_sever": ["head"]}, {}, "found the group nfs_sever"),
        ({"slurm_compute": ["gpu1.example.com"]}, {}, "named gpu1.example.com; allowed: the name that 'hostname -s'"),
        ({"slurm_compute": ["10.0.0.5"]}, {}, "named 10.0.0.5"),
        ({"slurm_compute": ["GPU1"]}, {}, "named GPU1"),
        ({"slurm_controller": ["Head"]}, {}, "named Head"),
        ({"slurm_compute": ["localhost"]}, {}, "a machine of the cluster named localhost"),
        ({"slurm_login": ["all"]}, {}, "found machines named all; allowed: names that are neither groups"),
        ({"slurm_login": ["Default"]}, {}, "found machines named Default"),
        ({"slurm_login": ["slurm_compute"]}, {}, "found machines named slurm_compute"),
        ({"slurm_controller": ["monitoring_server"]}, {}, "found machines named monitoring_server"),
        ({"slurm_controller": ["a", "b"]}, {"slurm_state_directory": "/var/lib/slurm"}, "storage that a and b share"),
        ({"slurm_controller": ["a", "b"]}, {"slurm_state_directory": "/tmp"}, "storage that a and b share"),
        (
            {"slurm_controller": ["a", "b"]},
            {"slurm_state_directory": "/var/s", "nfs_mounts": [{"path": "/var/s"}], "gpucluster_repair": "present"},
            "repair_state_directory: found '?/var/gpucluster-repair.*of root on storage that a and b share",
        ),
        ({}, {"slurm_user_uid": 2001, "users_accounts": [ALICE]}, "slurm_user_uid: found 2001; .*gives it to alice"),
        ({}, {"slurm_user_uid": "2001", "users": [{"username": "bob", "uid": 2001}]}, "gives it to bob"),
        ({}, {"users_accounts": [{"name": "carl", "uid": 22078}]}, "slurm_user_uid: found 22078; .*gives it to carl"),
        ({}, {"gpucluster_nfs_server": "filer"}, "the group nfs_client is empty"),
    ],
)
def test_what_the_inventory_alone_shows_is_refused(
    groups: dict[str, list[str]], values: dict[str, t.Any], words: str
) -> None:
    assert any(re.search(words, text) for text in found(groups, **values)), found(groups, **values)


@pytest.mark.parametrize(
    ("groups", "values"),
    [
        ({"slurm_controller": ["a", "b"]}, {"slurm_state_directory": "/shared/slurm"}),
        (
            {"slurm_controller": ["a", "b"]},
            {"slurm_state_directory": "/shared/slurm", "gpucluster_repair": "present"},
        ),
        ({}, {"slurm_state_directory": "/var/lib/slurm", "gpucluster_repair": "present"}),
        (
            {"slurm_controller": ["a", "b"]},
            {"slurm_state_directory": "/var/slurm", "nfs_mounts": [{"path": "/var/slurm"}]},
        ),
        ({}, {"slurm_state_directory": "/var/lib/slurm"}),
        ({}, {"slurm_database": ""}),
        ({"nfs_client": ["gpu1"]}, {"gpucluster_nfs_server": "filer"}),
        ({"slurm_login": ["login.example.com"]}, {}),
    ],
)
def test_what_is_meant_passes(groups: dict[str, list[str]], values: dict[str, t.Any]) -> None:
    assert found(groups, **values) == []


def test_a_node_has_to_say_what_hardware_it_is() -> None:
    groups = {"slurm_controller": ["head"], "slurm_compute": ["gpu1"]}

    (sentence,) = problems(Cluster({"all": ["head", "gpu1"], **groups}, {}, {"head": {}, "gpu1": {}}, ["head", "gpu1"]))

    assert sentence.startswith("gpucluster_vm_size: found nothing for gpu1; allowed: DGX_A100, ")


def test_a_cloud_may_count_in_capital_letters() -> None:
    groups = {"slurm_compute": ["gpu00000A"]}

    assert found(groups, machines={"gpu00000A": {"computer_name": "gpu00000A"}}) == []
    assert len(found(groups, machines={"gpu00000A": {"computer_name": "other"}})) == 1


@pytest.mark.parametrize(
    ("machine", "faults"),
    [
        ({"host": "localhost"}, 0),
        ({"host": "127.0.0.1"}, 0),
        ({"host": "10.0.0.9"}, 1),
    ],
)
def test_no_other_machine_takes_the_name_of_this_one(machine: dict[str, str], faults: int) -> None:
    assert len(found({"others": ["localhost"]}, machines={"localhost": machine})) == faults
