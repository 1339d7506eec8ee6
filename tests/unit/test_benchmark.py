# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""make bench fails where a budget of docs/design.md is missed, for nodes and controllers."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, wait_until

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


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> t.Any:
    monkeypatch.syspath_prepend(str(ROOT / "tests/benchmark"))
    return loaded(ROOT / "tests/benchmark/faults.py")


@pytest.fixture
def interrupted() -> t.Any:
    return loaded(ROOT / "tests/benchmark/interrupted.py")


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


def test_each_fault_is_planted_on_a_node_of_its_own(faults: t.Any) -> None:
    planted = faults.plant(200)

    kinds = list(planted.values())
    assert {kind: kinds.count(kind) for kind in kinds} == faults.PLANTED
    assert planted["gpu2"] == "hangs"
    assert "gpu1" not in planted


@pytest.mark.parametrize(
    ("status", "seconds", "named", "words"),
    [
        (4, 220, {"gpu1", "gpu2"}, []),
        (0, 100, {"gpu1", "gpu2"}, ["exit status is 0"]),
        (4, 221, {"gpu1", "gpu2"}, ["it took 221 s"]),
        (2, 100, {"gpu1"}, ["missing in the summary: ['gpu2']"]),
        (2, 100, {"gpu1", "gpu2", "gpu3"}, ["healthy, but in the summary: ['gpu3']"]),
    ],
)
def test_a_run_with_faults_is_judged(
    faults: t.Any, status: int, seconds: float, named: set[str], words: list[str]
) -> None:
    planted = {"gpu1": "fails", "gpu2": "hangs"}

    wrong = faults.judge(faults.Outcome(status, seconds, named), faults.Outcome(0, 100, set()), planted)

    assert len(wrong) == len(words)
    assert all(word in line for word, line in zip(words, wrong))


def test_the_recap_names_the_nodes_that_are_not_finished(faults: t.Any) -> None:
    text = "\n".join(
        f"{host} : ok=3    changed=0    unreachable={unreachable}    failed={failed}    skipped=1"
        for host, unreachable, failed in (("gpu1", 0, 0), ("gpu2", 1, 0), ("gpu3", 0, 1))
    )

    assert faults.unfinished(text) == {"gpu2", "gpu3"}


SDIAG = """
Remote Procedure Call statistics by message type
\tREQUEST_NODE_INFO                       ( 2007) count:{0}      ave_time:200    total_time:{1}
\tMESSAGE_NODE_REGISTRATION_STATUS        ( 1002) count:9      ave_time:10     total_time:90

Remote Procedure Call statistics by user
\troot            (       0) count:19     ave_time:1      total_time:19
"""


@pytest.fixture
def metrics() -> t.Any:
    return loaded(ROOT / "tests/benchmark/metrics.py")


def test_the_requests_between_two_readings_count(metrics: t.Any) -> None:
    before, after = (
        metrics.requests(lambda _args, text=text: (0, text, ""))
        for text in (SDIAG.format(3, 600), SDIAG.format(4, 850))
    )

    assert metrics.added(before, after) == {"REQUEST_NODE_INFO": (1, 250)}


@pytest.mark.parametrize(("seconds", "size", "missed"), [(0.5, 10**5, 0), (2.1, 10**5, 1), (2.1, 10**6 + 1, 2)])
def test_a_slow_or_large_page_misses_the_budget(seconds: float, size: int, missed: int, metrics: t.Any) -> None:
    assert len(metrics.faults({"nodes": 1000, "total": seconds, "page_bytes": size})) == missed


def test_scaled_answers_have_as_many_nodes_as_asked_for(metrics: t.Any) -> None:
    answers = metrics.scaled(10)
    found = metrics.measure(lambda args: (0, answers[args[0]], ""), {}, lambda: 0.0)

    assert (found["nodes"], found["jobs"], metrics.faults(found)) == (10, 40, [])


def test_each_part_of_a_run_is_interrupted_once_and_a_seed_repeats_it(interrupted: t.Any) -> None:
    for seed in range(50):
        found = interrupted.points(random.Random(seed), 5)

        assert [(point.task - 1) * 5 // interrupted.TASKS for point in found] == [0, 1, 2, 3, 4]
        assert found == interrupted.points(random.Random(seed), 5)


@pytest.mark.parametrize(
    ("stopped", "next_run", "after", "names", "words"),
    [
        ((-9, {}), (0, {"gpu1": 7}), (0, {"gpu1": 0}), ["gpu1", "gpu2"], []),
        ((0, {"gpu1": 7}), (0, {"gpu1": 0}), (0, {"gpu1": 0}), ["gpu1", "gpu2"], ["the run was at its end"]),
        ((-9, {}), (2, {"gpu1": 7}), (0, {"gpu1": 0}), ["gpu1", "gpu2"], ["next run: status 2"]),
        (
            (-9, {}),
            (0, {"gpu1": 7}),
            (0, {"gpu1": 1}),
            ["gpu1", "gpu2"],
            ["changed {'gpu1': 1}"],
        ),
        ((-9, {}), (0, {"gpu1": 7}), (0, {"gpu1": 0}), ["gpu1"], ["no job of alice"]),
    ],
)
def test_what_follows_an_interruption_is_judged(
    interrupted: t.Any,
    monkeypatch: pytest.MonkeyPatch,
    stopped: tuple[int, dict[str, int]],
    next_run: tuple[int, dict[str, int]],
    after: tuple[int, dict[str, int]],
    names: list[str],
    words: list[str],
) -> None:
    outcomes = [interrupted.Outcome(status, 1, "Task", changed) for status, changed in (stopped, next_run, after)]
    monkeypatch.setattr(interrupted, "run", lambda *_arguments: outcomes.pop(0))
    monkeypatch.setattr(interrupted, "job", lambda _user: names)

    wrong = interrupted.phase("first run", [], "alice", interrupted.points(random.Random(1), 1))

    assert len(wrong) == len(words)
    assert all(word in line for word, line in zip(words, wrong))


def test_the_dearest_templates_are_those_of_tasks_that_all_nodes_have(
    fleet: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"task": "All", "cpu": 1, "ran": 1, "skipped": 1}, {"task": "Controller", "cpu": 1, "ran": 1, "skipped": 0}]
    found = [("All", "{{ a }}", 2.0), ("All", "{{ a }}", 4.0), ("All", "{{ b }}", 8.0), ("Controller", "{{ c }}", 99.0)]

    def run(_name: str, nodes: int, _arguments: list[str], _folder: Path, templates: Path) -> t.Any:
        templates.write_text("".join(json.dumps(row) + "\n" for row in found))
        return fleet.Run("templates", nodes, 1, 1, 1, rows)

    monkeypatch.setattr(fleet, "run", run)
    fleet.show_templates(2, ["site.yml"], tmp_path)

    lines = capsys.readouterr().out.splitlines()
    assert "2 evaluations and 7 CPU ms for each node" in lines[0]
    assert [line.split() for line in lines[2:]] == [["4.0", "0.5", "{{", "b", "}}"], ["3.0", "1.0", "{{", "a", "}}"]]


def test_masters_of_ssh_are_found_by_their_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests/benchmark"))
    masters = loaded(ROOT / "tests/benchmark/fleet_sshd.py").masters
    script = f"exec -a 'ssh: {tmp_path}/cp/x [mux]' sleep {HANGS}"
    with subprocess.Popen(["bash", "-c", script], start_new_session=True) as process:
        try:
            assert list(wait_until("a master", lambda: masters(str(tmp_path)))) == [process.pid]
            assert masters("/elsewhere") == {}
        finally:
            os.killpg(process.pid, signal.SIGKILL)
