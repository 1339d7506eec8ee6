# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything that is started has an end: a machine, a mount or a service that hangs must not hold up the others."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

ROOT = Path(__file__).parents[3]
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))
# Plays of the control node, and the playbooks that only measure: their jobs have time limits.
UNBOUNDED = {"check_input", "groups", "lab_up", "lab_down", "lab_fault", "check", "validate", "pinning"}
# They start a training, which lasts as long as its job, and watch it.
TRAININGS = {f"plugins/module_utils/_torchrun/{name}.py" for name in ("agent", "launcher")}
PLAYS = [
    pytest.param(path, play, id=f"{path.stem}: {play['name']}")
    for path in sorted([*ROOT.glob("playbooks/*.yml"), *ROOT.glob("playbooks/parts/*.yml")])
    if path.stem not in UNBOUNDED
    for play in yaml_load(path.read_text(encoding="utf-8"))
    if "hosts" in play
]
SETTINGS = ("inventories/lab", "inventories/onprem", "inventories/azure", "playbooks/vars/cluster.yml", "ansible.cfg")


def _unbounded(path: Path) -> t.Iterator[str]:
    text = path.read_text(encoding="utf-8")
    found = re.search(r"\b(subprocess\.|Popen|os\.system|os\.popen)", text)
    if found:
        yield f"{place(path, found[0])}: start programs by plugins/module_utils/_system/bounded_run.py"
    # timeout(1) bounds what is not started by that runner.
    for call in re.findall(r"run_command[^(]*\(\s*(.{0,30})", text, re.DOTALL):
        if not call.startswith('["timeout", "--kill-after='):
            yield f"{place(path, call.splitlines()[0])}: begin the command with timeout --kill-after=, not {call}"


def test_plugins_start_programs_by_the_bounded_runner_only() -> None:
    expect_none(
        fault
        for path in PLUGINS
        if path.name != "bounded_run.py" and path.relative_to(ROOT).as_posix() not in TRAININGS
        for fault in _unbounded(path)
    )


@pytest.mark.parametrize(("path", "play"), PLAYS)
def test_a_task_ends(path: Path, play: dict[str, t.Any]) -> None:
    match = re.fullmatch(r"\{\{ gpucluster_task_seconds \| default\((\d+)\) \}\}", str(play.get("timeout")))

    line = '`timeout: "{{ gpucluster_task_seconds | default(1800) }}"`, or 14400 for what takes hours'
    seconds = int(match[1]) if match else 0
    assert seconds in (1800, 14400), f"{place(path, play['name'])}: add to the play {line}"


@pytest.mark.parametrize("where", SETTINGS)
def test_a_machine_that_hangs_is_given_up_within_two_minutes(where: str) -> None:
    path = ROOT / where
    files = [path] if path.is_file() else sorted(path.rglob("*.yml"))
    lines = [
        line for file in files for line in _joined(file) if re.match(r"(ansible_ssh_(common|extra)_|ssh_)args\b", line)
    ]

    assert lines
    for line in lines:
        options = dict(re.findall(r"-o (ServerAlive\w+)=(\d+)", line))
        # The last answer, the questions without one, and three tries of ten seconds to connect again.
        seconds = int(options["ServerAliveInterval"]) * (1 + int(options["ServerAliveCountMax"])) + 3 * 10 + 1 + 3
        assert seconds < 120, line


def _joined(file: Path) -> list[str]:
    """Return the settings of a file, one a line."""
    if file.suffix != ".yml":
        return file.read_text(encoding="utf-8").splitlines()
    found = yaml_load(file.read_text(encoding="utf-8")) or {}
    return [f"{name}: {value}" for name, value in found.items() if not isinstance(value, dict)]
