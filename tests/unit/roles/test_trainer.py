# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of the trainer that need no PyTorch, and the job script of the role."""

from __future__ import annotations

import contextlib
import importlib
import json
import re
import shutil
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import types
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import runs
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.roles.another_user import (
    ATTACKER,
    VICTIM,
    acting_as,
    give,
    needs_root,
)

ROLE = Path(__file__).parents[3] / "roles/training"
H200 = records.find("Standard_ND96isr_H200_v5")


def load(name: str) -> t.Any:
    """Import a file of the trainer, which is no part of the collection's packages."""
    sys.path.insert(0, str(ROLE / "files"))
    try:
        return importlib.import_module(f"gpucluster_train.{name}")
    finally:
        sys.path.remove(str(ROLE / "files"))


LOG = load("log")
TRUST = load("trust")


def test_tokens_are_made_by_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """With more, two ranks that share 32 CPUs took 68 s instead of 1.6 s. Here is no torch."""
    threads = [32]
    torch = types.SimpleNamespace(
        Tensor=object,
        Generator=lambda: types.SimpleNamespace(manual_seed=lambda seed: seed),
        get_num_threads=lambda: threads[-1],
        set_num_threads=threads.append,
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.delitem(sys.modules, "gpucluster_train.data", raising=False)
    data = load("data")
    monkeypatch.delitem(sys.modules, "gpucluster_train.data")
    monkeypatch.setattr(data, "_grown", lambda vocabulary, generator: (vocabulary, generator, threads[-1]))

    assert data.synthetic(100, 7) == (100, 7, 1)
    assert threads[-1] == 32


def test_the_interface_is_that_of_the_first_host_beyond_loopback() -> None:
    """A packet to a host without a route of its own leaves by the default route, if the machine has one."""
    routes = [line.split() for line in Path("/proc/net/route").read_text(encoding="utf-8").splitlines()[1:]]
    default = [name for name, destination, *_rest in routes if destination == "00000000"]
    place = load("network")

    assert place.interface(["127.0.1.1", "no-such-host.invalid", "192.0.2.1"]) == (default or [""])[0]
    assert place.interface(["127.0.0.1", "localhost"]) == ""
    assert place.interface([]) == ""


def test_an_address_of_every_interface_is_known() -> None:
    found = list(load("network")._addresses())

    assert ("127.0.0.1", "lo") in found
    assert {name for _address, name in found} <= {name for _index, name in socket.if_nameindex()}


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
        ("parallel.tensor=2", "parallel.tensor is unknown; known are data"),
        ("model.layer=1", "model.layer is unknown"),
    ],
)
def test_the_trainer_refuses_wrong_sizes_before_it_loads_pytorch(tmp_path: Path, change: str, message: str) -> None:
    recipe = tmp_path / "tiny.json"
    recipe.write_text(json.dumps(yaml_load((ROLE / "vars/recipes/tiny.yml").read_text())))
    command = [sys.executable, str(ROLE / "files/train.py"), "--recipe", str(recipe), "--set", change]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert done.returncode == 64
    assert message in done.stderr


@pytest.mark.parametrize("kept", [True, False], ids=["checkpoint", "no-checkpoint"])
@pytest.mark.parametrize("recent", [[], [50.0]], ids=["no-step", "steps"])
def test_an_error_before_the_first_step_of_all_has_its_own_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recent: list[float], kept: bool
) -> None:
    recipe = tmp_path / "tiny.json"
    recipe.write_text(json.dumps(yaml_load((ROLE / "vars/recipes/tiny.yml").read_text())))
    if kept:
        (tmp_path / "step-00000010").mkdir()
    world = types.SimpleNamespace(device=types.SimpleNamespace(type="cpu"), first=True)
    parallel = types.SimpleNamespace(place=lambda *_args: world, joined=lambda _world: contextlib.nullcontext())
    trained = types.SimpleNamespace(recent=recent, train=lambda: 1 // 0)
    monkeypatch.setitem(sys.modules, "gpucluster_train.parallel", parallel)
    checkpoint = types.SimpleNamespace(CheckpointError=KeyError)
    monkeypatch.setitem(sys.modules, "gpucluster_train.checkpoint", checkpoint)
    monkeypatch.setitem(sys.modules, "gpucluster_train.run", types.SimpleNamespace(Run=lambda *_args: trained))
    main = load("main")
    arguments = ["--recipe", str(recipe), "--checkpoints", str(tmp_path)]

    if recent or kept:
        with pytest.raises(ZeroDivisionError):
            main.main(arguments)
    else:
        assert main.main(arguments) == 70


def rendered(**variables: t.Any) -> str:
    """Return the job script, by Ansible's own templating."""
    loader = DataLoader()
    values = {
        name: value
        for file in ("defaults/main.yml", "vars/main.yml")
        for name, value in loader.load_from_file(str(ROLE / file), trusted_as_template=True).items()
    }
    text = (ROLE / "templates/trainer.sbatch.j2").read_text()
    templar = Templar(loader=loader, variables={**values, "ansible_managed": "managed", **variables})
    return str(templar.template(trust_as_template(text)))


@pytest.mark.parametrize(
    ("end", "status", "error"),
    [
        ("return 75", 75, ""),
        ("return 0", 0, ""),
        ("raise SystemExit(64)", 64, ""),
        ("raise SystemExit", 0, ""),
        ("raise SystemExit('no rank')", 1, "no rank"),
        ("raise OSError('no rank')", 1, "OSError: no rank"),
        ("raise KeyboardInterrupt", 1, "KeyboardInterrupt"),
    ],
)
def test_the_process_ends_although_a_destructor_and_a_thread_wait(end: str, status: int, error: str) -> None:
    program = f"""
import runpy, threading, time
leave = runpy.run_path({str(ROLE / "files/gpucluster_train/ending.py")!r})["leave"]
class Group:
    def __del__(self, sleep=time.sleep):
        sleep({HANGS})
def work():
    global group
    group = Group()
    threading.Thread(target=threading.Event().wait).start()
    print("the last line")
    {end}
leave(work)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE, check=False
    )

    assert done.returncode == status
    assert done.stdout == "the last line\n"
    assert (error in done.stderr) if error else not done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_last_line_that_cannot_be_written_is_an_error() -> None:
    ending = str(ROLE / "files/gpucluster_train/ending.py")
    program = f"import runpy; runpy.run_path({ending!r})['leave'](lambda: print('the last line') or 0)"
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-c", program], stdout=full, timeout=PATIENCE, check=False)

    assert done.returncode == 1


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


@pytest.fixture
def storage() -> t.Iterator[Path]:
    """Return shared storage with the trainer and a directory for the runs of one user."""
    with tempfile.TemporaryDirectory(prefix="gpucluster-test-") as name:
        path = Path(name)
        path.chmod(0o755)
        shutil.copytree(ROLE / "files", path / "trainer")
        for part in ("bin", "runs", f"runs/{user_name()}"):
            (path / part).mkdir(mode=0o755)
        give(path / f"runs/{user_name()}", VICTIM, 0o700)
        (path / "calls").touch()
        give(path / "calls", VICTIM, 0o600)
        yield path


def user_name() -> str:
    return str(TRUST.user_name(VICTIM))


def run_job(
    storage: Path, status: int, restarts: int = 0, user: int = VICTIM, **environment: str
) -> tuple[int, str, str]:
    """Run the job script with commands that record their arguments; return its status, these, and its errors."""
    script = storage / "job"
    script.write_text(rendered(training_recipe="tiny", training_directory=str(storage)))
    for name, text in {"srun": f"exit {status}", "scontrol": "echo gpu1", "sleep": ":"}.items():
        command = storage / "bin" / name
        command.write_text(f'#!/bin/sh\necho "{name} $*" >> {storage}/calls\n{text}\n')
        command.chmod(0o755)
    given = {
        "PATH": f"{storage}/bin:/usr/bin:/bin",
        "SLURM_JOB_ID": "17",
        "SLURM_JOB_NAME": "tiny",
        "SLURM_JOB_NODELIST": "gpu[1-2]",
        "SLURM_RESTART_COUNT": str(restarts),
        **environment,
    }
    done = subprocess.run(
        ["bash", str(script)],
        env=given,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        cwd="/",
        **acting_as(user),
    )
    return done.returncode, (storage / "calls").read_text(), done.stderr


@pytest.mark.parametrize("status", [0, 2, 64, 65, 70, 74, 126, 127])
def test_a_job_that_nothing_makes_better_ends(storage: Path, status: int) -> None:
    code, calls, _errors = run_job(storage, status)

    assert code == status
    assert "requeue" not in calls


@pytest.mark.parametrize("status", [75, 137, 1])
def test_a_job_that_a_fault_ended_is_queued_again(storage: Path, status: int) -> None:
    code, calls, _errors = run_job(storage, status)

    assert code == status
    assert "scontrol requeue 17" in calls
    assert re.search(r"srun --kill-on-bad-exit=1 .*python3 .*/trainer/train.py --recipe .*/recipes/tiny.json", calls)


def test_a_job_is_not_queued_for_ever(storage: Path) -> None:
    assert "requeue" not in run_job(storage, 137, restarts=3)[1]


def test_a_run_has_a_directory_that_only_its_user_can_read(storage: Path) -> None:
    run = storage / f"runs/{user_name()}/tiny-17"
    code, calls, _errors = run_job(storage, 0)

    assert code == 0
    assert f"--directory {run} --checkpoints {run}/checkpoints" in calls
    assert stat.S_IMODE(run.stat().st_mode) == 0o700
    assert run.stat().st_uid == VICTIM


def test_only_the_same_job_goes_on_in_a_directory_that_is_there(storage: Path) -> None:
    """A number of a job comes again after the state of Slurm was lost."""
    assert run_job(storage, 75)[0] == 75
    assert run_job(storage, 0, restarts=1)[0] == 0
    (storage / "calls").write_text("")
    code, calls, errors = run_job(storage, 0)

    assert (code, calls) == (64, "")
    assert "tiny-17 is there already, of another job with this number" in errors
    assert run_job(storage, 0, GPUCLUSTER_RUN=f"{storage}/runs/{user_name()}/tiny-17")[0] == 0


@needs_root
def test_a_job_of_root_is_refused(storage: Path) -> None:
    code, calls, errors = run_job(storage, 0, user=0)

    assert (code, calls) == (64, "")
    assert "root does not train" in errors


@pytest.mark.parametrize("named", [False, True])
def test_a_job_never_makes_the_directory_of_its_user(storage: Path, named: bool) -> None:
    """Whom the role does not know names a directory below the home, whose parent is there."""
    (storage / f"runs/{user_name()}").rmdir()
    more: dict[str, t.Any] = {"GPUCLUSTER_RUN": f"{storage}/home/runs/first"} if named else {}
    code, calls, errors = run_job(storage, 0, **more)

    assert (code, calls) == (64, "")
    assert ("No such file" if named else "is missing. An administrator adds you to training_users") in errors
    if named:
        (storage / "home/runs").mkdir(parents=True)
        give(storage / "home", VICTIM, 0o700)
        give(storage / "home/runs", VICTIM, 0o755)
        assert run_job(storage, 0, **more)[0] == 0


@needs_root
@pytest.mark.parametrize("way", ["user", "run", "link", "writable", "above", "restart"])
def test_no_job_goes_on_from_what_another_user_made(storage: Path, way: str) -> None:
    """The old layout, in which everybody could write to the directory of all runs."""
    runs, mine = storage / "runs", storage / f"runs/{user_name()}"
    trap = mine / "tiny-17"
    (storage / "theirs/checkpoints").mkdir(parents=True)
    give(storage / "theirs", ATTACKER, 0o777)
    if way == "link":
        trap.symlink_to(storage / "theirs")
    else:
        trap.mkdir()
        give(trap, ATTACKER if way in ("run", "restart") else VICTIM, 0o777 if way in ("run", "writable") else 0o755)
    if way == "user":
        give(mine, ATTACKER, 0o777)
    if way == "above":
        give(runs, 0, 0o777)
    more: dict[str, t.Any] = {} if way == "restart" else {"GPUCLUSTER_RUN": str(trap)}
    code, calls, errors = run_job(storage, 0, restarts=1, **more)

    assert (code, calls) == (64, ""), errors
    expected = {
        "user": f"{mine} belongs to {ATTACKER}",
        "run": f"{trap} belongs to {ATTACKER}",
        "restart": f"{trap} belongs to {ATTACKER}",
        "link": f"{trap} is a link",
        "writable": f"{trap} can be written by everybody (mode 0777)",
        "above": f"{runs} can be written by everybody (mode 0777)",
    }
    assert expected[way] in errors


def test_what_compiling_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = load("place")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(place.shutil, "which", lambda name: None)
    monkeypatch.setattr(place.sysconfig, "get_path", lambda name: str(tmp_path))
    assert place.compiler_fault() == "a C compiler (install gcc, or set CC)"

    monkeypatch.setattr(place.shutil, "which", lambda name: f"/usr/bin/{name}")
    assert place.compiler_fault() == f"{tmp_path}/Python.h (install the development package of Python)"

    (tmp_path / "Python.h").touch()
    assert place.compiler_fault() == ""
