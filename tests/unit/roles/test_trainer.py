# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the trainer that need no PyTorch, and the job script of the role."""

from __future__ import annotations

import importlib.util
import json
import re
import struct
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import runs

ROLE = Path(__file__).parents[3] / "roles/training"
H200 = records.find("Standard_ND96isr_H200_v5")


def load(name: str) -> t.Any:
    """Import a file of the trainer, which is no part of the collection's packages."""
    spec = importlib.util.spec_from_file_location(f"trainer_{name}", ROLE / f"files/gpucluster_train/{name}.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LOG = load("log")


def test_checksum_is_crc32c() -> None:
    """The check value of CRC-32C is E3069283 for the digits 1 to 9; TensorBoard rotates it and adds a number."""
    crc = 0xE3069283
    masked = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF

    assert LOG._checksum(b"123456789") == struct.pack("<I", masked)


def test_events_are_records_that_tensorboard_reads(tmp_path: Path) -> None:
    LOG.Events(tmp_path).write(149, {"train_step_timing": 0.5})
    data = next(tmp_path.glob("events.out.tfevents.*")).read_bytes()
    found = []
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert data[8:12] == LOG._checksum(data[:8])
        assert data[12 + length : 16 + length] == LOG._checksum(data[12 : 12 + length])
        found.append(data[12 : 12 + length])
        data = data[16 + length :]

    assert b"brain.Event:2" in found[0]
    # Field 2 is the step as a varint; the value is field 2 of the summary, a 32-bit float.
    assert b"\x10\x95\x01" in found[1]
    assert b"train_step_timing\x15" + struct.pack("<f", 0.5) in found[1]


def test_the_log_is_what_the_verdict_reads(tmp_path: Path) -> None:
    log = LOG.Log(tmp_path, write=True)
    log.event("start", first_step=1, hosts=["gpu1"])
    log.event("step", "a line for people", step=1, loss=5.5, step_ms=50.0)
    LOG.Log(tmp_path, write=True).event("start", first_step=2)
    run = runs.read((tmp_path / "log.jsonl").read_text())

    assert (run.last_step, run.lost, run.broken_lines) == (1, [(2, 1)], 0)


def test_other_ranks_write_nothing(tmp_path: Path) -> None:
    LOG.Log(tmp_path / "log", write=False).event("start", "text")

    assert not (tmp_path / "log").exists()


def test_a_full_disk_stops_no_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = LOG.Log(tmp_path, write=True)
    log.lines = Path("/dev/full").open("w")  # noqa: SIM115
    log.event("step", step=1)
    log.event("step", step=2)

    assert "No space left on device" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("batch.global=33", "batch.global 33 is not a multiple of batch.micro 8 times 1 data ranks"),
        ("model.layer=1", "model.layer is unknown"),
    ],
)
def test_the_trainer_refuses_wrong_sizes_before_it_loads_pytorch(tmp_path: Path, change: str, message: str) -> None:
    recipe = tmp_path / "tiny.json"
    recipe.write_text(json.dumps(yaml.safe_load((ROLE / "vars/recipes/tiny.yml").read_text())))
    command = [sys.executable, str(ROLE / "files/train.py"), "--recipe", str(recipe), "--set", change]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 64
    assert message in done.stderr


def rendered(backend: str = "torch", **variables: t.Any) -> str:
    """Return the job script, by Ansible's own templating."""
    loader = DataLoader()
    values = {
        name: value
        for file in ("defaults/main.yml", "vars/main.yml")
        for name, value in loader.load_from_file(str(ROLE / file), trusted_as_template=True).items()
    }
    name = values["__training_templates"][backend]
    text = (ROLE / f"templates/{name}.sbatch.j2").read_text()
    templar = Templar(
        loader=loader, variables={**values, "ansible_managed": "managed", "__training_backend": backend, **variables}
    )
    return str(templar.template(trust_as_template(text)))


def test_the_job_pins_each_task_beside_its_gpu() -> None:
    script = rendered(gpucluster_hardware=H200, training_nodes=4)

    for line in (
        "#SBATCH --nodes=4",
        "#SBATCH --ntasks-per-node=8",
        "#SBATCH --gpus-per-node=8",
        "--cpu-bind=mask_cpu:0xfff,",
    ):
        assert line in script, line
    assert "export UCX_TLS=rc" in script
    # These are in /etc/nccl.conf.
    assert "NCCL_IB" not in script


def test_the_job_of_a_node_without_gpus_asks_for_none() -> None:
    script = rendered(training_recipe="tiny", gpucluster_hardware={})

    assert "#SBATCH --ntasks-per-node=1" in script
    assert "gpus-per-node" not in script
    assert "cpu-bind" not in script


def test_data_is_copied_to_local_drives_where_that_is_wanted() -> None:
    given: dict[str, t.Any] = {
        "training_recipe": "tiny",
        "training_stage_directory": "/scratch/t",
        "gpucluster_hardware": {},
    }
    script = rendered(**given)

    assert "/scratch/t /usr/share/common-licenses/GPL-3 || exit 1" in script
    assert "--data-directory /scratch/t" in script
    assert is_shell(script)
    # The other recipe makes its tokens.
    assert "data-directory" not in rendered(**{**given, "training_recipe": "gpt3_126m"})


def is_shell(script: str) -> bool:
    return subprocess.run(["bash", "-n"], input=script, text=True, check=False, timeout=10).returncode == 0


def test_megatron_is_an_option_of_the_same_job() -> None:
    assert "--backend megatron" in rendered("megatron", gpucluster_hardware=H200)
    assert "--backend" not in rendered("torch", gpucluster_hardware=H200)


def test_nemo_runs_in_its_container_with_the_parameters_of_the_seed() -> None:
    script = rendered("nemo", gpucluster_hardware=H200)

    for text in (
        "#SBATCH --nodes=8",
        "--container-image=nvcr.io/nvidia/nemo:24.07",
        "model.micro_batch_size=4",
        "pmix",
    ):
        assert text in script, text
    assert is_shell(script)


def test_opt_175b_is_rendered_for_992_gpus() -> None:
    script = rendered("metaseq", training_recipe="opt_175b", gpucluster_hardware={})

    assert "--model-size 175b" in script
    assert "--num-nodes 124 --num-gpus 8" in script
    assert is_shell(script)


def run_job(tmp_path: Path, status: int, restarts: int = 0) -> tuple[int, str]:
    """Run the job script with commands that record what they were called with."""
    script = tmp_path / "job"
    script.write_text(rendered(training_recipe="tiny", training_directory=str(tmp_path)))
    for name, text in {"srun": f"exit {status}", "scontrol": "echo gpu1", "sleep": ":"}.items():
        command = tmp_path / "bin" / name
        command.parent.mkdir(exist_ok=True)
        command.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/calls\n{text}\n')
        command.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_NAME": "tiny",
        "SLURM_JOB_NODELIST": "gpu[1-2]",
        "SLURM_RESTART_COUNT": str(restarts),
    }
    done = subprocess.run(
        ["bash", str(script)], env=environment, capture_output=True, text=True, timeout=30, check=False
    )
    return done.returncode, (tmp_path / "calls").read_text()


@pytest.mark.parametrize("status", [0, 64, 65, 74])
def test_a_job_that_nothing_makes_better_ends(tmp_path: Path, status: int) -> None:
    code, calls = run_job(tmp_path, status)

    assert code == status
    assert "requeue" not in calls


@pytest.mark.parametrize("status", [75, 137, 1])
def test_a_job_that_a_fault_ended_is_queued_again(tmp_path: Path, status: int) -> None:
    code, calls = run_job(tmp_path, status)

    assert code == status
    assert "scontrol requeue 17" in calls
    assert re.search(r"srun --kill-on-bad-exit=1 .*python3 .*/trainer/train.py --recipe .*/recipes/tiny.json", calls)


def test_a_job_is_not_queued_for_ever(tmp_path: Path) -> None:
    assert "requeue" not in run_job(tmp_path, 137, restarts=3)[1]
