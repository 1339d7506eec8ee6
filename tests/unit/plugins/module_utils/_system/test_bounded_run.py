# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that hang, die or do not exist."""

from __future__ import annotations

import os
import sys
import typing as t
from types import SimpleNamespace

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import (
    CommandMissing,
    CommandTimeout,
    Started,
    bounded_runner,
    feeding_runner,
    hangs,
)
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, LIMITS, PATIENCE, within

if t.TYPE_CHECKING:
    from pathlib import Path


def test_output_and_exit_status_come_back() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(6)"

    assert bounded_runner(PATIENCE)([sys.executable, "-c", code]) == (6, "out\n", "err\n")


def test_a_hanging_program_ends_in_bounded_time_with_its_children() -> None:
    with within("the program"), pytest.raises(CommandTimeout, match=r"did not answer in 0\.5 s"):
        bounded_runner(0.5)(["sh", "-c", f"sleep {HANGS} & sleep {HANGS}"])


def test_a_missing_program_is_said_to_be_missing() -> None:
    with pytest.raises(CommandMissing, match="/nonexistent/nvidia-smi cannot be started"):
        bounded_runner(1)(["/nonexistent/nvidia-smi"])


def test_bytes_that_are_no_text_are_replaced() -> None:
    code = "import sys; sys.stdout.buffer.write(bytes([0xff, 0x0a]))"

    assert bounded_runner(PATIENCE)([sys.executable, "-c", code])[1] == "\ufffd\n"


def test_messages_are_not_translated() -> None:
    assert bounded_runner(PATIENCE)(["sh", "-c", "echo $LC_ALL"])[1] == "C\n"


def test_a_flood_is_ended_and_said() -> None:
    with pytest.raises(CommandTimeout, match="printed more than 1000 bytes and was killed") as caught:
        Started(["sh", "-c", "echo begun; cat /dev/zero"]).wait(HANGS, 1000)

    assert caught.value.said.out.startswith("begun\n")


@pytest.mark.parametrize("runner", [bounded_run.feeding_runner, bounded_run.bounded_runner])
def test_every_program_has_a_limit_of_what_it_prints(
    monkeypatch: pytest.MonkeyPatch, runner: t.Callable[[float], bounded_run.Runner]
) -> None:
    """What is printed is in memory."""
    given: list[int | None] = []
    own = Started.wait

    def wait(self: Started, seconds: float, most: int | None = None) -> bounded_run.Ended:
        given.append(most)
        return own(self, seconds, most)

    monkeypatch.setattr(Started, "wait", wait)

    runner(PATIENCE)(["true"])

    assert given == [bounded_run.MOST]


def test_the_position_of_a_process_that_still_writes_stays() -> None:
    handle = bounded_run._memory("out")
    os.write(handle.fileno(), b"begun\n")
    os.lseek(handle.fileno(), 2, os.SEEK_SET)

    assert bounded_run._text(handle) == "begun\n"
    assert os.lseek(handle.fileno(), 0, os.SEEK_CUR) == 2


def test_no_file_system_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/directory")
    monkeypatch.setattr("tempfile.tempdir", "/no/such/directory")

    assert bounded_runner(PATIENCE)(["echo", "said"]) == (0, "said\n", "")


def test_a_short_program_is_not_waited_for_longer_than_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    now, pauses = [0.0], []

    def sleep(seconds: float) -> None:
        pauses.append((now[0], seconds))
        now[0] += seconds

    class Process:
        pid, returncode = 0, 0

        def poll(self) -> int | None:
            return 0 if now[0] > 2 else None

    program = Started(["true"])
    program._process.wait()
    monkeypatch.setattr(program, "_process", Process())
    monkeypatch.setattr(bounded_run, "time", SimpleNamespace(monotonic=lambda: now[0], sleep=sleep))

    assert program.wait(30).code == 0  # bound: by the clock of the test
    # A pause is a twentieth of the time before it, 0.5 ms at least and 50 ms at most.
    assert all(seconds <= min(max(0.0005, spent / 20), 0.05) for spent, seconds in pauses)


def test_a_child_in_the_background_holds_nothing_up() -> None:
    with within("the program"):
        assert bounded_runner(HANGS)(["sh", "-c", f"sleep {HANGS} & echo said"]) == (0, "said\n", "")


def test_a_feeding_runner_gives_input_and_environment() -> None:
    run = feeding_runner(PATIENCE)

    assert run(["cat"], "one\n") == (0, "one\n", "")
    assert run(["sh", "-c", "cat; echo $LC_ALL $MORE"], environment={"MORE": "more"}) == (0, "C more\n", "")


def test_a_program_that_hangs_is_one_that_failed() -> None:
    with within("the program"):
        for limit in LIMITS:
            code, out, err = feeding_runner(limit)(["sh", "-c", f"echo begun; sleep {HANGS}"])
            if out:
                break

    assert (code, out) == (124, "begun\n")
    assert f"did not answer in {limit:g} s and was killed" in err


def test_a_program_that_is_not_there_is_one_that_failed() -> None:
    code, out, err = feeding_runner(PATIENCE)(["/nonexistent/modprobe", "nfs"])

    assert (code, out) == (127, "")
    assert err.startswith("/nonexistent/modprobe cannot be started: ")


def test_a_file_system_that_does_not_answer_is_told_from_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not hangs(str(tmp_path))
    assert not hangs(str(tmp_path / "missing"))

    # A dead server holds whoever asks for its file system.
    (tmp_path / "stat").write_text(f"#!/bin/sh\nsleep {HANGS}\n", encoding="utf-8")
    (tmp_path / "stat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run.HANGING", 0.5)

    assert hangs(str(tmp_path))


def test_nobody_else_may_write_to_what_a_program_reads() -> None:
    """MariaDB's clients ignore a file of options that all may write."""
    run = bounded_run.feeding_runner(PATIENCE)

    assert run(["stat", "--dereference", "--format=%a", "/dev/stdin"], "[client]\n") == (0, "600\n", "")
