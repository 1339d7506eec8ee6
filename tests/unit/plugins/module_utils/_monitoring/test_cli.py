# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as a role installs it: one file that a timer runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import cli, live, slurm
from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring.text import sample
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

RECORDED = Path(__file__).parents[3] / "fixtures/slurm/24.11.5"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("program") / "gpucluster-metrics"
    path.write_bytes(zipapp.build("_monitoring.cli", sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture
def run(program: Path, tmp_path: Path) -> t.Callable[..., tuple[int, str, str]]:
    """Return a function that runs collectors with commands, and returns exit status, page and messages."""

    def call(*collectors: str, **commands: str) -> tuple[int, str, str]:
        (tmp_path / "bin").mkdir(exist_ok=True)
        for name, script in commands.items():
            (tmp_path / "bin" / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (tmp_path / "bin" / name).chmod(0o755)
        config = tmp_path / "monitoring.json"
        config.write_text(json.dumps({"directory": str(tmp_path / "out"), "collectors": collectors}), encoding="utf-8")
        environment = {**os.environ, "PATH": f"{tmp_path}/bin:/usr/bin:/bin"}
        done = subprocess.run(
            [program, "--config", config],
            env=environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        pages = sorted((tmp_path / "out").glob("*.prom"))
        return done.returncode, "".join(page.read_text(encoding="utf-8") for page in pages), done.stderr

    return call


def recorded(name: str) -> str:
    return f"cat {RECORDED}/{name}.json"


def test_slurm_is_written_for_the_node_exporter(run: t.Callable[..., tuple[int, str, str]]) -> None:
    answers = {"scontrol": recorded("scontrol-show-nodes"), "squeue": recorded("squeue"), "sdiag": recorded("sdiag")}
    code, page, err = run("slurm", **answers)

    assert (code, err) == (0, "")
    assert "\nslurm_jobs_running 2\n" in page
    assert '\ngpucluster_collector_success{collector="slurm"} 1\n' in page
    assert 'device="nvidia0"' in page


def test_a_controller_that_is_down_leaves_no_old_figure(run: t.Callable[..., tuple[int, str, str]]) -> None:
    answers = {"scontrol": recorded("scontrol-show-nodes"), "squeue": recorded("squeue"), "sdiag": recorded("sdiag")}
    run("slurm", **answers)
    code, page, err = run("slurm", scontrol="echo 'Unable to contact slurm controller' >&2; exit 1")

    assert code == 1
    assert "Unable to contact slurm controller" in err
    assert "slurm_jobs" not in page
    assert 'gpucluster_collector_success{collector="slurm"} 0' in page


def test_a_collector_that_is_switched_off_leaves_no_old_figure(
    run: t.Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    run("slurm", "machine", scontrol="exit 1")
    (tmp_path / "out/planted.prom").touch()
    run("machine")

    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == ["gpucluster_machine.prom", "planted.prom"]


def test_one_collector_that_fails_does_not_stop_the_others(run: t.Callable[..., tuple[int, str, str]]) -> None:
    code, page, _err = run("gpu", "machine", **{"nvidia-smi": "echo 'No devices were found'; exit 6"})

    assert code == 1
    assert 'gpucluster_collector_success{collector="gpu"} 0' in page
    assert 'gpucluster_collector_success{collector="machine"} 1' in page


def test_a_figure_of_the_release_is_not_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(args: t.Sequence[str]) -> tuple[int, str, str]:
        asked.append(args[0])
        names = {"scontrol": "scontrol-show-nodes", "squeue": "squeue", "sdiag": "sdiag"}
        return 0, (RECORDED / f"{names[args[0]]}.json").read_text(encoding="utf-8"), ""

    host = Host(answer)
    monkeypatch.setattr(host, "read", lambda _path: "")
    monkeypatch.setattr(live, "text", lambda _url: "")
    both = [
        {one.name for one in cli.Collectors(config, host, t.cast("t.Any", None)).wanted()["slurm"]()}
        for config in ({"collectors": ["slurm"]}, {"collectors": ["slurm"], "endpoint": "http://head1:6817/metrics"})
    ]

    # Nor is slurmctld asked for it.
    assert asked == ["scontrol", "squeue", "sdiag", "scontrol", "squeue"]
    names = {one.name for one in slurm.endpoint(slurm.read(answer))}
    kept = {name for name in names if slurm.FILLED.fullmatch(name)}
    assert {name for name in both[1] if name.startswith("slurm_")} == kept
    assert both[0] - both[1] == names - kept
    # Without accounting, slurmctld has 0 GPUs; it has 0 for memory that it does not know.
    assert kept == {
        *("slurm_node_gpus", "slurm_node_gpus_alloc", "slurm_node_memory_free_bytes", "slurm_jobs_gpus_alloc"),
        *("slurm_partition_gpus", "slurm_partition_jobs_gpus_alloc"),
    }


def test_an_endpoint_that_does_not_serve_takes_no_figure_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_url: str) -> str:
        raise OSError("HTTP Error 404: Not Found")

    names = {"scontrol": "scontrol-show-nodes", "squeue": "squeue", "sdiag": "sdiag"}
    host = Host(lambda args: (0, (RECORDED / f"{names[args[0]]}.json").read_text(encoding="utf-8"), ""))
    monkeypatch.setattr(host, "read", lambda _path: "")
    monkeypatch.setattr(live, "text", refused)
    collectors = cli.Collectors({"collectors": ["slurm"], "endpoint": "http://a"}, host, t.cast("t.Any", None))

    found = collectors.wanted()["slurm"]()

    assert "slurm_nodes" in {one.name for one in found}
    assert collectors.troubles == ["slurm_endpoint: HTTP Error 404: Not Found"]
    assert sample("gpucluster_collector_success", 0, collector="slurm_endpoint") in found


def test_an_error_that_nobody_expects_is_told_and_stops_nothing() -> None:
    def broken() -> t.Any:
        raise ZeroDivisionError("by nothing")

    page, reason = cli.collect("x", broken, lambda: 0.0)

    assert reason.startswith("x: ZeroDivisionError: by nothing (test_cli.py, line ")
    assert page.splitlines()[1] == 'gpucluster_collector_success{collector="x"} 0'
    assert cli.collect("x", lambda: [sample("a", 1)], lambda: 0.0)[1] == ""


def test_a_record_of_an_unknown_form_costs_only_its_figures(
    run: t.Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    told = json.loads((RECORDED / "squeue.json").read_text(encoding="utf-8"))
    told["jobs"][0]["job_resources"] = {"nodes": ["a", "new", "form"]}
    (tmp_path / "squeue.json").write_text(json.dumps(told), encoding="utf-8")

    code, page, err = run(
        "slurm",
        "machine",
        scontrol=recorded("scontrol-show-nodes"),
        squeue=f"cat {tmp_path}/squeue.json",
        sdiag=recorded("sdiag"),
    )

    assert code == 1
    assert "gpucluster-metrics: slurm_devices: AttributeError" in err
    assert 'gpucluster_collector_success{collector="slurm_devices"} 0' in page
    for name in ("slurm", "slurm_jobs", "slurm_accounts", "machine"):
        assert f'gpucluster_collector_success{{collector="{name}"}} 1' in page
    assert "\nslurm_jobs_running 2\n" in page
    assert "gpucluster_job_gpu" not in page


@pytest.mark.parametrize("key", ["account", "partition", "user_name"])
def test_a_name_that_is_missing_costs_only_its_figures(
    run: t.Callable[..., tuple[int, str, str]], tmp_path: Path, key: str
) -> None:
    told = json.loads((RECORDED / "squeue.json").read_text(encoding="utf-8"))
    for job in told["jobs"]:
        job[key] = None
    (tmp_path / "squeue.json").write_text(json.dumps(told), encoding="utf-8")

    answers = {"scontrol": recorded("scontrol-show-nodes"), "squeue": f"cat {tmp_path}/squeue.json"}
    code, page, err = run("slurm", "machine", sdiag=recorded("sdiag"), **answers)

    assert (code, "Error" in err or "is None, not a text" in err) == (1, True), err
    assert 'gpucluster_collector_success{collector="machine"} 1' in page
    assert "\nslurm_nodes 2\n" in page


def test_without_sdiag_only_the_scheduler_is_missing(run: t.Callable[..., tuple[int, str, str]]) -> None:
    answers = {"scontrol": recorded("scontrol-show-nodes"), "squeue": recorded("squeue")}
    code, page, err = run("slurm", sdiag="echo no daemon >&2; exit 1", **answers)

    assert (code, err) == (1, "gpucluster-metrics: slurm_scheduler: sdiag --json exited 1: no daemon\n")
    assert "\nslurm_jobs_running 2\n" in page
    assert "slurm_agent_cnt" not in page


def test_a_broken_configuration_of_the_health_check_stops_only_its_reader(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = Host(lambda _args: (1, "", ""))
    monkeypatch.setattr(host, "read", lambda path: "{" if path == cli.CHECK_CONFIG else "")
    collectors = cli.Collectors({"collectors": ["machine", "validation"]}, host, t.cast("t.Any", None)).wanted()

    assert [bool(cli.attempt(name, collector)[1]) for name, collector in collectors.items()] == [True, False]


def test_squeue_is_asked_for_all_tasks_of_an_array(run: t.Callable[..., tuple[int, str, str]]) -> None:
    answers = {"scontrol": recorded("scontrol-show-nodes"), "sdiag": recorded("sdiag")}
    _code, page, _err = run("slurm", **answers, squeue=f"[ $SLURM_BITSTR_LEN = 0 ] && {recorded('squeue')}")

    assert "\nslurm_jobs_pending 8\n" in page
