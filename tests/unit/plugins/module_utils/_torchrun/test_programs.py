# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Command lines, what an agent reads of processes and of torchrun, the accounting, and the hook without PyTorch."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import textwrap
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._torchrun import agent, goodput, hook, record, words
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import trust
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS

TASK = {"nodes": ["gpu1", "gpu3"], "port": 20101, "torchrun": ["torchrun"], "arguments": ["--nproc-per-node=8", "t.py"]}


def test_a_command_line_of_torchrun_stays_as_it_is() -> None:
    line = [
        "--nnodes",
        "2",
        "--nproc_per_node",
        "8",
        "--rdzv_backend=c10d",
        "--standalone",
        "-m",
        "pkg.train",
        "--nnodes",
        "3",
    ]

    assert words.torchrun(line) == (
        ["--nproc_per_node", "8", "-m", "pkg.train", "--nnodes", "3"],
        ["nnodes", "rdzv-backend", "standalone"],
    )


def test_own_options_stand_before_two_dashes() -> None:
    found, rest = words.options(["--spares", "1", "--", "--nproc-per-node=2", "t.py", "--", "x"])
    assert (found.spares, rest) == (1, ["--nproc-per-node=2", "t.py", "--", "x"])
    found, rest = words.options(["--nproc-per-node=2", "t.py", "--", "x"])
    assert (found.spares, rest) == (0, ["--nproc-per-node=2", "t.py", "--", "x"])


def test_a_container_gets_the_program_and_the_directory() -> None:
    found, _rest = words.options(["--container-image=a.sqsh", "--container-mounts=/data:/data", "--", "t.py"])
    command = words.segment(found, ["gpu1", "gpu3"], "/s/bin/p", "/s/runs/a", "{}")

    assert "--container-mounts=/data:/data,/s/bin/p:/s/bin/p:ro,/s/runs/a:/s/runs/a" in command
    assert command[-5:] == ["python3", "-IS", "/s/bin/p", "agent", "{}"]


def test_each_node_has_its_place() -> None:
    assert agent.command(TASK, "gpu3") == [
        *("torchrun", "--nnodes=2", "--node-rank=1", "--rdzv-endpoint=gpu1:20101"),
        *("--max-restarts=0", "--nproc-per-node=8", "t.py"),
    ]


def test_the_cause_is_what_the_program_wrote() -> None:
    """PyTorch 2.6 of Debian 13 wrote these lines in the lab."""
    text = (Path(__file__).parent / "torchrun-2.6.txt").read_text(encoding="utf-8")

    found = agent.failed(text, 1)
    assert (found["status"], found["local"], found["pid"]) == (-9, 1, 3216)
    assert found["cause"].startswith(
        "[rank2]: RuntimeError: [./gloo/transport/tcp/pair.cc:534] Connection closed by peer"
    )
    assert agent.failed("", 3) == {"status": 3, "local": None, "pid": None, "cause": ""}


def test_a_killed_rank_is_named_before_one_that_lost_it_at_the_same_moment() -> None:
    """The same program, where both ranks of a node ended between two looks of torchrun."""
    text = (Path(__file__).parent / "torchrun-2.6-both.txt").read_text(encoding="utf-8")

    assert "api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 4365)" in text
    found = agent.failed(text, 1)
    assert (found["status"], found["local"], found["pid"]) == (-9, 1, 4366)
    # A rank of the trainer that ends for a reason says it with its status.
    found = agent.failed(text.replace("exitcode  : -9", "exitcode  : 65"), 1)
    assert (found["status"], found["pid"]) == (65, 4366)


def test_lines_that_a_program_imitates_are_no_fault() -> None:
    line = "log: ProcessFailure(local_rank=0, pid=7, exitcode=2, error_file='x')\n"
    text = (Path(__file__).parent / "torchrun-2.6-both.txt").read_text(encoding="utf-8")

    assert agent.failed(line, 0)["status"] == 0
    assert agent.failed(f"failed (exitcode: -9) local_rank: 0 (pid: 7)\n{text}", 1, {4365, 4366})["pid"] == 4366
    assert agent.failed(line.replace("=2", f"={'2' * 5000}"), 1)["status"] == 1


def test_a_lost_store_of_pytorch_is_a_cause() -> None:
    line = "[rank0]: torch.distributed.DistNetworkError: Connection was likely closed. Did the remote server shutdown?"
    assert agent.failed(f"[rank0]: Traceback (most recent call last):\n{line}\n", 1)["cause"] == line


def test_ft_launcher_names_the_rank_and_is_no_cause() -> None:
    """Version 0.7.0 wrote these lines on a machine without GPUs; paths and the name of the machine are shortened."""
    text = (Path(__file__).parent / "ft_launcher-0.7.txt").read_text(encoding="utf-8")

    found = agent.failed(f"config.yaml: the key data is missing\n{text}", 1)
    assert found == {"status": -9, "local": 0, "pid": 818, "cause": "config.yaml: the key data is missing"}
    # Made up: a second rank in the list, which was killed, and the first one ended because of it.
    both = text.replace("exitcode: -9", "exitcode: 1").replace("exitcode=-9", "exitcode=1")
    both = both.replace("{0: ", "{1: ProcessFailure(local_rank=1, pid=819, exitcode=-9, error_file='<N/A>'), 0: ")
    assert agent.failed(both, 1)["pid"] == 819
    # Parts of lines of version 0.4.1, where the rank ended with status 1.
    warning = "[2026-11-27 22:10:25,311] [WARNING] [ft_launcher6316@vm] GPU Health checks disabled: Unable"
    line = "[2026-11-27 22:10:43,090] [ERROR] [ft_launcher6316@vm] failed (exitcode: 1) local_rank: 1 (pid: 6427)"
    found = agent.failed(f"{warning}\n{line}\nno config is there\n", 1)
    assert found == {"status": 1, "local": 1, "pid": 6427, "cause": "no config is there"}


def test_what_a_process_started_is_found() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in agent.descendants(os.getpid())
    finally:
        child.communicate(b"\n", timeout=HANGS)


def test_the_hook_runs_after_the_import_and_before_the_sitecustomize_of_the_machine(tmp_path: Path) -> None:
    """The torch is made up: it has what the hook calls."""
    source = Path(hook.__file__).read_text(encoding="utf-8")
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text(source, encoding="utf-8")
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text("import os; os.environ['SITE'] = 'ran'", encoding="utf-8")
    (tmp_path / "site/torch.py").write_text(
        textwrap.dedent(
            """
            import sys, types
            hooks = []
            class TCPStore:
                def __init__(self, use_libuv=True):
                    if use_libuv:
                        raise RuntimeError("use_libuv was requested but PyTorch was build without libuv support")
                    self.made = True
            distributed = types.SimpleNamespace(is_available=lambda: True, TCPStore=TCPStore)
            optimizer = types.SimpleNamespace(register_optimizer_step_post_hook=hooks.append)
            sys.modules |= {"torch.optim": optimizer, "torch.optim.optimizer": optimizer}
            """
        ),
        encoding="utf-8",
    )
    program = textwrap.dedent(
        """
        import os, types, torch
        assert torch.TCPStore().made and os.environ["SITE"] == "ran"
        optimizer = types.SimpleNamespace(state={"w": {"step": 1}}, param_groups=[{"lr": 0.0}, {"lr": 0.0}])
        torch.hooks[0](optimizer, (), {})  # to read a checkpoint
        optimizer.state["w"]["step"], optimizer.param_groups[1]["lr"] = 41, 0.1
        torch.hooks[0](optimizer, (), {})
        torch.hooks[0](types.SimpleNamespace(state={}), (), {})
        """
    )
    variables = {
        "PYTHONPATH": f"{tmp_path}/own:{tmp_path}/site",
        hook.DIRECTORY: str(tmp_path),
        "RANK": "3",
        "LOCAL_RANK": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=HANGS,
    )

    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "rank-1").read_text(encoding="utf-8"))
    assert (found["rank"], found["count"], found["step"]) == (3, 1, 41)


def test_a_hook_that_fails_says_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    work = hook.quiet(lambda: {"a": 1}["b"])
    work()
    work()

    assert capsys.readouterr().err.count("is not seen any more: KeyError") == 1


def test_the_model_is_the_module_that_does_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    handle = types.SimpleNamespace(remove=lambda: None)
    module = types.SimpleNamespace(
        register_module_forward_pre_hook=lambda _hook: handle, register_module_forward_hook=lambda _hook: handle
    )
    torch = types.SimpleNamespace(
        nn=types.SimpleNamespace(modules=types.SimpleNamespace(module=module)),
        compiler=types.SimpleNamespace(is_compiling=lambda: False),
    )
    clock = iter(range(100))
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    wrapper, model, loss = type("DistributedDataParallel", (), {})(), object(), object()
    search = hook.Search(torch)
    search.enter(wrapper)
    search.enter(model)
    search.enter(loss)  # a part of the model
    search.leave(loss)
    search.leave(model)
    search.leave(wrapper)
    search.enter(loss)
    search.leave(loss)

    assert search.end() is model


def test_a_requeued_job_counts_with_all_its_starts() -> None:
    """As sacct of Slurm 24.11 prints them with --duplicates; the last line is cut off."""
    text = "7|alice|plain.sh|3|120|REQUEUED\n7|alice|plain.sh|3|240|COMPLETED\n8|bob|other|1|360|FAILED\n9|bo"
    found = goodput.jobs(text)
    known = {("7", "alice"): record.Summary("7", "alice", 300, 240, 90, 10, [{}])}

    assert [(job.number, round(job.hours, 2)) for job in found] == [("7", 0.3), ("8", 0.1)]
    lines = goodput.table(found, known)
    assert lines[1].split() == ["7", "alice", "plain.sh", "0.30", "80.0", "%", "1"]
    assert lines[-1] == "2 jobs, 0.40 node hours; goodput 80.0 % of 0.30 node hours"


BEGIN = '{"event": "begin", "time": 1, "job": "7", "user": "alice"}\n'
STEPS = {"event": "steps", "time": 2, "segment": 1, "steps": 5, "first": 1, "last": 5, "seconds": 1.0}


def test_events_of_a_user_say_nothing_about_a_job_of_another(tmp_path: Path) -> None:
    path = tmp_path / record.NAME
    path.write_text(BEGIN + json.dumps(STEPS), encoding="utf-8")
    owner = trust.user_name(path.stat().st_uid)
    known = goodput.summaries([path])

    assert set(known) == {("7", owner)}
    assert (
        goodput.table([goodput.Job("7", "somebody", "plain.sh", 1.0, "COMPLETED")], known)[1].split()[-2:] == ["-"] * 2
    )
    assert goodput.table([goodput.Job("7", owner, "plain.sh", 1.0, "COMPLETED")], known)[1].split()[-1] == "0"


@pytest.mark.parametrize(
    "wrong",
    [
        *({"first": math.nan}, {"last": math.inf}, {"seconds": "1"}, {"steps": []}, {"segment": {}}, {"steps": None}),
        {"event": "fault", "kind": "x", "text": "x", "after": "x", "back": "soon"},
    ],
)
def test_damaged_events_of_one_job_hide_no_other(wrong: dict[str, t.Any], tmp_path: Path) -> None:
    paths = [tmp_path / "bad", tmp_path / "good"]
    second = {**STEPS, "segment": 2, **wrong}
    paths[0].write_text(BEGIN + "\n".join(map(json.dumps, (STEPS, second))), encoding="utf-8")
    paths[1].write_text(BEGIN.replace("7", "8") + json.dumps(STEPS), encoding="utf-8")

    known = {job: found.steps for (job, _user), found in goodput.summaries(paths).items()}
    assert known in ({"8": 5}, {"7": 5, "8": 5})  # a line that is no event counts as none


def test_text_of_a_user_does_not_control_the_terminal() -> None:
    assert goodput.printable(["a\x1b[2Jb", "c"]) == "a [2Jb\nc\n"


@pytest.mark.parametrize(
    ("what", "option"),
    [
        ("7", "--jobs=7"),
        ("alice", "--user=alice"),
        ("month", "--endtime=2026-12-01"),
        ("2026-12", "--endtime=2027-01-01"),
    ],
)
def test_a_question_to_the_accounting(what: str, option: str) -> None:
    assert option in goodput.query(what, "2026-11-27")
