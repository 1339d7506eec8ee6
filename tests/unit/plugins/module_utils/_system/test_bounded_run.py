# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Programs that hang, die or do not exist."""

from __future__ import annotations

import os
import sys
import time
import typing as t

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

if t.TYPE_CHECKING:
    from pathlib import Path


def test_output_and_exit_status_come_back() -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(6)"

    assert bounded_runner(30)([sys.executable, "-c", code]) == (6, "out\n", "err\n")


def test_a_hanging_program_ends_in_bounded_time_with_its_children() -> None:
    start = time.monotonic()

    with pytest.raises(CommandTimeout, match=r"did not answer in 0\.5 s"):
        bounded_runner(0.5)(["sh", "-c", "sleep 60 & sleep 60"])

    assert time.monotonic() - start < 10


def test_a_missing_program_is_said_to_be_missing() -> None:
    with pytest.raises(CommandMissing, match="/nonexistent/nvidia-smi cannot be started"):
        bounded_runner(1)(["/nonexistent/nvidia-smi"])


def test_bytes_that_are_no_text_are_replaced() -> None:
    code = "import sys; sys.stdout.buffer.write(bytes([0xff, 0x0a]))"

    assert bounded_runner(30)([sys.executable, "-c", code])[1] == "\ufffd\n"


def test_messages_are_not_translated() -> None:
    assert bounded_runner(30)(["sh", "-c", "echo $LC_ALL"])[1] == "C\n"


def test_a_flood_is_ended_and_said() -> None:
    with pytest.raises(CommandTimeout, match="printed more than 1000 bytes and was killed") as caught:
        Started(["sh", "-c", "echo begun; cat /dev/zero"]).wait(30, 1000)

    assert caught.value.said.out.startswith("begun\n")


def test_the_position_of_a_process_that_still_writes_stays() -> None:
    handle = bounded_run._memory("out")
    os.write(handle.fileno(), b"begun\n")
    os.lseek(handle.fileno(), 2, os.SEEK_SET)

    assert bounded_run._text(handle) == "begun\n"
    assert os.lseek(handle.fileno(), 0, os.SEEK_CUR) == 2


def test_no_file_system_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/no/such/directory")
    monkeypatch.setattr("tempfile.tempdir", "/no/such/directory")

    assert bounded_runner(30)(["echo", "said"]) == (0, "said\n", "")


def test_a_short_program_is_not_waited_for_longer_than_it_takes() -> None:
    took = []
    for _number in range(5):
        start = time.monotonic()
        bounded_runner(30)(["true"])
        took.append(time.monotonic() - start)

    # The others had to wait for a processor.
    assert min(took) < 0.2


def test_a_child_in_the_background_holds_nothing_up() -> None:
    start = time.monotonic()

    assert bounded_runner(30)(["sh", "-c", "sleep 30 & echo said"]) == (0, "said\n", "")
    assert time.monotonic() - start < 20


def test_a_feeding_runner_gives_input_and_environment() -> None:
    run = feeding_runner(30)

    assert run(["cat"], "one\n") == (0, "one\n", "")
    assert run(["sh", "-c", "cat; echo $LC_ALL $MORE"], environment={"MORE": "more"}) == (0, "C more\n", "")


def test_a_program_that_hangs_is_one_that_failed() -> None:
    start = time.monotonic()

    code, out, err = feeding_runner(0.5)(["sh", "-c", "echo begun; sleep 60"])

    assert (code, out) == (124, "begun\n")
    assert "did not answer in 0.5 s and was killed" in err
    assert time.monotonic() - start < 10


def test_a_program_that_is_not_there_is_one_that_failed() -> None:
    code, out, err = feeding_runner(1)(["/nonexistent/modprobe", "nfs"])

    assert (code, out) == (127, "")
    assert err.startswith("/nonexistent/modprobe cannot be started: ")


def test_a_file_system_that_does_not_answer_is_told_from_one_that_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not hangs(str(tmp_path))
    assert not hangs(str(tmp_path / "missing"))

    # A dead server holds whoever asks for its file system.
    (tmp_path / "stat").write_text("#!/bin/sh\nsleep 60\n", encoding="utf-8")
    (tmp_path / "stat").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr("ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run.HANGING", 0.5)

    assert hangs(str(tmp_path))
