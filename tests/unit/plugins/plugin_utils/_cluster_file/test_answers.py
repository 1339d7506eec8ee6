# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that init.yml writes."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import answers, inventory, problems

if t.TYPE_CHECKING:
    from pathlib import Path

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKnw8lNDEZWwZDkyeW3yzCWvUWzPTmY7TFu8vcZiGpVR alice@laptop"
GIVEN = {
    "name": "training",
    "user": "ubuntu",
    "controller": "head1=192.0.2.10",
    "nodes": "gpu[1-4]=192.0.2.[11-14]",
    "vm_size": "DGX_H100",
    "users": "alice, bob",
}


def _data(**given: str) -> dict[str, t.Any]:
    text = answers.text({**GIVEN, **given}, "/tmp/cluster.yml")
    assert max(map(len, text.splitlines())) <= 160
    found: dict[str, t.Any] = yaml_load(text)
    return found


def _refused(file: str = "cluster.yml", **given: str) -> str:
    with pytest.raises(answers.AnswerError) as refused:
        answers.text({**GIVEN, **given}, file)
    return str(refused.value)


def test_the_file_is_an_inventory_without_faults() -> None:
    data = _data()

    assert problems.find(data) == []
    found = inventory.build(data)
    assert found.groups["slurm_compute"] == ["gpu1", "gpu2", "gpu3", "gpu4"]
    assert found.groups["nfs_client"] == found.groups["slurm_compute"]
    assert found.hosts["gpu4"] == {"ansible_host": "192.0.2.14"}
    assert found.variables["all"]["users_accounts"] == [
        {"name": "alice", "uid": 2001, "sudo": True},
        {"name": "bob", "uid": 2002},
    ]
    assert found.variables["slurm_compute"] == {"gpucluster_vm_size": "DGX_H100"}


def test_the_file_has_comments_and_the_schema() -> None:
    lines = answers.text(GIVEN, "cluster.yml").splitlines()

    assert sum(line.lstrip().startswith("#") for line in lines) > 15
    assert lines[1].startswith("# yaml-language-server: $schema=https://")


@pytest.mark.parametrize("nodes", ["gpu[1-4]", "gpu1=node.example.com"])
def test_without_addresses_nobody_exports(nodes: str) -> None:
    assert _data(nodes=nodes)["machines"]["head1"]["roles"] == ["controller", "database", "build"]


def test_the_public_key_is_written(tmp_path: Path) -> None:
    file = tmp_path / "id.pub"
    file.write_text(KEY + "\n", encoding="utf-8")

    assert _data(users=f"alice={file}")["users"]["alice"] == {"uid": 2001, "ssh_keys": [KEY]}


def test_a_private_key_is_refused_and_not_shown(tmp_path: Path) -> None:
    file = tmp_path / "id"
    file.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n", encoding="utf-8")

    said = _refused(users=f"alice={file}")
    assert "which is no public key" in said
    assert "abc" not in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"nodes": ""}, "init_nodes: found nothing; allowed: an answer"),
        ({"vm_size": "DGX_H10"}, "did you mean DGX_H100?"),
        ({"nodes": "gpu[1-4]=192.0.2.[1-3]"}, "3 values for 4 machines"),
        ({"nodes": "gpu[1-4]=192.0.2.[2-1]"}, "a range that is not valid"),
        ({"nodes": "GPU1"}, "allowed: a host name in lower case"),
        ({"nodes": "head1=192.0.2.11"}, "head1"),
        ({"name": "My Cluster"}, "name: found 'My Cluster'"),
        ({"name": "no", "users": "alice bob"}, "users.alice bob: found"),
        ({"users": ","}, "init_users: found ','; allowed: one user or more"),
        ({"users": "alice=/nonexistent.pub"}, "which cannot be read"),
        ({"user": "a: b\nvars: {x: 1}"}, "init_user: found 'a: b"),
        ({"controller": "head1: {}\n  x=1"}, "init_controller: found"),
    ],
)
def test_a_wrong_answer_is_refused(given: dict[str, str], said: str) -> None:
    assert said in _refused(**given)


def test_the_name_of_the_file_is_one_that_ansible_accepts() -> None:
    assert "allowed: a name that ends in cluster.yml" in _refused("/tmp/my.yml")


@pytest.mark.parametrize("name", ["no", "on", "1", "null"])
def test_words_of_yaml_stay_names(name: str) -> None:
    assert _data(name=name)["name"] == name
