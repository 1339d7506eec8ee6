# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parts run beside each other. A scenario that fails runs once more. What hangs ends with all that it started."""

from __future__ import annotations

import os
import signal
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE, wait_until
from ansible_collections.hpcai.gpucluster.tests.unit.support.ci_program import ci_program

lanes = ci_program("lanes")


class Desk:
    """Runs parts whose commands are shell programs, and keeps what is said and proved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.proved: list[tuple[str, str]] = []
        self.digests = iter(["d"] * 9)
        self.machine = lanes.Machine(None)
        self.lanes: t.Any = None

    def part(self, name: str, *programs: str, repeat: bool = False, applies: str = "") -> t.Any:
        commands = [lanes.Command(("sh", "-c", program), self.folder, {"WORD": name}) for program in programs]
        return lanes.Part(name, lambda _lane: commands, repeat, applies)

    def run(self, *parts: t.Any, fits: t.Callable[[t.Any], bool] = lambda _part: True) -> list[str]:
        self.lanes = lanes.Lanes(
            self.machine,
            self.folder,
            self.said.append,
            lambda _scenario: next(self.digests),
            lambda part, _seconds, digest: self.proved.append((part.name, digest)),
        )
        return t.cast("list[str]", self.lanes.run(parts, fits))

    def ended(self) -> dict[str, tuple[bool, str]]:
        return {result.name: (not result.failed, result.flaky) for result in self.lanes.results}


def state(pid: str) -> str:
    """Return the state of a process; nothing if it is gone, Z if nobody has asked yet how it ended."""
    try:
        return Path("/proc", pid, "stat").read_text("utf-8").rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return ""


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_part_passes_with_all_of_its_commands_and_ends_at_the_first_that_fails(desk: Desk) -> None:
    desk.run(desk.part("good", "echo $WORD", "true"), desk.part("bad", "false", "touch later"))

    assert desk.ended() == {"good": (True, ""), "bad": (False, "")}
    assert "\ngood\n" in (desk.folder / "good.log").read_text("utf-8")
    assert not (desk.folder / "later").exists()


def test_a_scenario_that_passes_the_second_time_is_flaky_and_keeps_its_first_log(desk: Desk) -> None:
    desk.run(
        desk.part("munge", "echo 'E   disk'; [ -e again ] || { touch again; exit 1; }", repeat=True, applies="munge")
    )

    passed, flaky = desk.ended()["munge"]
    assert passed
    assert flaky.endswith("; E   disk")
    assert (desk.folder / "munge.first.log").exists()
    assert desk.proved == [("munge", "d")]


def test_a_scenario_that_fails_twice_has_failed(desk: Desk) -> None:
    desk.run(desk.part("munge", "echo x >> runs; false", repeat=True, applies="munge"))

    assert desk.ended() == {"munge": (False, "")}
    assert (desk.folder / "runs").read_text("utf-8") == "x\nx\n"
    assert desk.proved == []


def test_a_gate_is_never_repeated(desk: Desk) -> None:
    desk.run(desk.part("unit", "echo x >> runs; false"))

    assert (desk.folder / "runs").read_text("utf-8") == "x\n"


def test_a_scenario_whose_files_changed_meanwhile_is_not_proved(desk: Desk) -> None:
    desk.digests = iter(["before", "after"])
    desk.run(desk.part("munge", "true", repeat=True, applies="munge"))

    assert desk.ended() == {"munge": (True, "")}
    assert desk.proved == []


def test_two_parts_run_at_the_same_time(desk: Desk) -> None:
    os.mkfifo(desk.folder / "pipe")
    # Each waits for the other.
    desk.run(desk.part("a", "read line < pipe"), desk.part("b", "echo line > pipe"))

    assert desk.ended() == {"a": (True, ""), "b": (True, "")}


def test_a_part_that_does_not_fit_is_returned(desk: Desk) -> None:
    left = desk.run(desk.part("a", "true"), desk.part("b", "true"), fits=lambda part: part.name == "a")

    assert left == ["b"]
    assert desk.ended() == {"a": (True, "")}


def test_a_part_that_cannot_be_run_has_failed(desk: Desk) -> None:
    missing = lanes.Command(("/no/such/program",), desk.folder, {})
    desk.run(lanes.Part("a", lambda _lane: [missing]), desk.part("b", "true"))

    assert desk.ended() == {"a": (False, ""), "b": (True, "")}
    assert "No such file" in (desk.folder / "a.log").read_text("utf-8")


def test_no_part_is_lost_where_no_log_can_be_written(desk: Desk) -> None:
    desk.folder = desk.folder / "missing"
    desk.run(*(desk.part(name, "true", repeat=True) for name in "abc"))

    assert desk.ended() == {"a": (False, ""), "b": (False, ""), "c": (False, "")}


def test_a_scenario_begins_the_second_time_without_what_the_first_one_kept(desk: Desk) -> None:
    kept = desk.folder / "kept"
    program = '[ -e "$MOLECULE_EPHEMERAL_DIRECTORY" ] && exit 3; [ -e again ] || { mkdir kept; touch again; exit 1; }'
    command = lanes.Command(("sh", "-c", program), desk.folder, {"MOLECULE_EPHEMERAL_DIRECTORY": str(kept)})
    desk.run(lanes.Part("munge", lambda _lane: [command], repeat=True))

    assert desk.ended()["munge"][0]


def test_the_steps_of_molecule_are_told_as_they_begin(desk: Desk) -> None:
    desk.run(desk.part("site", r"printf 'INFO     [site > verify] Executing\n'"))

    assert [line.partition(" (")[0] for line in desk.said][:2] == ["== site: begins", "   site: verify"]


def test_at_the_limit_a_command_ends_with_what_it_started_and_the_log_says_so(desk: Desk) -> None:
    started = desk.folder / "begun", desk.folder / "late"
    desk.machine = lanes.Machine(PATIENCE)

    def end() -> None:
        try:
            wait_until("both commands", lambda: all(path.exists() for path in started))
        finally:
            desk.machine._begin -= PATIENCE

    threading.Thread(target=end).start()
    desk.run(
        desk.part("hangs", "tail -f /dev/null & echo $! > pid; touch begun; wait", repeat=True),
        desk.part("late", "touch late; tail -f /dev/null", "true"),
        desk.part("later", "true"),
    )

    assert desk.ended()["hangs"] == (False, "")
    assert "Stopped after" in (desk.folder / "hangs.log").read_text("utf-8")
    pid = (desk.folder / "pid").read_text("utf-8").strip()
    wait_until("its end", lambda: state(pid) in ("", "Z"), lambda: state(pid))
    assert desk.lanes.stopped == ["later"]


@pytest.mark.parametrize("began", [False, True])
def test_an_interruption_while_the_lanes_start_ends_the_run(
    desk: Desk, began: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    start, interrupted = threading.Thread.start, list[bool]()

    def start_once(thread: threading.Thread) -> None:
        if began or interrupted:
            start(thread)
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "start", start_once)
    desk.run(*(desk.part(name, "tail -f /dev/null") for name in "abc"))

    assert not any(passed for passed, _flaky in desk.ended().values())
    assert sorted([*desk.lanes.stopped, *desk.ended()]) == ["a", "b", "c"]


def test_an_interruption_ends_all_commands_and_starts_no_other(desk: Desk) -> None:
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    started = desk.folder / "started.a", desk.folder / "started.b"

    def interrupt() -> None:
        wait_until("both commands", lambda: all(path.exists() for path in started))
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=interrupt).start()
    try:
        desk.run(*(desk.part(name, f"touch started.{name}; tail -f /dev/null") for name in "abc"))
    finally:
        signal.signal(signal.SIGTERM, before)

    assert not (desk.folder / "started.c").exists()
    assert sorted(desk.lanes.stopped + [name for name, (passed, _flaky) in desk.ended().items() if not passed]) == [
        "a",
        "b",
        "c",
    ]
