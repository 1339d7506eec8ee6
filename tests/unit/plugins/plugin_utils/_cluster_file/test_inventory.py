# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts, groups and variables of a file without faults."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import inventory

NODES = {"gpu[1-2]": {"roles": "compute", "address": "10.0.0.[1-2]"}}


def _built(machines: dict[str, t.Any], **keys: t.Any) -> inventory.Inventory:
    return inventory.build({"name": "c", "machines": machines, **keys})


def _all(**keys: t.Any) -> dict[str, t.Any]:
    return _built({}, **keys).variables["all"]


def test_roles_are_groups_and_all_groups_are_there() -> None:
    found = _built({"head": {"roles": ["controller", "login"], "groups": ["rack1"]}, **NODES})

    assert found.groups == {
        "slurm_controller": ["head"],
        "slurm_login": ["head"],
        "slurm_compute": ["gpu1", "gpu2"],
        "slurm_database": ["head"],
        "slurm_build": ["head"],
        "nfs_server": [],
        "nfs_client": [],
        "monitoring_server": [],
        "rack1": ["head"],
    }
    assert found.hosts == {"head": {}, "gpu1": {"ansible_host": "10.0.0.1"}, "gpu2": {"ansible_host": "10.0.0.2"}}


def test_the_first_controller_gets_no_task_that_another_machine_has() -> None:
    machines = {"head": {"roles": "controller"}, "db": {"roles": ["database", "build"]}}

    groups = _built(machines).groups

    assert (groups["slurm_database"], groups["slurm_build"]) == (["db"], ["db"])


def test_accounting_can_be_off() -> None:
    assert _built({"head": {"roles": "controller"}}, features={"accounting": False}).groups["slurm_database"] == []


@pytest.mark.parametrize(
    ("head", "keys", "clients"),
    [
        (["controller"], {}, []),
        (["controller", "nfs_server"], {}, ["gpu1", "gpu2"]),
        (["controller"], {"storage": {"filer": "filer"}}, ["head", "gpu1", "gpu2"]),
        (["controller"], {"storage": {"mounts": [{"path": "/a", "source": "f:/a"}]}}, ["head", "gpu1", "gpu2"]),
        (["controller"], {"storage": {"mounts": [{"path": "/a"}]}}, []),
        (["controller", "nfs_client"], {"storage": {"filer": "filer"}}, ["head"]),
    ],
)
def test_who_mounts(head: list[str], keys: dict[str, t.Any], clients: list[str]) -> None:
    assert _built({"head": {"roles": head}, **NODES}, **keys).groups["nfs_client"] == clients


def test_the_networks_of_the_server_are_the_machines_of_the_file() -> None:
    machines = {"head": {"roles": ["controller", "nfs_server"], "address": "10.0.0.3"}, **NODES}

    assert _built(machines).variables["all"]["gpucluster_networks"] == {"cluster": ["10.0.0.1", "10.0.0.2/31"]}
    given = _built(machines, storage={"networks": ["10.0.0.0/8"]}).variables["all"]
    assert given["gpucluster_networks"] == {"cluster": ["10.0.0.0/8"]}


def test_without_the_addresses_of_all_machines_no_network_is_guessed() -> None:
    machines = {"head": {"roles": ["controller", "nfs_server"]}, **NODES}

    assert "gpucluster_networks" not in _built(machines).variables["all"]


def test_racks_are_spread_evenly_in_the_order_of_the_names() -> None:
    hosts = _built({"gpu[1-4]": {"roles": "compute", "rack": "r[1-2]"}}).hosts

    assert [host["gpucluster_rack"] for host in hosts.values()] == ["r1", "r1", "r2", "r2"]


def test_variables_of_a_machine_come_last() -> None:
    machine = {"roles": "compute", "vm_size": "DGX_H100", "port": 22, "vars": {"ansible_port": 23, "own": 1}}

    assert _built({"gpu1": machine}).hosts["gpu1"] == {"gpucluster_vm_size": "DGX_H100", "ansible_port": 23, "own": 1}


def test_the_vm_size_of_the_file_is_one_of_the_nodes() -> None:
    assert _built(NODES, vm_size="auto").variables["slurm_compute"] == {"gpucluster_vm_size": "auto"}


def test_users_groups_and_administrators() -> None:
    found = _all(users={"a": {"uid": 1}, "b": {"uid": 2}}, admins=["b"], user_groups={"g": {"gid": 3}})

    assert found["users_accounts"] == [{"name": "a", "uid": 1}, {"name": "b", "uid": 2, "sudo": True}]
    assert found["users_groups"] == [{"name": "g", "gid": 3}]


def test_partitions_have_the_keys_of_slurm() -> None:
    part = {
        "nodes": ["gpu1", "gpu2"],
        "max_time": "1-0",
        "allow_groups": ["a", "b"],
        "state": "DOWN",
        "OverTimeLimit": 5,
    }

    assert _all(partitions={"p": part, "q": {}})["slurm_partitions"] == [
        {
            "PartitionName": "p",
            "Nodes": "gpu1,gpu2",
            "State": "DOWN",
            "MaxTime": "1-0",
            "AllowGroups": "a,b",
            "OverTimeLimit": 5,
        },
        {"PartitionName": "q", "Nodes": "ALL", "State": "UP"},
    ]


def test_keys_with_one_variable() -> None:
    found = _all(
        connection={"user": "u", "jump_host": "j@h", "ssh_args": "-v"},
        slurm={"config": {"KillWait": 1}},
        features={"x11": False, "accounting": True},
        mirror="https://m",
        proxy={"http": "http://p:1"},
        options={"firewall": "absent"},
        azure={"location": "x"},
        vars={"base_nofile": 5},
    )

    assert found == {
        "slurm_cluster_name": "c",
        "ansible_user": "u",
        "ansible_ssh_common_args": "-o ProxyJump=j@h -v",
        "slurm_config": {"KillWait": 1},
        "slurm_x11": False,
        "gpucluster_mirror": "https://m",
        "gpucluster_proxy": {"http": "http://p:1"},
        "gpucluster_firewall": "absent",
        "azure_cluster": {"name": "c", "location": "x"},
        "base_nofile": 5,
    }
