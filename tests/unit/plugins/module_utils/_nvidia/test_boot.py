# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that sets the GPUs at boot and for jobs, on simulated machines: the module must agree with its result."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path
from unittest import mock

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import boot
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import record as nvidia_record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.clocks import Record, apply
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import Wanted
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.simulation.simulated_smi import SimulatedSmi
from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

ROOT = Path(__file__).parents[5]
SETTINGS: dict[str, t.Any] = {
    "clocks": "max",
    "method": "auto",
    "memory": 0,
    "graphics": 0,
    "power_limit": "",
    "persistence": True,
    "gpus": 2,
    "wait_seconds": 0,
    "poll_seconds": 1,
}
A100 = {"driver": "580.159.04", "gpus": {"model": "A100", "count": 2}}
H200_610 = {"driver": "610.57.04", "gpus": {"model": "H200", "count": 2}, "busy": True}


class Node:
    """A simulated machine with a folder of its own under /run, on which the program runs in this process."""

    def __init__(self, root: Path, config: dict[str, t.Any], **settings: t.Any) -> None:
        self.root = root
        self.smi = SimulatedSmi(**config)
        settings = {**SETTINGS, **settings, "state_directory": str(root / "run")}
        (root / "settings.json").write_text(json.dumps(settings), encoding="utf-8")

    def run(self, action: str, **environment: str) -> str:
        """Run the program and return what it says."""
        said = io.StringIO()
        smi = mock.patch.object(boot, "bounded_runner", return_value=self.smi)
        with smi, mock.patch.dict(os.environ, environment), contextlib.redirect_stdout(said):
            assert boot.main([action, str(self.root / "settings.json")]) == 0
        return said.getvalue()

    def state(self) -> list[dict[str, t.Any]]:
        """Return the settings of each GPU."""
        return [self.smi.state[uuid] for uuid in sorted(self.smi.state)]

    def module(self, wanted: Wanted) -> dict[str, t.Any]:
        """Run what the module nvidia_clocks runs."""
        record = Record(str(self.root / "run/nvidia_clocks.json"), nvidia_record.stamps())
        return apply(NvidiaSmi(self.smi), wanted, record, check_mode=False, tolerant=True)


@pytest.mark.parametrize(
    ("config", "settings", "wanted", "expected"),
    [
        (A100, {}, Wanted(), {"persistence": True, "application": [1593, 1410]}),
        (
            A100,
            {"graphics": 1200},
            Wanted(state="set", graphics=1200),
            {"persistence": True, "application": [1593, 1200]},
        ),
        (
            A100,
            {"method": "locked"},
            Wanted(method="locked"),
            {"persistence": True, "locked_graphics": [1410, 1410]},
        ),
        (
            H200_610,
            {"power_limit": "650"},
            Wanted(power_limit="650"),
            {"persistence": True, "power": 650.0, "locked_graphics": [1980, 1980], "locked_memory": [3201, 3201]},
        ),
        (
            {**H200_610, "faults": {"not_supported": ["locked_memory"]}},
            {"memory": 2201},
            Wanted(state="set", memory=2201),
            {"persistence": True, "locked_graphics": [1980, 1980]},
        ),
        (A100, {"clocks": "keep"}, Wanted(state="set", persistence=True), {"persistence": True}),
        (
            A100,
            {"power_limit": "350", "clocks": "default"},
            Wanted(state="default"),
            {"persistence": True, "power": 350.0},
        ),
    ],
)
def test_boot_sets_what_the_module_sets(
    tmp_path: Path, config: dict[str, t.Any], settings: dict[str, t.Any], wanted: Wanted, expected: dict[str, t.Any]
) -> None:
    node = Node(tmp_path, config, **settings)

    node.run("boot")

    assert node.state() == [expected, expected]
    assert not node.module(wanted)["changed"]  # also locked clocks: the program leaves the module's record behind


def test_gpus_that_are_alike_are_set_in_one_start(tmp_path: Path) -> None:
    node = Node(tmp_path, A100)

    node.run("boot")

    assert [call[0] for call in node.smi.writes if "-ac" in call] == ["-ac"]


@pytest.mark.parametrize("faults", [{"no_driver": True}, {"missing_gpus": [0, 1]}])
def test_a_machine_without_driver_or_gpu_is_no_error(tmp_path: Path, faults: dict[str, t.Any]) -> None:
    node = Node(tmp_path, {**A100, "faults": faults})

    # The seconds depend on the load of this machine.
    assert re.fullmatch(r"no GPU after \d+ s: nothing is set\n", node.run("boot"))
    assert not node.smi.state


def test_without_persistence_nothing_is_recorded(tmp_path: Path) -> None:
    node = Node(tmp_path, H200_610, persistence=False)

    node.run("boot")

    assert not (tmp_path / "run/nvidia_clocks.json").exists()


def test_a_setting_that_is_refused_is_not_recorded_as_held(tmp_path: Path) -> None:
    node = Node(tmp_path, {**H200_610, "faults": {"not_supported": ["locked_graphics"]}})

    assert "not supported by this GPU" in node.run("boot")

    record = json.loads((tmp_path / "run/nvidia_clocks.json").read_text(encoding="utf-8"))
    assert [gpu["graphics"] for gpu in record["gpus"].values()] == [None, None]
    assert [gpu["refused"] for gpu in record["gpus"].values()] == [["graphics"]] * 2


@pytest.mark.parametrize("config", [A100, H200_610], ids=["application", "locked"])
@pytest.mark.parametrize(
    "whole", [{"SLURM_JOB_OVERSUBSCRIBE": "NO"}, {"SLURM_JOB_GPUS": "0,1"}], ids=["exclusive", "all GPUs"]
)
def test_a_job_with_the_whole_machine_runs_at_maximum_and_leaves_the_default(
    tmp_path: Path, config: dict[str, t.Any], whole: dict[str, str]
) -> None:
    node = Node(tmp_path, {**config, "persistence": True}, clocks="job")

    node.run("job-start", SLURM_JOB_ID="7", **whole)
    assert all("application" in gpu or "locked_graphics" in gpu for gpu in node.state())

    node.run("job-end", SLURM_JOB_ID="8")  # another job's end is none of its business
    assert all(gpu for gpu in node.state())

    node.run("job-end", SLURM_JOB_ID="7")
    assert node.state() == [{}, {}]
    assert not node.module(Wanted(state="default"))["changed"]


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        ({"clocks": "job"}, {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0", "SLURM_JOB_OVERSUBSCRIBE": "YES"}),
        ({"clocks": "job"}, {"SLURM_JOB_ID": "7"}),
        ({"clocks": "max"}, {"SLURM_JOB_ID": "7", "SLURM_JOB_GPUS": "0,1"}),
    ],
)
def test_other_jobs_do_not_start_nvidia_smi_at_all(
    tmp_path: Path, settings: dict[str, t.Any], environment: dict[str, str]
) -> None:
    node = Node(tmp_path, A100, **settings)

    node.run("job-start", **environment)
    node.run("job-end", **environment)

    assert node.smi.calls == []


def test_a_gpu_that_cannot_be_set_hinders_no_other(tmp_path: Path) -> None:
    node = Node(tmp_path, {**A100, "faults": {"requires_reset": [0]}})

    said = node.run("boot")

    assert "cannot be set in this state: GPU requires reset" in said
    assert node.state() == [{}, {"persistence": True, "application": [1593, 1410]}]


def test_clocks_that_no_gpu_has_leave_the_rest_to_be_set(tmp_path: Path) -> None:
    node = Node(tmp_path, A100, graphics=1403, power_limit="300")

    said = node.run("boot")

    assert "graphics 1403 MHz is not supported" in said
    assert node.state() == [{"persistence": True, "power": 300.0}] * 2


def test_a_power_limit_that_no_board_has_leaves_persistence(tmp_path: Path) -> None:
    node = Node(tmp_path, A100, power_limit="9000")

    assert "power_limit 9000 is not between" in node.run("boot")
    assert [gpu["persistence"] for gpu in node.state()] == [True, True]


def test_the_program_waits_for_the_driver_at_boot(tmp_path: Path) -> None:
    """As a process of its own, with nvidia-smi as a program."""
    smi, log = tmp_path / "nvidia-smi", tmp_path / "log"
    smi.write_text(
        "#!/bin/sh\n"
        f"export NVIDIA_SIMULATION_CONFIG={tmp_path}/config.json NVIDIA_SIMULATION_STATE={tmp_path}/state.json\n"
        f'PYTHONPATH={ROOT}/tests/simulation exec {sys.executable} -m nvidia_simulation "$@"\n',
        encoding="utf-8",
    )
    (tmp_path / "program").write_bytes(zipapp.build("_nvidia.boot", sys.executable))
    for program in (smi, tmp_path / "program"):
        program.chmod(0o755)
    given = {"wait_seconds": PATIENCE, "state_directory": str(tmp_path / "run"), "executable": str(smi)}
    for name, content in {
        "settings": {**SETTINGS, **given},
        "config": {**A100, "log": str(log), "faults": {"no_driver": True}},
        "ready": {**A100, "log": str(log)},
    }.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    # work: the driver comes once the program has asked for it.
    start = f"until [ -s {log} ]; do sleep 0.1; done; mv {tmp_path}/ready.json {tmp_path}/config.json"
    with subprocess.Popen(["sh", "-c", start]):
        command = [str(tmp_path / "program"), "boot", str(tmp_path / "settings.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert done.stderr == ""
    state = json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))
    assert list(state.values()) == [{"persistence": True, "application": [1593, 1410]}] * 2


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["start"], 2, "Usage: gpucluster-gpu-clocks boot|job-start|job-end"),
        (["boot", "/no/such/file"], 1, "No such file or directory"),
        (["boot", "/etc/passwd"], 1, "Expecting value"),
    ],
)
def test_a_wrong_call_is_said(
    args: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", os.environ["PATH"])

    assert boot.main(args) == status
    assert words in capsys.readouterr().err


def test_the_role_writes_the_settings_that_the_program_reads(tmp_path: Path) -> None:
    template = (ROOT / "roles/gpu/templates/gpu-clocks.json.j2").read_text(encoding="utf-8").strip()
    cases: dict[str, dict[str, t.Any]] = {
        "default": {"gpu_count": 8},
        "other": {"gpu_count": "4", "gpu_clocks": "job", "gpu_power_limit": 300, "gpu_persistence": "no"},
    }
    found = role_values(tmp_path, "gpu", template.removeprefix("{{").removesuffix("}}"), cases)
    settings = {name: boot.Settings(**json.loads(text)) for name, text in found.items()}

    assert settings["default"] == boot.Settings("max", "auto", 0, 0, "", True, 8, 120)
    assert settings["other"] == boot.Settings("job", "auto", 0, 0, "300", False, 4, 120)


def test_clocks_that_are_set_already_are_not_set_at_boot(tmp_path: Path) -> None:
    """Application clocks of an H200 are the highest by default; root in a container may not even try to set them."""
    node = Node(tmp_path, {"driver": "580.159.04", "gpus": {"model": "H200", "count": 2}, "persistence": True})

    assert node.run("boot").count("already at maximum (memory 3201 MHz, graphics 1980 MHz") == 2
    assert not [call for call in node.smi.calls if {"-ac", "-rac", "-lgc", "-lmc", "-pl", "-pm"} & set(call)]
