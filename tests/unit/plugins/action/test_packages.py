# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action packages runs apt only for what is missing."""

from __future__ import annotations

import typing as t

import pytest
from ansible.parsing.dataloader import DataLoader

from ansible_collections.hpcai.gpucluster.plugins.action.packages import ActionModule


class Task:
    """What the action reads of a task."""

    async_val = 0
    check_mode = False

    def __init__(self, args: dict[str, t.Any]) -> None:
        self.args = args


class Node:
    """Stands for a managed node: answers the modules, and records them."""

    def __init__(self, answer: dict[str, t.Any]) -> None:
        self.answer = answer
        self.ran: list[tuple[str, dict[str, t.Any]]] = []
        self.task: t.Any = None
        self.check_modes: list[bool] = []

    def execute(self, name: str, arguments: dict[str, t.Any], task_vars: t.Any = None) -> dict[str, t.Any]:
        self.ran.append((name, arguments))
        self.check_modes.append(self.task.check_mode)
        return {"changed": True, "stdout": "Setting up"} if name == "ansible.builtin.apt" else self.answer


def run(node: Node, monkeypatch: pytest.MonkeyPatch, check_mode: bool = False, **args: t.Any) -> dict[str, t.Any]:
    nothing: t.Any = None
    task: t.Any = Task(args)
    task.check_mode = check_mode
    node.task = task
    action = ActionModule(task, nothing, nothing, DataLoader(), nothing, nothing)
    action._connection = t.cast("t.Any", type("Connection", (), {"_shell": type("Shell", (), {"tmpdir": None})})())
    monkeypatch.setattr(action, "_execute_module", node.execute)
    return action.run(None, {})


def test_nothing_runs_if_nothing_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node({"changed": False, "missing": []})
    result = run(node, monkeypatch, name=["munge"], update_cache=True)

    assert [name for name, _arguments in node.ran] == ["hpcai.gpucluster.packages"]
    assert result["changed"] is False
    assert not result.get("failed")


def test_apt_gets_the_whole_list_and_the_options(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node({"changed": False, "missing": ["chrony"]})
    result = run(node, monkeypatch, name=["munge", "chrony"], update_cache=True, policy_rc_d=None)

    assert node.ran[1] == (
        "ansible.builtin.apt",
        {"name": ["munge", "chrony"], "update_cache": True, "install_recommends": False, "update_cache_retries": 2},
    )
    assert result["changed"] is True
    assert result["missing"] == ["chrony"]


@pytest.mark.parametrize(
    "answer", [{"failed": True, "msg": "name is required"}, {"unreachable": True, "msg": "no route"}, {"failed": True}]
)
def test_a_node_that_does_not_say_what_is_missing_is_no_success(
    answer: dict[str, t.Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    node = Node(answer)
    result = run(node, monkeypatch, name=["munge"])

    assert len(node.ran) == 1
    assert result.get("failed") or result.get("unreachable")


def test_check_mode_changes_nothing_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without check mode, apt itself would install python3-apt and refresh the lists."""
    node = Node({"changed": False, "missing": ["munge"]})
    run(node, monkeypatch, check_mode=True, name=["munge"], update_cache=True, cache_valid_time=86400)

    assert [name for name, _arguments in node.ran] == ["hpcai.gpucluster.packages", "ansible.builtin.apt"]
    assert node.check_modes == [True, True]


@pytest.mark.parametrize(
    ("message", "update", "seen"),
    [
        ("python3-apt must be installed to use check mode. If run normally", True, True),
        ("python3-apt must be installed to use check mode. If run normally", False, True),
        ("No package matching 'munge' is available", True, True),
        ("No package matching 'munge' is available", False, False),
        ("E: held broken packages", True, False),
    ],
)
def test_check_mode_says_what_it_could_not_see(
    monkeypatch: pytest.MonkeyPatch, message: str, update: bool, seen: bool
) -> None:
    node = Node({"changed": False, "missing": ["munge"]})
    apt = {"failed": True, "msg": message}
    monkeypatch.setattr(node, "execute", lambda name, *_args, **_kw: apt if name.endswith("apt") else node.answer)
    result = run(node, monkeypatch, check_mode=True, name=["munge"], update_cache=update)

    assert result.get("failed", False) is not seen
    assert message in result["msg"]
    assert not seen or (result["changed"] and result["warnings"][0].startswith("munge would be installed; not seen in"))
    assert run(node, monkeypatch, name=["munge"], update_cache=update)["failed"], "without check mode it is a failure"


def test_check_mode_reads_no_lists_unless_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node({"changed": False, "missing": []})
    run(node, monkeypatch, check_mode=True, name=["munge"], update_cache="false")

    assert [name for name, _arguments in node.ran] == ["hpcai.gpucluster.packages"]
