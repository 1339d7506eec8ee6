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

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import cli, slurm
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
    both = [
        {one.name for one in cli.Collectors(config, host, t.cast("t.Any", None)).wanted()["slurm"]()}
        for config in ({"collectors": ["slurm"]}, {"collectors": ["slurm"], "endpoint": True})
    ]

    # Nor is slurmctld asked for it.
    assert asked == ["scontrol", "squeue", "sdiag", "scontrol", "squeue"]
    assert {name for name in both[1] if name.startswith("slurm_")} == set()
    assert both[0] - both[1] == {one.name for one in slurm.endpoint(slurm.read(answer))}


def test_an_error_that_nobody_expects_is_not_hidden() -> None:
    def broken() -> t.Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cli.collect("x", broken, lambda: 0.0)
    assert cli.collect("x", lambda: [sample("a", 1)], lambda: 0.0)[1] == ""
