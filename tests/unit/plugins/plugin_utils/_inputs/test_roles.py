# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inputs of one role, by the rules of all inputs and by those of the role."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import roles, types

LINES = ["* || check_ps_service -u root sshd"]
ALICE = {"name": "alice", "uid": 2001, "groups": ["dev", "video"]}


@pytest.mark.parametrize(
    ("role", "values", "says"),
    [
        ("enroot", {"enroot_hooks": ["none"]}, "enroot_hooks: 'none' is unknown"),
        ("health", {"health_hardware": {}}, "health_hardware: found nothing; allowed: a hardware record"),
        ("health", {"health_provider": "builtin", "health_nhc_lines": LINES}, "health_nhc_lines: found"),
        ("health", {"health_provider": "nhc", "health_nhc_version": "9.9.9"}, "no checksum of NHC 9.9.9 is known"),
        (
            "health",
            {"health_provider": "nhc", "health_nhc_source_checksum": "md5:0"},
            "health_nhc_source_checksum: found",
        ),
        ("nfs", {"nfs_mounts": [{"path": "/etc", "server": "a"}]}, "/etc belongs to the system"),
        ("nfs", {"nfs_threads": "many"}, "nfs_threads: found 'many'; allowed: a whole number"),
        ("pyxis", {"pyxis_options": {"container_scope": "node"}, "pyxis_version": "0.24.0"}, "job or global; every"),
        ("pyxis", {"pyxis_options": "container_scope=job"}, "pyxis_options: found"),
        (
            "repair",
            {"repair_ladder": [{"check": "cpus", "steps": ["replace"], "category": "c", "source": "s"}]},
            "repair_ladder: rule 1: found the step 'replace'; allowed: service NAME, gpu_reset and reboot",
        ),
        ("scratch", {"scratch_wipe": ["/dev/sda"]}, "scratch_wipe: /dev/sda is not among scratch_devices"),
        ("slurm", {"slurm_config": {"ClusterName": "x"}}, "slurm_cluster_name sets this one"),
        ("users", {"users_accounts": [{"name": "alice", "uid": 1}]}, "users_accounts[0] (alice): uid"),
        ("users", {"users_groups": [{"name": "dev"}]}, "users_groups[0] (dev): gid"),
        ("users", {"users_deleted": ["root"]}, "users_deleted[0] (root)"),
        ("users", {"users_home_mode": 0o700}, "users_home_mode: found 448"),
        ("validate", {"validate_thresholds": {"pairs": 1}}, "validate_thresholds: found pairs; allowed: node, pair"),
        ("validate", {"validate_thresholds": {"pair": {"warn": 1, "fail": 2}}}, "pair: warn (1) is below fail (2)"),
        ("validate", {"validate_relative": {"pair": "0.8"}}, "validate_relative: found pair: '0.8'; allowed: numbers"),
    ],
)
def test_a_fault_has_the_name_of_the_input_and_is_said_once(role: str, values: dict[str, t.Any], says: str) -> None:
    (fault,) = roles.problems(role, values)

    assert says in fault


def test_the_providers_of_health_have_what_they_need() -> None:
    checksum = f"sha256:{'0' * 64}"

    assert roles.problems("health", {"health_provider": "builtin", "health_nhc_lines": []}) == []
    assert roles.problems("health", {"health_provider": "nhc", "health_nhc_source_checksum": checksum}) == []


def test_groups_of_users_are_those_of_the_list_and_of_every_machine() -> None:
    values = {"users_accounts": [ALICE], "users_groups": [{"name": "dev", "gid": 5000}]}

    assert roles.problems("users", values) == []
    assert roles.problems("users", values | {"users_machine_groups": ["video"]}) == []
    assert roles.problems("users", values | {"users_machine_groups": ["audio"]}) == [
        "users_accounts (alice): group 'video' is unknown; "
        "allowed: a group of users_groups or one that every machine has (audio)"
    ]


@pytest.mark.parametrize("switch", [False, "false", "no"])
def test_a_switch_may_be_a_word(switch: t.Any) -> None:
    values = {
        "users_accounts": [ALICE],
        "users_groups": [{"name": "dev", "gid": 5000}],
        "users_group": "lab",
        "users_machine_groups": ["video"],
        "users_create_per_user_group": switch,
    }

    (fault,) = roles.problems("users", values)

    assert "group 'lab' is unknown" in fault


def test_an_entry_point_has_its_inputs_and_a_role_those_of_all() -> None:
    assert "nfs_exports" in types.of_role("nfs", "server")
    assert "nfs_exports" not in types.of_role("nfs", "client")
    assert {"nfs_exports", "nfs_mounts"} <= types.of_role("nfs")


@pytest.mark.parametrize(("role", "entry_point"), [("nsf", None), ("nfs", "sever")])
def test_a_misspelt_role_checks_nothing_and_fails(role: str, entry_point: str | None) -> None:
    with pytest.raises(ValueError, match="the collection has no role"):
        types.of_role(role, entry_point)
