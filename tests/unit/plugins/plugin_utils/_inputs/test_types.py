# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none

BOOLS = sorted(name for name, option in types.options().items() if option["type"] == "bool")


def found(name: str, value: t.Any) -> list[str]:
    return list(types.problems(name, types.options()[name], value))


def test_every_role_is_read() -> None:
    roles = {path.name for path in types.ROLES.iterdir()}

    assert {option["role"] for option in types.options().values()} == roles


def test_the_defaults_of_every_input_are_right() -> None:
    expect_none(
        fault
        for name, option in types.options().items()
        if "default" in option
        for fault in found(name, option["default"])
    )


def test_nothing_is_never_a_value() -> None:
    assert [name for name in types.options() if len(found(name, None)) != 1] == []


def test_a_switch_takes_words() -> None:
    words: list[t.Any] = [True, False, "false", "no", "0", 0, "Off", "TRUE", "yes", "1", "on"]
    others: list[t.Any] = ["maybe", "", "y", 2, [True], "false "]

    assert len(BOOLS) >= 30
    for name in BOOLS:
        assert [word for word in words if found(name, word)] == [], name
        wanted = [[f"{name}: found {word!r}; allowed: true or false"] for word in others]
        assert [found(name, word) for word in others] == wanted


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("slurm_user_uid", "many", "slurm_user_uid: found 'many'; allowed: a whole number"),
        ("slurm_user_uid", True, "slurm_user_uid: found True; allowed: a whole number"),
        ("slurm_user_uid", 1.5, "slurm_user_uid: found 1.5; allowed: a whole number"),
        ("enroot_images_reserve_gib", "x", "enroot_images_reserve_gib: found 'x'; allowed: a number"),
        ("slurm_version", 24.11, "slurm_version: found 24.11; allowed: a text; put it into quotes"),
        ("slurm_pam_groups", "sudo", "slurm_pam_groups: found 'sudo'; allowed: a list, such as [sudo]"),
        ("slurm_config", [1], "slurm_config: found [1]; allowed: a mapping of names to values"),
        ("gpu_clocks", "fast", "gpu_clocks: found 'fast'; allowed: max, default, job, keep"),
        ("slurm_topology_plugin", "ring", "slurm_topology_plugin: found 'ring'; allowed: '', tree, block"),
        ("health_dcgm_level", "5", "health_dcgm_level: found '5'; allowed: 0, 1, 2, 3, 4"),
        ("slurm_partitions", [5], "slurm_partitions[0]: found 5; allowed: a mapping of names to values"),
        ("validate_stages", ["x"], "validate_stages[0]: found 'x'; allowed: preflight, scheduler, node, nccl"),
        (
            "nfs_exports",
            [{"client": "a"}],
            "nfs_exports[0]: found the key 'client'; allowed: path, clients, options, squash, owner, group, mode;"
            " did you mean clients?",
        ),
        ("nfs_exports", [{"path": 5.5}], "nfs_exports[0].path: found 5.5; allowed: a text; put it into quotes"),
        ("nfs_mounts", [{"hide": "maybe"}], "nfs_mounts[0].hide: found 'maybe'; allowed: true or false"),
        ("slurm_cache", "cache", "slurm_cache: found 'cache'; allowed: an absolute path"),
        ("slurm_cache", "/a/../etc", "slurm_cache: found '/a/../etc'; allowed: an absolute path"),
        ("slurm_cache", "/a b", "slurm_cache: found '/a b'; allowed: an absolute path"),
        ("slurm_state_directory", "", "slurm_state_directory: found ''; allowed: an absolute path"),
        ("base_packages", ["a\nb"], "base_packages[0]: found 'a\\nb'; allowed: one line of text"),
        ("base_sysctl", {"a": "1\nb = 2"}, "base_sysctl.a: found '1\\nb = 2'; allowed: one line of text"),
        ("base_sysctl", {"a\nb": 1}, "base_sysctl: found 'a\\nb'; allowed: names of one line"),
    ],
)
def test_a_refusal_has_the_variable_what_was_found_and_what_is_allowed(name: str, value: t.Any, sentence: str) -> None:
    assert any(text.startswith(sentence) for text in found(name, value)), found(name, value)


def test_a_number_in_words_is_a_number() -> None:
    assert found("slurm_user_uid", "22078") == []
    assert found("health_dcgm_level", "3") == []
    assert found("base_memlock", 8192) == []


def test_what_its_role_takes_as_a_text_is_taken() -> None:
    assert found("validate_nodelist", "gpu[1-4]") == []
    assert found("nfs_mount_options", "vers=4.2,hard") == []


@pytest.mark.parametrize("name", ["munge_key", "slurm_database_password", "enroot_credentials"])
def test_a_secret_is_never_shown(name: str) -> None:
    (sentence,) = found(name, {"password": "hunter2"})

    assert "hunter2" not in sentence
    assert "not shown" in sentence
