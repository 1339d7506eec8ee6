# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Run parts of the tests beside each other, each with a log of its own.

A part is a list of commands. One that may be repeated, a scenario of Molecule, runs once more from its start if it
fails; if it passes then, it is flaky.
"""

from __future__ import annotations

import collections
import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
import traceback
import typing as t

import failure_summary

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

LANES = 2
PATIENCE = 30  # seconds that a command has to end after a signal
LOOK = 0.2  # seconds between two looks whether the lanes have ended


class Command(t.NamedTuple):
    """A command with its directory, and what it needs in its environment."""

    words: tuple[str, ...]
    folder: Path
    environment: dict[str, str]


class Part(t.NamedTuple):
    """
    A part of the tests; its commands are made for the lane that runs it.

    C(applies) names the scenario whose files decide whether an earlier result still counts: empty if none, C(*) if all.
    """

    name: str
    commands: Callable[[int], Sequence[Command]]
    repeat: bool = False
    applies: str = ""


class Result(t.NamedTuple):
    """How a part ended. C(flaky) says what went wrong in the first of two runs."""

    name: str
    seconds: int
    failed: bool = False
    flaky: str = ""


class StoppedError(Exception):
    """No command is started any more."""


class Machine:
    """Starts commands with their output in a log, and can end them all."""

    def __init__(self, limit: float | None) -> None:
        """Allow some seconds from now, or any time."""
        self._begin = time.monotonic()
        self._limit = limit
        self._stopped = False

    def seconds(self) -> int:
        """Return the seconds since the start."""
        return round(time.monotonic() - self._begin)

    def run(self, command: Command, log: Path, tell: Callable[[str], None]) -> int:
        """Run a command to its end, and tell the steps of Molecule as they begin. Raises StoppedError."""
        if self.over():
            raise StoppedError
        with log.open("ab") as output:
            output.write(f"\n== {' '.join(command.words)} ({self.seconds()} s)\n".encode())
            output.flush()
            begin = output.tell()  # the command shares the position of the file
            process = subprocess.Popen(
                command.words,
                cwd=command.folder,
                env={**os.environ, **command.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._follow(process, log, begin, tell)
            except BaseException:
                # Nobody would end it: it has a session of its own.
                _end(process)
                raise
            if process.returncode and self.over():
                output.seek(0, os.SEEK_END)
                limit = "" if self._stopped else f": the tests may take {self._limit} s (GPUCLUSTER_TEST_SECONDS)"
                output.write(f"\nStopped after {self.seconds()} s{limit}\n".encode())
        return process.returncode

    def stop(self) -> None:
        """End all commands, and start no other."""
        self._stopped = True

    def over(self) -> bool:
        """Return whether no command may start or go on."""
        return self._stopped or (self._limit is not None and self.seconds() >= self._limit)

    def _follow(self, process: subprocess.Popen[bytes], log: Path, begin: int, tell: Callable[[str], None]) -> None:
        with log.open(encoding="utf-8", errors="replace") as written:
            written.seek(begin)
            runs = True
            while runs:
                runs = self._runs(process)
                for step in filter(None, map(failure_summary.executing, written)):
                    tell(step)

    def _runs(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait a second; return whether the command still runs. End it with all that it started if the time is over."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
            return False
        if self.over():
            _end(process)
            return False
        return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command with all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=PATIENCE)
            return


class Lanes:
    """Runs parts in the order given, and keeps their results."""

    def __init__(
        self,
        machine: Machine,
        logs: Path,
        say: Callable[[str], None],
        digest: Callable[[str], str],
        prove: Callable[[Part, int, str], None],
    ) -> None:
        """Take what speaks to the person, what names the files that a part applies, and what notes that it passed."""
        self._machine, self._logs, self._say, self._digest, self._prove = machine, logs, say, digest, prove
        self._proving = threading.Lock()
        self.results: list[Result] = []
        self.stopped: list[str] = []

    def run(self, parts: Sequence[Part], fits: Callable[[Part], bool]) -> list[str]:
        """Run all parts that fit when their turn comes; return the names of the others."""
        queue, left, free, ended = collections.deque(parts), list[str](), collections.deque(range(LANES)), list[int]()

        def lane() -> None:
            try:
                number = free.popleft()
            except IndexError:
                return  # one thread too many
            try:
                while queue:
                    self._turn(queue, number, fits, left)
            finally:
                ended.append(number)

        while len(ended) < LANES:
            # Not join(): after an interruption, Python 3.11 takes a thread that runs for one that has ended.
            try:
                if free:
                    # After an interruption, nobody knows whether the thread began.
                    threading.Thread(target=lane).start()
                else:
                    time.sleep(LOOK)
            except KeyboardInterrupt:
                self._machine.stop()
        known = {*left, *self.stopped, *(result.name for result in self.results)}
        self.results += [Result(part.name, 0, failed=True) for part in parts if part.name not in known]
        return left

    def _turn(self, queue: collections.deque[Part], lane: int, fits: Callable[[Part], bool], left: list[str]) -> None:
        try:
            part = queue.popleft()
        except IndexError:
            return
        try:
            if fits(part):
                self.results.append(self._part(part, lane))
            else:
                left.append(part.name)
        except StoppedError:
            self.stopped.append(part.name)
        except Exception:
            # A part that cannot be run has failed. The thread would end in silence.
            self.results.append(Result(part.name, 0, failed=True))
            with contextlib.suppress(OSError), (self._logs / f"{part.name}.log").open("a", encoding="utf-8") as log:
                traceback.print_exc(file=log)

    def _part(self, part: Part, lane: int) -> Result:
        if self._machine.over():
            raise StoppedError
        log, flaky, begin = self._logs / f"{part.name}.log", "", self._machine.seconds()
        digest = self._digest(part.applies) if part.applies else ""
        self._say(f"== {part.name}: begins ({begin} s)")
        passed = self._once(part, lane, log)
        if not passed and part.repeat and not self._machine.over():
            flaky = self._error(log)
            log.replace(log.with_suffix(".first.log"))
            for command in part.commands(lane):
                # Molecule remembers there what it has prepared.
                shutil.rmtree(command.environment.get("MOLECULE_EPHEMERAL_DIRECTORY", ""), ignore_errors=True)
            begin = self._machine.seconds()
            self._say(f"== {part.name}: failed, and runs once more ({begin} s): {flaky}")
            passed = self._once(part, lane, log)
        seconds = self._machine.seconds() - begin
        # A file that was changed meanwhile was not tested.
        if passed and digest and digest == self._digest(part.applies):
            with self._proving:
                self._prove(part, seconds, digest)
        self._say(f"== {part.name}: {'passed' if passed else 'FAILED'} after {seconds} s")
        return Result(part.name, seconds, failed=not passed, flaky=flaky if passed else "")

    def _once(self, part: Part, lane: int, log: Path) -> bool:
        log.unlink(missing_ok=True)

        def tell(step: str) -> None:
            self._say(f"   {part.name}: {step} ({self._machine.seconds()} s)")

        return all(self._machine.run(command, log, tell) == 0 for command in part.commands(lane))

    def _error(self, log: Path) -> str:
        lines = failure_summary.summary([log.read_text(encoding="utf-8", errors="replace")])
        return "; ".join(line.strip() for line in lines[:2])
