# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program as Slurm starts it: a process, a configuration file, an exit status."""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import supervisor
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, LIMITS, LOADED, PATIENCE, slowness, within
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from pathlib import Path

SIMPLE = ("memory", "cpus", "filesystems", "raid")


class Node:
    """A folder with a configuration, a memory and stand-ins for tools."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder = folder
        self.program = program
        self.config = machines.expectations(
            "lab",
            memory={"memory_mib": 1, "tolerance_percent": 0},
            cpus={"enabled": False},
            filesystems={"blocks_max_percent": 100, "inodes_max_percent": 100},
        )
        self.config.update(state_dir=str(folder / "state"), node="gpu1", tools={})
        self.config["sets"]["fast"] = list(SIMPLE)

    def tool(self, name: str, script: str) -> None:
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        self.config["tools"][name.replace("-", "_")] = str(path)

    def run(self, *args: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        path = self.folder / "check.json"
        path.write_text(json.dumps(self.config))
        return subprocess.run(
            [str(self.program), "--config", str(path), *args],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
            env={**os.environ, **(environment or {})},
        )


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program as the role installs it: one file."""
    path = tmp_path_factory.mktemp("program") / "gpucluster-check"
    path.write_bytes(zipapp.build("_health.cli", sys.executable))
    path.chmod(0o755)
    return path


@pytest.fixture
def node(tmp_path: Path, program: Path) -> Node:
    return Node(tmp_path, program)


def test_its_start_is_cheap(node: Node) -> None:
    times = []
    for _attempt in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        node.run("--version")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    assert min(times) < 0.1 * LOADED * slowness()  # of processor time, whatever else the machine does


def test_a_healthy_node(node: Node) -> None:
    done = node.run()

    assert done.returncode == 0  # although cpus is switched off, and no array is expected
    lines = done.stdout.splitlines()
    assert lines[0].startswith("memory: healthy: ")
    assert lines[1] == "cpus: not applicable: switched off"
    assert re.match(r"4 checks in \d+\.\d", lines[-1])
    assert lines[-1].endswith(" s: healthy")
    assert node.run("memory").returncode == 0
    assert node.run("cpus").returncode == 4  # nothing was proved


def test_a_sick_node(node: Node) -> None:
    node.config["checks"]["memory"]["memory_mib"] = 10**9
    done = node.run("memory", "--quiet")

    assert done.returncode == 1
    assert done.stdout.startswith("memory: unhealthy: expected 1000000000 MiB (-0 %), found ")
    assert done.stderr == ""


def test_json_holds_every_verdict(node: Node) -> None:
    report = json.loads(node.run("--json").stdout)

    assert (report["node"], report["status"], report["mark"]) == ("gpu1", "healthy", None)
    assert [check["check"] for check in report["checks"]] == list(SIMPLE)
    assert set(report["checks"][0]) == {"check", "status", "reason", "expected", "found", "seconds"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["nonsense"], "unknown check 'nonsense'; known: gpu_count"),
        (["--set", "slow"], "unknown set 'slow'; known: all, fast, prolog, throughput"),
        (["--config", "/no/such/file"], "/no/such/file: No such file or directory"),
        (["--config", "/etc/passwd"], "/etc/passwd: not JSON"),
        (["--forget", "nonsense", "memory"], "unknown check 'nonsense'"),
    ],
)
def test_bad_input_is_refused(node: Node, args: list[str], words: str) -> None:
    done = node.run(*args)

    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    "params", [{}, {"memory_mib": "lots"}, {"memory_mib": True}, {"memory_mib": [1], "tolerance_percent": 3}]
)
def test_a_damaged_configuration_is_never_healthy(node: Node, params: dict[str, t.Any]) -> None:
    node.config["checks"]["memory"] = params
    done = node.run("memory")

    assert done.returncode == 3
    assert done.stdout.startswith("memory: unknown: the configuration")
    assert done.stderr == ""


def test_a_check_that_is_not_configured_is_never_healthy(node: Node) -> None:
    del node.config["checks"]["memory"]

    assert node.run("memory").returncode == 3


def test_bad_samples_add_up_over_runs(node: Node) -> None:
    node.config["checks"]["memory"].update(memory_mib=10**9, samples=3, gap_seconds=0)

    assert [node.run("memory").returncode for _round in range(4)] == [3, 3, 1, 1]
    assert node.run("memory", "--forget", "memory").returncode == 3


def test_everything_ends_when_the_time_is_over(node: Node) -> None:
    node.tool("munge", f"sleep {HANGS}")
    node.config["checks"]["munge"]["timeout_seconds"] = HANGS
    for limit in LIMITS:
        done = node.run("munge", "memory", "--deadline", str(limit))
        if "memory: healthy" in done.stdout:
            break

    assert done.stdout.startswith(f"munge: unknown: munge gave no answer within {HANGS} s")
    assert "memory: healthy" in done.stdout


def test_a_check_that_hangs_in_the_kernel_is_left_behind() -> None:
    def hang(path: str) -> str:
        time.sleep(HANGS)  # fault: hangs
        return path

    def rounds(limit: float) -> list[str]:
        machine, remembered = machines.healthy("lab"), dict[str, dict[str, t.Any]]()
        machine.read = hang  # type: ignore[method-assign]
        seen = []
        for _round in range(2):
            machine.clock += 60
            seen += supervisor.run(["filesystems", "memory", "clock"], config, machine, remembered, limit)
        return [verdict.status for verdict in seen]

    config = machines.expectations("lab", memory={"unknown_samples": 2})
    with within("both runs"):
        for limit in LIMITS:
            seen = rounds(limit - supervisor._GRACE)
            if seen[0] == seen[3] == "healthy":
                break

    assert seen == ["healthy", "unknown", "unknown", "healthy", "unhealthy", "unknown"]


def test_strict_refuses_what_is_not_known(node: Node) -> None:
    node.tool("munge", f"sleep {HANGS}")
    node.config["checks"]["munge"]["timeout_seconds"] = 0.2

    assert node.run("munge", "--strict").returncode == 1
    assert node.run("memory", "raid", "--strict").returncode == 0


SCONTROL = """
echo "$@" >> {log}
[ "$1" = show ] && cat {folder}/shown.txt
exit 0
"""


def _slurm(node: Node, state: str, reason: str = "") -> Path:
    log = node.folder / "calls"
    reason = f"   Reason={reason} [root@2026-11-20T10:00:00]\n" if reason else ""
    (node.folder / "shown.txt").write_text(f"NodeName=gpu1\n   State={state} Weight=1\n{reason}")
    node.tool("scontrol", SCONTROL.format(log=log, folder=node.folder))
    return log


def test_a_sick_node_is_marked(node: Node) -> None:
    log = _slurm(node, "IDLE")
    node.config["checks"]["memory"]["memory_mib"] = 10**9
    done = node.run("--mark", "--resume-if-healthy")

    assert "mark: drain: NHC: memory: expected 1000000000 MiB" in done.stdout
    assert log.read_text().splitlines()[1].startswith("update NodeName=gpu1 State=DRAIN Reason=NHC: memory: expected")


def test_a_node_that_is_well_again_comes_back_and_then_asks_no_more(node: Node) -> None:
    log = _slurm(node, "IDLE+DRAIN", "NHC: memory: expected 1000 MiB, found 3 MiB")
    node.run("--mark", "--resume-if-healthy")
    node.run("--mark", "--resume-if-healthy")

    assert log.read_text().splitlines() == ["show node gpu1", "update NodeName=gpu1 State=RESUME"]


def test_without_marking_slurm_is_not_called(node: Node) -> None:
    log = _slurm(node, "IDLE")
    node.config["checks"]["memory"]["memory_mib"] = 10**9
    node.run()

    assert not log.exists()


def test_a_controller_that_is_gone_does_not_change_the_verdict(node: Node) -> None:
    node.tool("scontrol", "echo 'Unable to contact slurm controller' >&2; exit 1")
    node.config["checks"]["memory"]["memory_mib"] = 10**9
    done = node.run("--mark")

    assert done.returncode == 1
    assert "mark: could not mark the node: scontrol show: Unable to contact slurm controller" in done.stdout


def test_a_memory_that_cannot_be_kept_is_said_when_marking(node: Node) -> None:
    _slurm(node, "IDLE")
    (node.folder / "file").write_text("")
    node.config["state_dir"] = str(node.folder / "file/state")
    done = node.run("memory", "--mark")

    assert done.returncode == 3
    assert "remembering: unknown: " in done.stdout


def test_two_programs_at_once_both_answer(node: Node) -> None:
    node.run("memory")
    path = str(node.folder / "check.json")
    command = [str(node.program), "--config", path, "memory"]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _number in range(4)]

    assert [process.communicate(timeout=PATIENCE)[0].startswith("memory: healthy") for process in running] == [True] * 4


def test_list_names_every_check_with_its_parameters(node: Node) -> None:
    done = node.run("--list")

    assert "memory [fast]: " in done.stdout
    assert "host_to_device [throughput]: " in done.stdout
    assert len(done.stdout.splitlines()) == len(node.config["checks"])


def test_epilog_without_a_job_fails(node: Node) -> None:
    done = node.run("--epilog", environment={"SLURM_JOB_ID": ""})

    assert done.returncode == 1
    assert done.stderr == "gpucluster-check epilog: SLURM_JOB_ID is '', not the number of a job\n"


@pytest.mark.parametrize("text", ["[]", "7", "{}", '{"checks": []}'])
def test_a_configuration_of_another_form_is_refused(tmp_path: Path, program: Path, text: str) -> None:
    (tmp_path / "check.json").write_text(text)
    done = subprocess.run(
        [str(program), "--config", str(tmp_path / "check.json")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )

    assert done.returncode == 2
    assert "expected a mapping with checks" in done.stderr


def test_a_memory_that_cannot_be_kept_counts_only_where_the_node_is_marked(node: Node) -> None:
    node.config["state_dir"] = "/proc/gpucluster-check"
    node.tool("scontrol", "exit 1")

    assert "remembering" not in node.run("memory").stdout
    assert "remembering: unknown: /proc/gpucluster-check: " in node.run("memory", "--mark").stdout
