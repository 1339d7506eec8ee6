# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make bench fails where a budget of docs/design.md is missed, for nodes and controllers."""

from __future__ import annotations

import importlib.util
import re
import sys
import typing as t
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLEET = ROOT / "tests/benchmark/fleet_plugins/connection/finished.py"
MACHINES = {"node": ["gpu1", "gpu2"], "controller": ["control"]}


def loaded(path: Path) -> t.Any:
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)

    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bench() -> t.Any:
    pytest.importorskip("ansible_runner")
    return loaded(ROOT / "tests/benchmark/site.py")


@pytest.fixture(scope="module")
def fleet() -> t.Any:
    return loaded(ROOT / "tests/benchmark/fleet.py")


def events(tasks: dict[str, int], changed: bool = False) -> list[dict[str, t.Any]]:
    """Return a run in which each host did so many tasks."""
    when = "2026-11-22T08:00:00+00:00"
    done = []
    for host, count in tasks.items():
        for number in range(count):
            data = {"host": host, "task": f"Task {number}", "duration": number, "res": {"changed": changed}}
            done.append({"event": "runner_on_ok", "created": when, "event_data": data})
    return [{"event": "playbook_on_play_start", "created": when, "event_data": {"name": "Play"}}, *done]


@pytest.mark.parametrize(
    ("tasks", "words"),
    [
        ({"control": 60, "gpu1": 25}, []),
        ({"control": 61, "gpu1": 25}, ["61 tasks on a controller, budget 60"]),
        ({"control": 60, "gpu2": 26}, ["26 tasks on a node, budget 25"]),
    ],
)
def test_a_missed_budget_is_named(bench: t.Any, tasks: dict[str, int], words: list[str]) -> None:
    assert bench.measure("second", events(tasks)).over_budget(MACHINES) == [f"second run: {word}" for word in words]


def test_a_second_run_that_changes_something_is_over_its_budget(bench: t.Any) -> None:
    assert "changed" in bench.measure("second", events({"gpu1": 1}, changed=True)).over_budget(MACHINES)[0]


def test_the_ten_slowest_tasks_are_shown(bench: t.Any) -> None:
    slowest = bench.measure("second", events({"gpu1": 25})).slowest

    assert [name for name, __ in slowest] == [f"Task {number}" for number in range(24, 14, -1)]


def test_the_budgets_are_those_of_the_design(bench: t.Any) -> None:
    design = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    first, second = bench.BUDGETS["first"], bench.BUDGETS["second"]

    assert re.search(rf"per compute node, .*\| {first['node']} / {second['node']} \|", design)
    assert re.search(rf"on the controller, second run \| {second['controller']} \|", design)
    assert re.search(rf"packages built, .*\| {first['seconds']} s / {second['seconds']} s \|", design)


@pytest.mark.parametrize(
    ("seconds", "found", "shape"),
    [
        ([10, 20, 50], [1.0, 1.0], "linear"),
        ([10, 20, 60], [1.0, 1.33], "NOT LINEAR"),
        ([10, 30, 60], [2.0, 1.0], "falls"),
        ([10, 20], [1.0], "three sizes show whether it is linear"),
    ],
)
def test_the_cost_of_one_more_node_must_not_grow(
    fleet: t.Any, seconds: list[float], found: list[float], shape: str
) -> None:
    runs = [fleet.Run("site.yml", nodes, 1, cpu, 1, []) for nodes, cpu in zip((10, 20, 50), seconds)]

    assert [round(slope, 2) for slope in fleet.slopes(runs)] == found
    assert fleet.shape(fleet.slopes(runs)) == shape


def test_no_machine_of_a_fleet_is_contacted_and_no_cache_of_the_user_is_written(fleet: t.Any, tmp_path: Path) -> None:
    everything = fleet.inventory(5, tmp_path)["all"]
    lab = everything["children"]["lab"]

    assert everything["vars"] == {"validate_directory": str(tmp_path / "reports")}
    assert sorted(lab["hosts"]) == ["gpu1", "gpu2", "gpu3", "gpu4", "gpu5"]
    assert lab["hosts"]["gpu1"]["ansible_ssh_private_key_file"] == str(tmp_path / "key")
    assert lab["vars"] == {
        "ansible_connection": "finished",
        "pyxis_cache": str(tmp_path),
        "slurm_cache": str(tmp_path),
    }


def test_a_finished_node_has_its_programs_and_takes_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    finished = loaded(FLEET)
    monkeypatch.setenv("FLEET_NODES", '["gpu1", "gpu9"]')

    stat = finished.answer("gpu1", "ansible.modules.stat", {"path": "/x"}, {"/x": "abc"})
    waited = finished.answer("c", "x.slurm_wait", {"nodes": ["gpu1", "gpu9"]}, {})
    keys = [finished.answer(host, "ansible.modules.setup", {}, {})["ansible_facts"] for host in ("gpu1", "gpu2")]
    slurm = finished.answer("c", "x.slurm_nodes_info", {}, {})

    assert (stat["changed"], stat["stat"]["checksum"]) == (False, "abc")
    assert [node for node, state in waited["nodes"].items() if state["registered"]] == ["gpu1", "gpu9"]
    assert len({one["ansible_ssh_host_key_ed25519_public"] for one in keys}) == 2
    assert [(node["name"], node["state"]) for node in slurm["nodes"]] == [("gpu1", "idle"), ("gpu9", "idle")]


def test_a_finished_node_answers_what_its_modules_return_in_any_case(
    fleet: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLEET_TASKS", str(tmp_path / "tasks.json"))
    finished = loaded(fleet.connections(tmp_path) / "finished.py")
    modules = "ansible_collections.hpcai.gpucluster.plugins.modules"

    assert finished.answer("gpu1", f"{modules}.file_set", {}, {}) == {"changed": False, "files": [], "lacking": []}
    assert finished.answer("gpu1", f"{modules}.munge_key", {"key": "x"}, {}) == {"changed": False, "key": "x" * 64}


def test_a_finished_controller_has_the_configuration_that_an_earlier_run_wrote(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finished = loaded(FLEET)
    monkeypatch.setenv("FLEET_TASKS", str(tmp_path / "tasks.json"))
    written = [{"path": "/etc/slurm/slurm.conf", "content": "ClusterName=lab"}, {"path": "/etc/x", "content": "x"}]

    finished.answer("control", "x.file_set", {"files": written}, {})
    asked = {"files": ["slurm.conf", "x"]}
    found = [finished.answer(host, "x.slurm_config_info", asked, {})["files"] for host in ("control", "control2")]

    assert found == [{"slurm.conf": {"content": "ClusterName=lab", "right": True}}, {}]


@pytest.mark.parametrize(
    ("changed", "expected", "lines"),
    [
        (["localhost"], (), []),
        (["gpu2", "gpu1"], (), ["Copy changed gpu1, gpu2"]),
        (["gpu2", "gpu1"], ("control", "gpu1"), ["Copy changed gpu2"]),
    ],
)
def test_a_change_of_a_finished_node_is_named(
    fleet: t.Any, changed: list[str], expected: tuple[str, ...], lines: list[str]
) -> None:
    rows = [{"task": "Copy", "changed": changed}, {"task": "Other", "changed": []}]

    assert fleet.Run("site.yml", 2, 1, 1, 1, rows).changes(expected) == lines
