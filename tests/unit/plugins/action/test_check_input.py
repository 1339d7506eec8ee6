# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action check_input as a role calls it, with the role's defaults and Ansible's own variables."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.parsing.dataloader import DataLoader
from ansible.template import trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.action.check_input import ActionModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

ROLES = Path(__file__).parents[4] / "roles"
NEEDED = {"nfs_clients": "10.0.0.0/24", "nfs_server_address": "control", "role_path": "/nowhere"}


class Task:
    """What the action reads of a task."""

    async_val = 0
    check_mode = False

    def __init__(self, args: dict[str, t.Any]) -> None:
        self.args = args


def check(variables: dict[str, t.Any], **args: t.Any) -> dict[str, t.Any]:
    loader = DataLoader()
    files = [ROLES / args.get("role", "nfs") / name for name in ("defaults/main.yml", "vars/main.yml")]
    known = [loader.load_from_file(str(path), trusted_as_template=True) or {} for path in files if path.exists()]
    task_vars = {name: value for values in [*known, NEEDED, variables] for name, value in values.items()}
    nothing: t.Any = None
    action = ActionModule(t.cast("t.Any", Task(args)), nothing, nothing, loader, nothing, nothing)
    action._connection = t.cast("t.Any", type("Connection", (), {"_shell": type("Shell", (), {"tmpdir": None})})())
    return action.run(None, task_vars)


@pytest.mark.parametrize(
    "args",
    [
        {"role": "enroot"},
        {"role": "nfs", "entry_point": "server"},
        {"role": "nfs", "entry_point": "client"},
        {"role": "pyxis"},
        {"role": "scratch"},
        {"role": "users"},
    ],
    ids=str,
)
def test_the_defaults_of_a_role_are_right(args: dict[str, t.Any]) -> None:
    result = check({"gpucluster_hardware": records.find("lab")}, **args)

    assert not result.get("failed"), result
    assert result["changed"] is False


def test_faults_end_the_task_one_a_line() -> None:
    result = check({"nfs_threads": "many", "nfs_exports": [{"path": "/etc"}]}, role="nfs", entry_point="server")

    assert result["failed"] is True
    heading, *faults = result["msg"].splitlines()
    assert heading == "Wrong input of the role nfs."
    assert [fault.partition(":")[0] for fault in faults] == ["nfs_threads", "nfs_exports[0].path"]


def test_what_another_entry_point_takes_is_not_judged() -> None:
    assert not check({"nfs_exports": [{"path": "/etc"}]}, role="nfs", entry_point="client").get("failed")


def test_a_value_that_needs_facts_waits_for_them_and_the_others_do_not() -> None:
    threads = trust_as_template("{{ ansible_facts.processor_nproc }}")
    result = check({"nfs_threads": threads, "nfs_exports": [{"path": "/etc"}]}, role="nfs", entry_point="server")

    assert result["msg"].count("\n") == 1
    assert "/etc" in result["msg"]


def test_a_template_that_cannot_be_right_is_a_fault() -> None:
    result = check({"nfs_threads": trust_as_template("{{ nfs_treads }}")}, role="nfs", entry_point="server")

    assert "nfs_threads: 'nfs_treads' is undefined" in result["msg"]


def test_a_role_that_does_not_exist_is_a_fault() -> None:
    result = check({}, role="nfs", entry_point="sever")

    assert result["msg"] == "the collection has no role nfs with sever"
