# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action program builds the file on the control node and leaves the rest to copy."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import action_loader

from ansible_collections.hpcai.gpucluster.plugins.action.program import ActionModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp


class Task:
    """What the action reads of a task."""

    async_val = 0
    check_mode = False

    def __init__(self, args: dict[str, t.Any]) -> None:
        self.args = args

    def copy(self) -> Task:
        return Task(self.args)


class Copy:
    """Stands for the action copy."""

    def __init__(self) -> None:
        self.args: dict[str, t.Any] = {}
        self.content = b""

    def get(self, name: str, task: Task, **_others: t.Any) -> Copy:
        assert name == "ansible.legacy.copy"
        self.args = task.args
        return self

    def run(self, task_vars: t.Any = None) -> dict[str, t.Any]:
        self.content = Path(self.args["src"]).read_bytes()
        return {"changed": True, "checksum": "known"}


@pytest.fixture
def copy(monkeypatch: pytest.MonkeyPatch) -> Copy:
    stand_in = Copy()
    monkeypatch.setattr(action_loader, "get", stand_in.get)
    return stand_in


class Node:
    """Stands for file_set on a managed node, which lacks the program unless a test says otherwise."""

    def __init__(self) -> None:
        self.answers: list[dict[str, t.Any]] = []
        self.asked: list[dict[str, t.Any]] = []

    def execute(self, module: str, arguments: dict[str, t.Any], task_vars: t.Any = None) -> dict[str, t.Any]:
        assert module == "hpcai.gpucluster.file_set"
        self.asked.append(arguments)
        lacking = [one["path"] for one in arguments.get("requires", [])]
        return self.answers.pop(0) if self.answers else {"changed": False, "lacking": lacking}


@pytest.fixture(autouse=True)
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    stand_in = Node()
    monkeypatch.setattr(ActionModule, "_execute_module", stand_in.execute)
    return stand_in


def install(**args: t.Any) -> dict[str, t.Any]:
    nothing: t.Any = None
    task: t.Any = Task(args)
    action = ActionModule(task, nothing, nothing, DataLoader(), nothing, nothing)
    action._connection = t.cast("t.Any", type("Connection", (), {"_shell": type("Shell", (), {"tmpdir": None})})())
    return action.run(None, {})


@pytest.fixture(autouse=True)
def local_tmp(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("ansible.constants.DEFAULT_LOCAL_TMP", str(tmp_path))


def test_copy_brings_the_program_to_the_node(copy: Copy) -> None:
    result = install(entry="_health.cli", dest="/usr/local/bin/gpucluster-check", interpreter="/opt/python")

    assert result["changed"] is True
    assert copy.content == zipapp.build("_health.cli", "/opt/python")
    assert Path(copy.args.pop("src")).name == "gpucluster-check"
    assert copy.args == {
        "dest": "/usr/local/bin/gpucluster-check",
        "owner": "root",
        "group": "root",
        "mode": "0755",
    }


def test_a_program_is_built_once_in_a_run(copy: Copy, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build(entry: str, interpreter: str) -> bytes:
        built.append(interpreter)
        return f"{entry} {interpreter}".encode()

    monkeypatch.setattr(zipapp, "build", build)

    for interpreter in ("/opt/python", "/opt/python", "/usr/bin/python3", "/opt/python"):
        install(entry="_health.cli", dest="/usr/local/bin/x", interpreter=interpreter)

    assert built == ["/opt/python", "/usr/bin/python3"]
    assert copy.content == b"_health.cli /opt/python"


@pytest.mark.parametrize("changed", [True, False])
def test_its_files_are_written_after_it(copy: Copy, node: Node, changed: bool) -> None:
    node.answers = [{"changed": False, "lacking": ["/usr/local/bin/x"]}, {"changed": changed, "files": ["/etc/x"]}]
    files = [{"path": "/etc/x", "content": "x"}]

    result = install(entry="_health.cli", dest="/usr/local/bin/x", files=files)

    assert [bool(arguments.get("requires")) for arguments in node.asked] == [True, False]
    assert [arguments["files"] for arguments in node.asked] == [files, files]
    assert copy.content
    assert (result["changed"], result["dest"]) == (True, "/usr/local/bin/x")


def test_a_program_that_is_there_is_not_copied(copy: Copy, node: Node) -> None:
    node.answers = [{"changed": True, "files": ["/etc/x"], "lacking": []}]

    result = install(entry="_health.cli", dest="/usr/local/bin/x", files=[{"path": "/etc/x", "content": "x"}])

    assert not copy.content
    assert (result["changed"], result["files"]) == (True, ["/etc/x"])
    (required,) = node.asked[0]["requires"]
    assert required == {"path": "/usr/local/bin/x", "sha1": result["checksum"], "mode": "0755"}


def test_a_program_that_there_is_not_is_refused() -> None:
    with pytest.raises(AnsibleError, match=r"there is no module .*\._health\.none"):
        install(entry="_health.none", dest="/usr/local/bin/x")
