# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where homes are made, as playbooks/vars/cluster.yml reads it from the inventory."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

FILE = Path(__file__).parents[3] / "playbooks/vars/cluster.yml"
CLIENTS = {"nfs_client": ["login", "gpu1", "gpu2"]}
OWN = {
    "name": "own",
    "cpus": {"sockets": 1, "cores_per_socket": 2, "threads_per_core": 1},
    "numa_nodes": 1,
    "memory_mib": 1024,
    "gpus": {"count": 0},
}
SERVED = {"nfs_server": ["control"], **CLIENTS}


def value(name: str, host: str, groups: dict[str, list[str]], **inputs: t.Any) -> t.Any:
    """Return a variable of the file as a machine sees it."""
    loader = DataLoader()
    cluster = loader.load_from_file(str(FILE), trusted_as_template=True)
    magic = {"inventory_hostname": host, "groups": groups, "group_names": [], "hostvars": {}}
    return Templar(loader=loader, variables={**cluster, **magic, **inputs}).template(cluster[name])


def homes(host: str, groups: dict[str, list[str]], **inputs: t.Any) -> tuple[bool, str]:
    """Return whether a machine makes homes, and the mount point that they need."""
    loader = DataLoader()
    cluster = loader.load_from_file(str(FILE), trusted_as_template=True)
    magic = {
        "inventory_hostname": host,
        "groups": groups,
        "group_names": [name for name in groups if host in groups[name]],
    }
    templar = Templar(loader=loader, variables={**cluster, **magic, **inputs})
    makes, mount = (templar.template(cluster[name]) for name in ("gpucluster_create_homes", "gpucluster_home_storage"))
    return makes, mount


def test_homes_are_made_where_they_are_kept() -> None:
    assert homes("gpu1", {}) == (True, "")
    assert homes("control", SERVED) == (True, "")
    assert homes("gpu1", SERVED) == (False, "/home")


@pytest.mark.parametrize(
    ("mounts", "base", "expected"),
    [
        ([{"path": "/shared"}], "/home", (True, "")),
        ([{"path": "/shared"}, {"path": "/hom"}], "/shared/home", (False, "/shared")),
        ([{"path": "/shared"}, {"path": "/shared/home"}], "/shared/home", (False, "/shared/home")),
        ([{"path": "/shared/home"}], "/shared", (True, "")),
        ([{"mountpoint": "/home", "path": "/export/home"}], "/home", (False, "/home")),
        ([{"mountpoint": "/mnt", "path": "/home"}], "/home", (True, "")),
        ([], "/home", (True, "")),
    ],
)
def test_a_client_makes_no_homes_where_it_mounts_them(
    mounts: list[dict[str, str]], base: str, expected: tuple[bool, str]
) -> None:
    assert homes("gpu1", SERVED, nfs_mounts=mounts, users_home_base=base) == expected


def test_the_first_client_makes_homes_on_a_filer() -> None:
    assert homes("login", CLIENTS) == (True, "/home")
    assert homes("gpu1", CLIENTS) == (False, "/home")


def test_homes_on_a_disk_of_the_server_need_its_mount() -> None:
    volumes = [{"name": "shared", "path": "/shared"}]

    assert homes("control", SERVED, nfs_volumes=volumes) == (True, "")
    assert homes("control", SERVED, nfs_volumes=volumes, users_home_base="/shared/home") == (True, "/shared")
    assert homes("other", SERVED, nfs_volumes=volumes, users_home_base="/shared/home") == (True, "")


@pytest.mark.parametrize(
    ("groups", "builds"),
    [
        ({"slurm_controller": ["c1", "c2"]}, ["c1"]),
        ({"slurm_controller": ["c1", "c2"], "slurm_build": []}, ["c1"]),
        ({"slurm_controller": ["c1", "c2"], "slurm_build": ["b1"]}, ["b1"]),
    ],
)
def test_slurm_is_built_once_on_the_first_controller_where_no_machine_is_named(
    groups: dict[str, list[str]], builds: list[str]
) -> None:
    assert value("gpucluster_slurm_builds", "c1", groups) == builds


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({"gpucluster_vm_size": "DGX_H100"}, "DGX_H100"),
        ({"gpucluster_vm_size": "dgx_h100", "azure_vm_size": "Standard_ND96isr_H200_v5"}, "DGX_H100"),
        ({"azure_vm_size": "Standard_ND96isr_H200_v5"}, "Standard_ND96isr_H200_v5"),
        ({"gpucluster_vm_size": "DGX_H100", "gpucluster_vm_size_record": OWN}, "own"),
        ({"gpucluster_vm_size_record": OWN}, "own"),
        ({}, None),
        ({"gpucluster_vm_size": "", "gpucluster_vm_size_record": {}}, None),
    ],
)
def test_the_inventory_names_the_hardware_of_a_node(variables: dict[str, t.Any], name: str | None) -> None:
    groups = {"slurm_compute": ["gpu1"]}
    magic: dict[str, t.Any] = {"group_names": ["slurm_compute"], "hostvars": {"gpu1": variables}}
    found = value("gpucluster_hardware", "gpu1", groups, **magic, **variables)

    assert found.get("name") == name


def test_a_size_that_was_found_is_the_hardware_of_a_node(tmp_path: Path) -> None:
    path = tmp_path / "sizes.json"
    path.write_text('{"gpu1": "DGX_H100"}', encoding="utf-8")
    own: dict[str, t.Any] = {"gpucluster_vm_size": "auto", "gpucluster_vm_sizes_file": str(path)}
    magic: dict[str, t.Any] = {"group_names": ["slurm_compute"], "hostvars": {"gpu1": own, "gpu2": own}}

    groups = {"slurm_compute": ["gpu1", "gpu2"]}
    assert value("gpucluster_hardware", "gpu1", groups, **magic, **own)["name"] == "DGX_H100"
    assert value("gpucluster_hardware", "gpu2", groups, **magic, **own) == {}


@pytest.mark.parametrize("group", ["slurm_login", "slurm_controller"])
def test_machines_that_take_no_jobs_have_no_drives_gpus_and_adapters(group: str) -> None:
    inputs: dict[str, t.Any] = {"hostvars": {"head": {"gpucluster_vm_size": "DGX_H100"}}, "group_names": [group]}
    found = value("gpucluster_hardware", "head", {group: ["head"]}, **inputs)

    assert (found["gpus"]["count"], found["nvme"]["count"], found["infiniband"]["hcas"]) == (0, 0, [])
    assert value("gpucluster_scratch_path", "head", {group: ["head"]}, **inputs) == ""


@pytest.mark.parametrize(
    ("hardware", "inputs", "path"),
    [
        ({"nvme": {"count": 8}}, {}, "/scratch"),
        ({"nvme": {"count": 8}}, {"scratch_path": "/nvme"}, "/nvme"),
        ({"nvme": {"count": 0}}, {}, ""),
        ({}, {}, ""),
    ],
)
def test_the_scratch_path_is_that_of_local_drives(
    hardware: dict[str, t.Any], inputs: dict[str, str], path: str
) -> None:
    assert value("gpucluster_scratch_path", "gpu1", {}, gpucluster_hardware=hardware, **inputs) == path


@pytest.mark.parametrize(("given", "expected"), [("false", False), ("no", False), ("0", False), ("yes", True)])
def test_containers_are_switched_by_words_as_well(given: str, expected: bool) -> None:
    loader = DataLoader()
    cluster = loader.load_from_file(str(FILE), trusted_as_template=True)
    templar = Templar(loader=loader, variables={**cluster, "gpucluster_containers": given})

    assert templar.template(cluster["__gpucluster_containers"]) is expected


def test_playbooks_read_no_switch_as_it_came() -> None:
    for path in FILE.parents[1].glob("*.yml"):
        assert "gpucluster_containers |" not in path.read_text(encoding="utf-8"), path


def test_administrators_of_both_lists_may_always_log_in_to_nodes() -> None:
    users = [{"name": "alice", "uid": 2001}, {"name": "carol", "uid": 2003, "sudo": True}]
    groups = [{"name": "admins", "gid": 5001, "sudo": True}, {"name": "research", "gid": 5000}]
    given = {"users_accounts": users, "users_groups": groups}

    assert value("gpucluster_administrators", "gpu1", {}, **given) == ["carol"]
    assert value("gpucluster_administrator_groups", "gpu1", {}, **given) == ["admins"]


def test_administrators_of_the_lists_of_deepops() -> None:
    assert value("gpucluster_administrators", "gpu1", {}, users=[{"username": "dan", "sudo": "yes"}]) == ["dan"]
    assert value("gpucluster_administrator_groups", "gpu1", {}, groups_to_create=[]) == []


def _ssh(**inputs: t.Any) -> list[str]:
    names = ("ansible_ssh_extra_args", "ansible_sftp_extra_args", "ansible_scp_extra_args")
    return [value(name, "gpu1", {}, **inputs) for name in names]


def test_every_connection_jumps_over_the_bastion() -> None:
    for arguments in _ssh(gpucluster_bastion="me@bastion:2222"):
        assert " -o ProxyJump=me@bastion:2222" in arguments
    for arguments in _ssh():
        assert "ProxyJump" not in arguments


def test_programs_know_the_proxy() -> None:
    proxy = {"http": "http://proxy:3128"}

    assert value("gpucluster_environment", "gpu1", {}) == {}
    found = value("gpucluster_environment", "gpu1", {}, gpucluster_proxy=proxy)
    assert found == {"http_proxy": "http://proxy:3128", "no_proxy": "localhost,127.0.0.1,::1"}
