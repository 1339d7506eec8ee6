# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What variables of DeepOps mean here: each is used, mapped, or listed with what to set instead."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import older_names, rules

ROOT = Path(__file__).parents[5]
GROUPS = {
    "all": ["login01", "gpu01", "gpu02"],
    "slurm-master": ["login01"],
    "slurm-node": ["gpu01", "gpu02"],
    "slurm-login": ["login01"],
}
TWO = {**GROUPS, "all": ["login01", "login02", "gpu01"], "slurm-master": ["login01", "login02"]}
ADDRESSES = {"login01": "10.0.1.1", "gpu01": "10.0.2.1", "gpu02": "gpu02.example.com"}
EVERYBODY = "*(rw,sync,no_root_squash)"


def meaning(
    taken: t.Iterable[str] = (), groups: dict[str, list[str]] | None = None, **values: t.Any
) -> older_names.Meaning:
    """Return what the variables of a controller mean."""
    host = older_names.Member("login01", {"slurm_install_prefix": "/usr/local", **values}, frozenset(taken))
    return older_names.translate(host, groups or GROUPS, ADDRESSES)


@pytest.mark.parametrize(
    ("values", "name", "expected"),
    [
        ({}, "slurm_cluster_name", "deepops"),
        ({}, "slurm_pam_adopt", True),
        ({"slurm_restrict_node_access": False}, "slurm_pam_adopt", False),
        ({"slurm_restrict_node_access": "no"}, "slurm_pam_adopt", False),
        ({"slurm_enable_pam_slurm_adopt": False}, "slurm_pam_adopt", False),
        ({"slurm_allow_ssh_user": ["carol"]}, "slurm_pam_users", ["carol"]),
        ({}, "gpucluster_vm_size", "auto"),
        ({}, "scratch_drive_count", 0),
        ({}, "slurm_state_directory", "/var/spool/slurm/ctld"),
        ({"slurm_enable_ha": True}, "slurm_state_directory", "/sw/slurm"),
        ({"slurm_enable_ha": "yes", "slurm_ha_state_save_location": "/ha"}, "slurm_state_directory", "/ha"),
        ({"slurm_login_on_compute": True}, "slurm_jobs_on_controllers", True),
        ({"slurm_health_check_program": "/usr/sbin/nhc"}, "slurm_health_check_program", ""),
        ({"slurm_enable_nfs_server": False, "nfs_exports": [{"path": "/home"}]}, "nfs_exports", []),
        ({"slurm_enable_nfs_client_nodes": "no"}, "nfs_mounts", []),
        ({"nfs_mounts": [{"mountpoint": "/home", "options": "async,vers=3"}]}, "nfs_version3_enabled", True),
        ({"chrony_install": False}, "base_time_service", ""),
        ({"chrony_config_server": "time.example.com"}, "base_time_servers", ["time.example.com"]),
        ({"software_extra_packages": ["git"]}, "base_packages", ["git"]),
        ({}, "base_hosts", {"login01": "10.0.1.1", "gpu01": "10.0.2.1"}),
        ({"slurm_install_pyxis": False}, "gpucluster_containers", False),
        ({"http_proxy": "http://p:1", "no_proxy": "h, i,10.0.0.0/8"}, "gpucluster_proxy",
            {"http": "http://p:1", "no_proxy": ["h", "i"]}),
        ({"proxy_env": {"https_proxy": "http://q:1"}}, "gpucluster_proxy", {"https": "http://q:1"}),
        ({"enroot_cache_path": "/var/lib/enroot/user-$(id -u)"}, "enroot_cache_directory", "/var/lib/enroot"),
        ({"enroot_config": "ENROOT_DATA_PATH /raid/data/user-$(id -u)"}, "enroot_data_directory", "/raid/data"),
    ],
)  # fmt: skip
def test_a_variable_sets_an_input(values: dict[str, t.Any], name: str, expected: t.Any) -> None:
    assert meaning(**values).inputs[name] == expected


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"slurm_allow_ssh_user": []}, "slurm_pam_users"),
        ({"slurm_login_on_compute": False}, "slurm_jobs_on_controllers"),
        ({"slurm_health_check_program": "/opt/site/check"}, "slurm_health_check_program"),
        ({"slurm_configure_etc_hosts": False}, "base_hosts"),
        ({"enroot_data_path": "/tmp/enroot-data/user-$(id -u)"}, "enroot_data_directory"),
        ({"enroot_cache_path": "$HOME/cache"}, "enroot_cache_directory"),
        ({"nfs_mounts": [{"mountpoint": "/home", "options": "async"}]}, "nfs_version3_enabled"),
        ({"nfs_exports": [{"path": "/home", "options": "10.0.0.0/8(rw)"}]}, "nfs_exports"),
    ],
)
def test_a_variable_sets_no_input(values: dict[str, t.Any], name: str) -> None:
    assert name not in meaning(**values).inputs


def test_time_limits_are_those_of_the_partition() -> None:
    (partition,) = meaning(slurm_max_job_timelimit="2-00:00", slurm_default_job_timelimit=60).inputs["slurm_partitions"]

    assert (partition["MaxTime"], partition["DefaultTime"]) == ("2-00:00", 60)
    assert partition["PartitionName"] == "batch"
    assert "slurm_partitions" not in meaning().inputs


def test_two_controllers_without_shared_state_keep_the_default() -> None:
    assert "slurm_state_directory" not in meaning(groups=TWO).inputs


def test_an_export_for_everybody_becomes_one_for_the_cluster() -> None:
    found = meaning(nfs_exports=[{"path": "/home", "options": EVERYBODY}, {"path": "/sw", "options": "10.0.0.0/8(ro)"}])

    own = "(rw,sync,no_root_squash)"
    assert found.inputs["nfs_exports"] == [
        {"path": "/home", "options": f"10.0.1.1{own} 10.0.2.1{own} gpu02.example.com{own}"},
        {"path": "/sw", "options": "10.0.0.0/8(ro)"},
    ]
    assert found.mapped["nfs_exports"] == ["nfs_exports"]


def test_enroot_conf_becomes_a_mapping() -> None:
    text = "# a comment\nENROOT_SQUASH_OPTIONS -noI -noD\nENROOT_MOUNT_HOME y\n\nENROOT_DATA_PATH /raid/user-$(id -u)\n"

    assert older_names.enroot_config(text) == {"ENROOT_SQUASH_OPTIONS": "-noI -noD", "ENROOT_MOUNT_HOME": "y"}
    assert "enroot_config" not in meaning(enroot_config={"ENROOT_MOUNT_HOME": True}).inputs


def test_an_input_of_the_inventory_takes_precedence_and_the_summary_says_so() -> None:
    found = meaning({"slurm_pam_adopt", "gpucluster_vm_size"}, slurm_restrict_node_access=True)

    assert not {"slurm_pam_adopt", "gpucluster_vm_size"} & set(found.inputs)
    assert found.ignored["slurm_restrict_node_access"] == "the inventory sets slurm_pam_adopt"


def test_a_value_that_needs_facts_is_named() -> None:
    host = older_names.Member("gpu01", {}, frozenset(), frozenset({"software_extra_packages"}))

    found = older_names.translate(host, GROUPS, ADDRESSES)
    assert found.ignored == {"software_extra_packages": "its value needs facts of the machine; set base_packages"}


def test_networks_without_a_proxy_are_named() -> None:
    found = meaning(http_proxy="http://p:1", no_proxy="localhost,10.0.0.0/8")

    assert "no_proxy, its networks" in found.ignored
    assert found.mapped["no_proxy"] == ["gpucluster_proxy"]
    assert "no_proxy, its networks" not in meaning(http_proxy="http://p:1", no_proxy="localhost").ignored


def test_a_public_password_is_named() -> None:
    user = {"username": "nvidia", "uid": 10007, "password": "$6$IrxI27V4ogJFfgTV$x"}

    assert "users[nvidia].password" in meaning(users=[user]).ignored
    assert "users[nvidia].password" not in meaning(users=[{**user, "password": "$6$own$x"}]).ignored


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("slurm-master[0]", ["login01"]),
        ("slurm-master[1:],slurm-node", ["login02", "gpu01", "gpu02"]),
        ("slurm-node[0:1]", ["gpu01", "gpu02"]),
        ("slurm-node[0:0]", ["gpu01"]),
        ("slurm-node[-1]", ["gpu02"]),
        ("slurm-node[1:-1]", ["gpu02"]),
        ("gpu01", ["gpu01"]),
        ("slurm-nfs[0]", []),
        (None, []),
        ("slurm-node:!gpu01", None),
        ("gpu*", None),
    ],
)
def test_a_host_pattern(text: str | None, expected: list[str] | None) -> None:
    groups = {"all": ["gpu01"], "slurm-master": ["login01", "login02"], "slurm-node": ["gpu01", "gpu02"]}

    assert older_names.pattern(text, groups) == expected


def test_the_first_controller_has_the_database() -> None:
    assert older_names.memberships({}, TWO) == {"login01": ["slurm_database"]}
    assert older_names.memberships({}, {**TWO, "slurm_database": []}) == {}
    found = older_names.memberships({"nfs_server_group": "slurm-master[0]", "nfs_client_group": "slurm-node"}, GROUPS)
    assert found == {"login01": ["slurm_database", "nfs_server"], "gpu01": ["nfs_client"], "gpu02": ["nfs_client"]}


def test_only_an_inventory_of_deepops_is_translated() -> None:
    assert older_names.is_deepops(GROUPS, {"deepops_dir"})
    assert not older_names.is_deepops(GROUPS, {"slurm_cluster_name"})
    assert not older_names.is_deepops({"slurm_controller": ["login01"]}, {"deepops_dir"})
    assert older_names.known({"deepops_dir", "own"}, GROUPS) == {"deepops_dir"}


def test_each_variable_is_in_one_list() -> None:
    names = [name for name in older_names.table() if not name.endswith("*")]

    values: dict[str, t.Any] = dict.fromkeys(names, "x")
    found = meaning(**values)
    listed = [*found.used, *found.mapped, *found.ignored]
    assert sorted(listed) == sorted(names)
    assert all(found.ignored.values())


def test_each_entry_says_what_it_means() -> None:
    for name, entry in older_names.table().items():
        assert set(entry) <= {"used", "sets", "same", "instead"}, name
        assert set(entry) & {"used", "sets", "instead"}, name
        named = {other for other in entry.get("sets", []) if not other.startswith("the group ")}
        assert named <= rules.known(), name
        for text in re.findall(r"\bset ([a-z]+_[a-z_]+)", entry.get("instead", "")):
            assert text in rules.known(), f"{name}: {text}"


def test_the_playbook_sets_each_input() -> None:
    plays = yaml_load((ROOT / "playbooks/groups.yml").read_text(encoding="utf-8"))
    tasks = {task["name"]: task for play in plays for task in play["tasks"]}
    named = {other for entry in older_names.table().values() for other in entry.get("sets", [])}
    defaults = set(meaning().inputs)

    assert set(tasks["Set the inputs that they mean"]["ansible.builtin.set_fact"]) == defaults | {
        name for name in named if not name.startswith("the group ")
    }


def test_a_summary_joins_the_machines() -> None:
    found = older_names.summary(
        [meaning(slurm_restrict_node_access=True), meaning(users=[], deepops_dir="/opt/deepops")]
    )

    assert found["used"] == "users"
    assert found["mapped"] == ["slurm_restrict_node_access -> slurm_pam_adopt"]
    assert "deepops_dir: nothing is installed there" in found["ignored"]
