# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Playbooks on machines that are all this one, with commands of Slurm that only act as such."""

from __future__ import annotations

import json
import os
import re
import sys
import typing as t
from pathlib import Path

import pytest

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run

CHECKOUT = Path(__file__).parents[3]
MEASURED = CHECKOUT / "tests/unit/fixtures/nccl_tests/2.19.6/2xh200-srun-pmix.txt"
COMMANDS = ("sinfo", "scontrol", "sbatch", "srun", "scancel", "squeue", "sacct", "sudo", "gpucluster-check")


class Cluster:
    """A cluster of two controllers and two nodes; every machine is this one."""

    def __init__(self, folder: Path, run: Run) -> None:
        self.folder = folder
        self._run = run
        self.nodes: dict[str, dict[str, t.Any]] = {
            name: {"state": "idle", "gpus": 8, "healthy": True} for name in ("gpu1", "gpu2")
        }
        self.hosts: dict[str, dict[str, t.Any]] = {name: {} for name in ("head", "spare", "gpu1", "gpu2")}
        self.controllers = ["head", "spare"]
        self.variables: dict[str, t.Any] = {}
        self.job_state = "RUNNING"
        self.environment: dict[str, str] = {}
        self.output = ""
        for name in COMMANDS:
            (folder / name).symlink_to(Path(__file__).with_name("slurm.py"))
        (folder / "output.txt").write_text(MEASURED.read_text(encoding="utf-8"), encoding="utf-8")

    def lose(self, host: str) -> None:
        """Let nobody answer there."""
        self.hosts[host] |= {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": 1}

    def run(self, playbook: str, **extra: t.Any) -> int:
        """Return the exit status of a playbook."""
        (self.folder / "nodes.json").write_text(json.dumps(self.nodes), encoding="utf-8")
        (self.folder / "state").write_text(self.job_state, encoding="utf-8")
        options = {
            "validate_directory": str(self.folder / "reports"),
            "validate_plots": False,
            "validate_max_bytes": "4G",  # that of the output above
            "check_report": str(self.folder / "check.json"),
        }
        code, output = self._run(
            {"all": self._inventory()},
            f"playbooks/{playbook}",
            "-e",
            json.dumps(options | extra),
            ANSIBLE_BECOME_ALLOW_SAME_USER="1",
            FAKE_SLURM=str(self.folder),
            PATH=f"{self.folder}:{os.environ['PATH']}",
            **self.environment,
        )
        self.output = re.sub(r"\s+", " ", output)
        return code

    def report(self) -> dict[str, t.Any]:
        """Return the report of the validation."""
        (path,) = (self.folder / "reports").glob("*/report.json")
        return t.cast("dict[str, t.Any]", json.loads(path.read_text(encoding="utf-8")))

    def calls(self, name: str) -> list[list[str]]:
        """Return how a command was called."""
        return [call[1:] for call in self.every_call() if call[0] == name]

    def every_call(self) -> list[list[str]]:
        """Return how commands were called, each with its name."""
        lines = (self.folder / "calls.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def _inventory(self) -> dict[str, t.Any]:
        connection = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "ansible_become_exe": str(self.folder / "sudo"),
            "ansible_remote_tmp": str(self.folder / "tmp"),
        }
        return {
            "hosts": self.hosts,
            "vars": connection | self.variables,
            "children": {
                "slurm_controller": {"hosts": {name: {} for name in self.controllers}},
                "slurm_compute": {"hosts": {"gpu1": {}, "gpu2": {}}},
            },
        }


@pytest.fixture
def cluster(tmp_path: Path, run: Run) -> Cluster:
    return Cluster(tmp_path, run)
