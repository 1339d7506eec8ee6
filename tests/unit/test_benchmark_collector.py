# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmarks of the monitoring count a pass of the collector with its children, and its requests to slurmctld."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring.gpu import FIELDS
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "tests/benchmark/collector_cost.py"
IDENTITY = {"index": "0", "uuid": "GPU-0a", "pci.bus_id": "00000000:01:00.0", "name": "H100"}
ROW = ", ".join(IDENTITY.get(field, "1") for field in FIELDS)
DATABASE = """Remote Procedure Call statistics by message type
\tDBD_NODE_STATE           ( 1432) count:500    ave_time:70514  total_time:35257281
\tDBD_SEND_MULT_MSG        ( 1474) count:99     ave_time:327977 total_time:32469809
\tDBD_STEP_COMPLETE        ( 1441) count:4      ave_time:469938 total_time:1879755

Remote Procedure Call statistics by user
\tslurm               (     64030) count:634    ave_time:113531 total_time:71978953
"""
BURN = "import time; end = time.process_time() + {}\nwhile time.process_time() < end: pass"


def loaded(path: Path) -> t.Any:
    spec = importlib.util.spec_from_file_location(f"benchmark_{path.stem}", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def cost() -> t.Any:
    return loaded(SCRIPT)


@pytest.fixture
def monitoring() -> t.Any:
    return importlib.import_module("ansible_collections.hpcai.gpucluster.tests.benchmark.emulated_monitoring")


@pytest.fixture
def machine() -> t.Any:
    return importlib.import_module("ansible_collections.hpcai.gpucluster.tests.benchmark.emulated_machine")


def run(directory: Path, nvidia_smi: str) -> tuple[int, list[str]]:
    """Run the script with a simulated nvidia-smi; return its exit status and its lines."""
    program = directory / "nvidia-smi"
    program.write_text(f"#!/bin/sh\n{nvidia_smi}\n", encoding="utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{directory}:/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--passes", "2"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert not done.stderr
    return done.returncode, done.stdout.splitlines()


def test_children_of_a_command_count(cost: t.Any) -> None:
    burn = BURN.format(0.3)
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}], check=True, timeout={PATIENCE})"

    found = cost.measured([sys.executable, "-c", child], 300)

    assert found.status == 0
    assert found.user + found.system >= 0.3
    assert found.kib > 1000


def test_a_command_that_hangs_is_killed(cost: t.Any) -> None:
    assert cost.measured(["sleep", str(HANGS)], 0.1).status == -9


def test_each_step_is_measured_with_its_gpus(tmp_path: Path) -> None:
    __, lines = run(tmp_path, f"echo '{ROW}'")

    nothing, __, gpu, __ = map(json.loads, lines[1:5])
    assert json.loads(lines[0])["gpus"] == [ROW]
    assert (gpu["pass"], gpu["passes"]) == ("gpu alone", 2)
    assert gpu["processor_s"] > nothing["processor_s"]
    assert not [line for line in lines if line.startswith("gpu alone: exit status")]


def test_a_collector_that_fails_is_named(tmp_path: Path) -> None:
    status, lines = run(tmp_path, "echo NVIDIA-SMI has failed; exit 9")

    assert status == 1
    assert any(line.startswith("gpu alone: exit status 1: gpucluster-metrics: gpu: ") for line in lines)


def test_a_pass_over_the_budget_is_named(cost: t.Any) -> None:
    late = cost.Pass(0.5, 0.2, 1.0, 1000, 0, "")

    assert cost.faults("gpu alone", [late] * 3) == ["gpu alone: 0.70 s of processor time, budget 0.6 s"]
    assert cost.faults("gpu alone", [late._replace(user=0.1)] * 3) == []


def test_requests_between_two_readings(monitoring: t.Any) -> None:
    before, after = {"A": (3, 300), "B": (1, 10)}, {"A": (5, 700), "B": (1, 10), "C": (2, 40)}

    assert monitoring.added(before, after) == {"A": (2, 400), "C": (2, 40)}


def test_the_share_of_the_collectors_is_what_a_pass_asks_beside_the_requests_of_minutes_without(
    monitoring: t.Any,
) -> None:
    # Two minutes each. sdiag is of the benchmark, and a health check asked for nodes.
    types = {"SUBMIT": (80, 38_000), "REQUEST_NODE_INFO": (4, 2_000), "REQUEST_STATS_INFO": (4, 800)}
    passes = (monitoring.Pass(0.2, 0.1, {"REQUEST_JOB_INFO": (1, 200), "REQUEST_NODE_INFO": (1, 200)}),) * 2

    assert monitoring.share(monitoring.Minutes(types, {}, 0.5), monitoring.Minutes({}, {}, 0.5, passes), 2) == {
        "own_requests_a_minute": 2,
        "own_ms_a_minute": 0.4,
        "others_requests_a_minute": 42,
        "others_ms_a_minute": 20,
        "own_percent_of_others": 2,
        "own_percent_of_slurmctld_cpu": pytest.approx(0.16),
    }


def test_a_request_to_slurmdbd_that_holds_others_does_not_count(
    monitoring: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = sys.modules[monitoring.call.__module__]
    monkeypatch.setattr(controller, "call", lambda *_arguments: DATABASE)

    assert controller.database_rpcs() == (504, 37_137_036)


def test_the_tasks_of_the_long_job_are_counted(monitoring: t.Any) -> None:
    controller = sys.modules[monitoring.call.__module__]
    processes = [subprocess.Popen(["sleep", seconds]) for seconds in (f"{HANGS}.25", f"{HANGS}.25", f"{HANGS}.5")]
    try:
        controller.until("two run", PATIENCE, lambda: controller.running(f"sleep {HANGS}.25") == 2)
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_an_idle_slurmctld_has_no_share(monitoring: t.Any) -> None:
    none = monitoring.Minutes({}, {}, 0.0)
    watched = none._replace(passes=(monitoring.Pass(0.2, 0.1, {"REQUEST_JOB_INFO": (1, 200)}),))

    assert monitoring.share(none, watched, 1)["own_percent_of_others"] == float("inf")


def test_minutes_are_added_up(monitoring: t.Any) -> None:
    one = monitoring.Minutes({"A": (1, 10)}, {"root": (1, 10)}, 0.5)
    other = one._replace(types={"B": (2, 5)}, passes=(monitoring.Pass(0.2, 0.1, {}),))

    assert monitoring.together([one, other]) == monitoring.Minutes(
        {"A": (1, 10), "B": (2, 5)}, {"root": (2, 20)}, 1.0, other.passes
    )


def test_a_pass_is_counted_without_the_question_of_the_benchmark(
    monitoring: t.Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    readings = iter(
        [{"SUBMIT": (1, 9)}, {"SUBMIT": (2, 18), "REQUEST_JOB_INFO": (1, 70), "REQUEST_STATS_INFO": (2, 80)}]
    )
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\nsleep 0.1 # work: its time is measured\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setattr(monitoring, "rpcs", lambda: next(readings))
    monkeypatch.setattr(monitoring, "METRICS", str(program))

    found = monitoring.one_pass(30)

    assert found.types == {"REQUEST_JOB_INFO": (1, 70), "REQUEST_STATS_INFO": (1, 40)}
    assert found.took >= 0.1


def test_the_processors_that_other_work_uses_are_those_that_no_process_of_the_container_used(
    machine: t.Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([(100.0, 50.0, 20.0), (110.0, 65.0, 30.0)])
    monkeypatch.setattr(machine.Processors, "_now", staticmethod(lambda: next(now)))

    assert machine.Processors().others() == 0.5


def test_the_processor_time_of_a_process_is_ours(machine: t.Any) -> None:
    before = machine.Processors._now()
    subprocess.run([sys.executable, "-c", BURN.format(0.3)], check=True, timeout=PATIENCE)
    spent = [[now - was for now, was in zip(machine.Processors._now(), before)] for _reading in range(3)]

    # A reading lacks a process that ends after its parent was read and before itself.
    assert max(ours for _seconds, _busy, ours in spent) >= 0.3
    assert spent[0][1] > 0
