# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Real processes and real files: nothing hangs, whatever they do."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import process
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.machine import Machine, Space
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import tidy
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, LIMITS, PATIENCE, wait_until, within


def test_output_status_and_input_pass_through() -> None:
    result = process.run(["sh", "-c", "cat; echo bad >&2; exit 3"], PATIENCE, "text")

    assert result == process.Result(process.DONE, 3, "text", "bad\n")
    assert result.text == "bad text"


@pytest.mark.parametrize(
    "script",
    [
        f"sleep {HANGS}",
        f"trap '' TERM; sleep {HANGS}",
        f"exec >&- 2>&-; sleep {HANGS}",  # silent and alive
        f"echo part; sleep {HANGS}",
    ],
)
def test_a_program_that_hangs_is_ended(script: str) -> None:
    with within("the program"):
        assert process.run(["sh", "-c", script], 0.3).state == process.TIMEOUT


def test_what_a_program_leaves_in_the_background_is_ended_with_it() -> None:
    result = process.run(["sh", "-c", f"sleep {HANGS} & echo $!; exit 0"], PATIENCE)

    assert result.state == process.DONE
    wait_until("the end of the child", lambda: not (Path("/proc") / result.out.strip() / "exe").exists())


def test_a_flood_is_cut() -> None:
    with within("the program"):
        assert process.run(["cat", "/dev/zero"], HANGS).state == process.TIMEOUT


@pytest.mark.parametrize(
    ("program", "state"),
    [("/no/such/program", process.MISSING), ("/etc/passwd", process.FAILED), ("/etc/passwd/x", process.MISSING)],
)
def test_a_program_that_cannot_start_is_said(program: str, state: str) -> None:
    assert process.run([program], PATIENCE).state == state


def test_no_time_left_starts_nothing(tmp_path: Path) -> None:
    assert Machine(deadline=-1).run(["touch", str(tmp_path / "x")], 5).state == process.TIMEOUT
    assert not (tmp_path / "x").exists()


def test_bytes_that_are_no_text_do_not_matter() -> None:
    assert "\ufffd" in process.run(["printf", r"\377\376"], PATIENCE).out


def test_file_systems_answer_or_say_why(tmp_path: Path) -> None:
    answers = Machine().spaces([str(tmp_path), "/no/such/folder"], PATIENCE)

    assert isinstance(answers[str(tmp_path)], Space)
    assert answers["/no/such/folder"] == "No such file or directory"


def test_a_hung_file_system_costs_its_time_once(monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs
    monkeypatch.setattr(os, "statvfs", lambda path: time.sleep(HANGS) if "hung" in path else real(path))
    machine = Machine()
    with within("the question"):
        for limit in LIMITS:
            answers = machine.spaces(["/hung/1", "/hung/2", "/"], limit)
            if isinstance(answers["/"], Space):
                break

    assert answers["/hung/1"] == answers["/hung/2"] == f"no answer within {limit:g} s"
    assert isinstance(answers["/"], Space)


def test_files_are_read_below_another_root(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1 kB\n")
    (tmp_path / "proc/link").symlink_to("meminfo")
    machine = Machine(root=str(tmp_path))

    assert machine.read("/proc/meminfo") == "MemTotal: 1 kB\n"
    assert machine.names("/proc") == ["link", "meminfo"]
    assert machine.names("/sys") == []
    assert machine.target("/proc/link") == "meminfo"
    assert machine.target("/proc/meminfo") == ""


def test_a_pipe_without_a_writer_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    assert Machine(root=str(tmp_path)).read("/pipe") == ""


def test_kernel_log_is_read_in_any_form(tmp_path: Path) -> None:
    # A user can write the second line break into a record.
    (tmp_path / "log").write_text("[    1.000000] a\n[    2.000000] b\u2028[    3.000000] c\n", encoding="utf-8")

    assert Machine().kernel_log(str(tmp_path / "log")) == ["[    1.000000] a", "[    2.000000] b\u2028[    3.000000] c"]
    with pytest.raises(OSError, match="No such file"):
        Machine(root=str(tmp_path)).kernel_log("/dev/kmsg")


def test_a_program_that_floods_its_errors_is_ended() -> None:
    assert process.run(["sh", "-c", "cat /dev/zero >&2"], 30).state == process.TIMEOUT


@pytest.mark.parametrize(
    ("text", "line"), [("a\x1b[31mb", "a [31mb"), ("a\n\tb  c", "a b c"), ("x" * 400, "x" * 297 + "..."), ("", "")]
)
def test_a_reason_is_one_printable_line(text: str, line: str) -> None:
    assert tidy(text) == line
