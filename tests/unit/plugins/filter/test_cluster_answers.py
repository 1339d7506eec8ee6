# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The answers to init.yml."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter import cluster_answers

if t.TYPE_CHECKING:
    from pathlib import Path

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKnw8lNDEZWwZDkyeW3yzCWvUWzPTmY7TFu8vcZiGpVR alice@laptop"
GIVEN = {
    "name": "training",
    "user": "ubuntu",
    "controller": "head1=192.0.2.10",
    "nodes": "gpu[1-2]=192.0.2.[11-12]",
    "vm_size": "DGX_H100",
    "users": "alice, bob",
}


def _parts(**given: str) -> dict[str, t.Any]:
    found: dict[str, t.Any] = cluster_answers.FilterModule().filters()["cluster_answers"]({**GIVEN, **given})
    return found


def _refused(**given: str) -> str:
    with pytest.raises(AnsibleFilterError, match=r"Wrong answers\. No file was written\.") as refused:
        _parts(**given)
    return str(refused.value)


def test_the_parts_of_an_inventory() -> None:
    assert _parts() == {
        "name": "training",
        "user": "ubuntu",
        "vm_size": "DGX_H100",
        "controller": {"head1": {"ansible_host": "192.0.2.10"}},
        "nodes": {"gpu1": {"ansible_host": "192.0.2.11"}, "gpu2": {"ansible_host": "192.0.2.12"}},
        "networks": ["192.0.2.10/31", "192.0.2.12/32"],
        "users": [
            {"name": "alice", "uid": 2001, "ssh_keys": [], "sudo": True},
            {"name": "bob", "uid": 2002, "ssh_keys": [], "sudo": False},
        ],
    }


@pytest.mark.parametrize("nodes", ["gpu[1-2]", "gpu1=node.example.com"])
def test_without_all_addresses_nothing_is_exported(nodes: str) -> None:
    assert _parts(nodes=nodes)["networks"] == []


def test_addresses_of_both_kinds() -> None:
    assert _parts(nodes="gpu1=fd00::1")["networks"] == ["192.0.2.10/32", "fd00::1/128"]


def test_the_public_key_is_read(tmp_path: Path) -> None:
    file = tmp_path / "id.pub"
    file.write_text(KEY + "\n", encoding="utf-8")

    assert _parts(users=f"alice={file}")["users"][0]["ssh_keys"] == [KEY]


@pytest.mark.parametrize("text", ["-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n", KEY + " {{ abc }}", KEY + "\nabc"])
def test_what_is_no_public_key_is_refused_and_not_shown(text: str, tmp_path: Path) -> None:
    file = tmp_path / "id"
    file.write_text(text, encoding="utf-8")

    said = _refused(users=f"alice={file}")
    assert "which is no public key" in said
    assert "abc" not in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nodes": ""}, "init_nodes: found nothing; allowed: an answer"),
        ({"vm_size": "DGX_H10"}, "gpucluster_vm_size: "),
        ({"nodes": "gpu[1-4]=192.0.2.[1-3]"}, "init_nodes: found 3 addresses for 4 machines"),
        ({"nodes": "gpu[1-2]="}, "init_nodes: found 0 addresses for 2 machines"),
        ({"nodes": "gpu[1-4"}, "init_nodes: found 'gpu[1-4'"),
        ({"nodes": "=192.0.2.1"}, "init_nodes: found"),
        ({"nodes": "gpu1={{x}}"}, "init_nodes: found"),
        ({"nodes": "gpu1=-oProxyCommand"}, "init_nodes: found"),
        ({"nodes": "GPU1"}, "machines of Slurm named GPU1"),
        ({"nodes": "[1-2]"}, "machines of Slurm named 1, 2"),
        ({"nodes": "all"}, "all"),
        ({"nodes": "nfs_server"}, "machines named nfs_server"),
        ({"nodes": "head1"}, "init_nodes: found the controller head1"),
        ({"nodes": "gpu1=192.0.2.10"}, "init_nodes: found the address 192.0.2.10 twice"),
        ({"controller": "head[1-2]"}, "init_controller: found 2 machines; allowed: one"),
        ({"controller": "head1: {}\n  x=1"}, "init_controller: found"),
        ({"name": "My Cluster"}, "slurm_cluster_name: found 'My Cluster'"),
        ({"name": "{{ x }}"}, "slurm_cluster_name: found"),
        ({"users": "alice bob"}, "users_accounts"),
        ({"users": "{{ x }}"}, "users_accounts"),
        ({"users": "alice,alice"}, "alice"),
        ({"users": ","}, "init_users: found ','; allowed: one user or more"),
        ({"users": "alice=/nonexistent.pub"}, "which cannot be read"),
        ({"user": "a: b\nvars: {x: 1}"}, "init_user: found 'a: b"),
        ({"user": "{{x}}"}, "init_user: found '{{x}}'; allowed: a login name"),
        ({"user": "-oProxyCommand=x"}, "init_user: found"),
    ],
)
def test_a_wrong_answer_is_refused(given: dict[str, str], said: str) -> None:
    assert said in _refused(**given)
