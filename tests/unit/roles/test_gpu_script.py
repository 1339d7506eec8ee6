# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script of the role gpu, run on simulated machines; the module must agree with what it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import jinja2
import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import record as nvidia_record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.clocks import Record, apply
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import Wanted
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import bounded_runner

ROOT = Path(__file__).parents[3]
INPUTS: dict[str, t.Any] = {
    "gpu_clocks": "max",
    "gpu_clock_method": "auto",
    "gpu_memory_clock": 0,
    "gpu_graphics_clock": 0,
    "gpu_power_limit": "",
    "gpu_count": 2,
    "gpu_driver_wait_seconds": 0,
    "ansible_managed": "managed",
    "__gpu_poll_seconds": 5,
}
A100 = {"driver": "580.159.04", "gpus": {"model": "A100", "count": 2}}
H200_610 = {"driver": "610.57.04", "gpus": {"model": "H200", "count": 2}, "busy": True}


class Node:
    """A folder that plays the machine: nvidia-smi, its state, and the folder under /run."""

    def __init__(self, root: Path, config: dict[str, t.Any], **inputs: t.Any) -> None:
        self.root = root
        self.smi = root / "nvidia-smi"
        (root / "config.json").write_text(json.dumps({**config, "log": str(root / "log")}), encoding="utf-8")
        (root / "log").touch()
        self.smi.write_text(
            "#!/bin/sh\n"
            f"export NVIDIA_SIMULATION_CONFIG={root}/config.json NVIDIA_SIMULATION_STATE={root}/state.json\n"
            f'PYTHONPATH={ROOT}/tests/simulation exec {sys.executable} -m nvidia_simulation "$@"\n',
            encoding="utf-8",
        )
        self.smi.chmod(0o755)
        environment = jinja2.Environment(keep_trailing_newline=True, autoescape=False)
        environment.filters.update(comment=lambda text: f"# {text}", bool=bool)
        source = (ROOT / "roles/gpu/templates/gpu-clocks.sh.j2").read_text(encoding="utf-8")
        text = environment.from_string(source).render(
            {**INPUTS, **inputs, "__gpu_persistence": inputs.get("gpu_persistence", True)}
        )
        text = text.replace(" PATH=", f" PATH={root}:").replace("state=/run/hpcai", f"state={root}/run")
        (root / "script").write_text(text, encoding="utf-8")

    def run(self, action: str, **environment: str) -> str:
        """Run the script and return what it says."""
        done = subprocess.run(
            ["sh", str(self.root / "script"), action],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        assert done.stderr == ""
        return done.stdout

    def state(self) -> list[dict[str, t.Any]]:
        """Return the settings of each GPU."""
        content = json.loads((self.root / "state.json").read_text(encoding="utf-8"))
        return [content[uuid] for uuid in sorted(content)]

    def calls(self) -> list[str]:
        """Return what nvidia-smi was asked since the last time."""
        lines = (self.root / "log").read_text(encoding="utf-8").splitlines()
        (self.root / "log").write_text("", encoding="utf-8")
        return lines

    def module(self, wanted: Wanted) -> dict[str, t.Any]:
        """Run what the module nvidia_clocks runs."""
        record = Record(str(self.root / "run/nvidia_clocks.json"), nvidia_record.stamps())
        return apply(NvidiaSmi(bounded_runner(60), str(self.smi)), wanted, record, check_mode=False, tolerant=True)


@pytest.mark.parametrize(
    ("config", "inputs", "wanted", "expected"),
    [
        (A100, {}, Wanted(), {"persistence": True, "application": [1593, 1410]}),
        (
            A100,
            {"gpu_graphics_clock": 1200},
            Wanted(state="set", graphics=1200),
            {"persistence": True, "application": [1593, 1200]},
        ),
        (
            A100,
            {"gpu_clock_method": "locked"},
            Wanted(method="locked"),
            {"persistence": True, "locked_graphics": [1410, 1410]},
        ),
        (
            H200_610,
            {"gpu_power_limit": "650"},
            Wanted(power_limit="650"),
            {"persistence": True, "power": 650.0, "locked_graphics": [1980, 1980], "locked_memory": [3201, 3201]},
        ),
        (
            {**H200_610, "faults": {"not_supported": ["locked_memory"]}},
            {"gpu_memory_clock": 2201},
            Wanted(state="set", memory=2201),
            {"persistence": True, "locked_graphics": [1980, 1980]},
        ),
        (A100, {"gpu_clocks": "keep"}, Wanted(state="set", persistence=True), {"persistence": True}),
        (
            A100,
            {"gpu_power_limit": "max", "gpu_clocks": "default"},
            Wanted(state="default"),
            {"persistence": True, "power": 400.0},
        ),
    ],
)
def test_boot_sets_what_the_module_sets(
    tmp_path: Path, config: dict[str, t.Any], inputs: dict[str, t.Any], wanted: Wanted, expected: dict[str, t.Any]
) -> None:
    node = Node(tmp_path, config, **inputs)

    node.run("boot")

    assert node.state() == [expected, expected]
    assert not node.module(wanted)["changed"]  # also locked clocks: the script leaves the module's record behind


def test_gpus_that_are_alike_are_set_in_one_start(tmp_path: Path) -> None:
    node = Node(tmp_path, A100)

    node.run("boot")

    assert [call.split()[2] for call in node.calls() if "-ac" in call] == ["-ac"]


@pytest.mark.parametrize("faults", [{"no_driver": True}, {"missing_gpus": [0, 1]}])
def test_a_machine_without_driver_or_gpu_is_no_error(tmp_path: Path, faults: dict[str, t.Any]) -> None:
    node = Node(tmp_path, {**A100, "faults": faults})

    assert node.run("boot") == "no GPU after 0 s: nothing is set\n"
    assert not (tmp_path / "state.json").exists()


def test_without_persistence_nothing_is_recorded(tmp_path: Path) -> None:
    node = Node(tmp_path, H200_610, gpu_persistence=False)

    node.run("boot")

    assert not (tmp_path / "run/nvidia_clocks.json").exists()


def test_a_setting_that_is_refused_is_not_recorded(tmp_path: Path) -> None:
    node = Node(tmp_path, {**H200_610, "faults": {"not_supported": ["locked_graphics"]}})

    node.run("boot")

    assert not (tmp_path / "run/nvidia_clocks.json").exists()


@pytest.mark.parametrize("config", [A100, H200_610], ids=["application", "locked"])
@pytest.mark.parametrize(
    "whole", [{"SLURM_JOB_OVERSUBSCRIBE": "NO"}, {"SLURM_JOB_GPUS": "0,1"}], ids=["exclusive", "all GPUs"]
)
def test_a_job_with_the_whole_machine_runs_at_maximum_and_leaves_the_default(
    tmp_path: Path, config: dict[str, t.Any], whole: dict[str, str]
) -> None:
    node = Node(tmp_path, {**config, "persistence": True}, gpu_clocks="job")

    node.run("job-start", SLURM_JOB_ID="7", **whole)
    assert all("application" in gpu or "locked_graphics" in gpu for gpu in node.state())

    node.run("job-end", SLURM_JOB_ID="8")  # another job's end is none of its business
    assert all(gpu for gpu in node.state())

    node.run("job-end", SLURM_JOB_ID="7")
    assert node.state() == [{}, {}]
    assert not node.module(Wanted(state="default"))["changed"]


@pytest.mark.parametrize(
    ("inputs", "environment"),
    [
        ({"gpu_clocks": "job"}, {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_JOB_OVERSUBSCRIBE": "YES"}),
        ({"gpu_clocks": "job"}, {"SLURM_JOB_ID": "7"}),
        ({"gpu_clocks": "max"}, {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1"}),
    ],
)
def test_other_jobs_do_not_start_nvidia_smi_at_all(
    tmp_path: Path, inputs: dict[str, t.Any], environment: dict[str, str]
) -> None:
    node = Node(tmp_path, A100, **inputs)

    node.run("job-start", **environment)
    node.run("job-end", **environment)

    assert node.calls() == []
