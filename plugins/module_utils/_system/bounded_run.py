# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Run a program that may hang, and return a result in bounded time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    # Runs a program and returns its exit status, standard output and standard error. Accepts the program with its
    # arguments, and optionally data for standard input and more environment variables. Runners of tests accept less.
    Runner = Callable[..., tuple[int, str, str]]


# Exit status of a program that exceeded its time limit (as of timeout(1)) and of a missing one (as of a shell).
TIMED_OUT = 124
MISSING = 127

# Seconds after which a file system is considered unresponsive.
HANGING = 20

# Seconds for programs that only read, that change something, and that wait for a service or the network.
ASK = 60
CHANGE = 600
WORK = 1500

# Bytes that a program may print, because they are in memory. 100,000 jobs of squeue with all fields are 30 MB.
MOST = 256 << 20

# Seconds to wait for a killed process to end. A process in state D (for example after a GPU fell off the bus) never
# ends, and is abandoned.
GRACE = 5.0
_LONGEST_PAUSE = 0.05  # seconds between two checks for the end of a program


class CommandTimeout(Exception):  # noqa: N818 - named like subprocess.TimeoutExpired
    """The program exceeded its time limit. The attribute said contains its output until then."""

    def __init__(self, message: str, said: Ended | None = None) -> None:
        super().__init__(message)
        self.said = said or Ended(TIMED_OUT, "", "")


class CommandMissing(Exception):  # noqa: N818
    """The program is missing or not executable."""


class Ended(t.NamedTuple):
    """Exit status and output of a program."""

    code: int
    out: str
    err: str


class Started:
    """
    A started program whose output is collected.

    The output goes to memory, not to a pipe, because a child that cannot be killed would keep a pipe open forever.
    """

    def __init__(
        self, args: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start the program. Raise CommandMissing if that fails."""
        self._args = args
        self._streams = [_memory("in"), _memory("out"), _memory("err")]
        given, out, err = self._streams
        given.write((data or "").encode("utf-8", "surrogateescape"))
        given.seek(0)
        try:
            self._process = subprocess.Popen(
                list(args),
                stdin=given,
                stdout=out,
                stderr=err,
                env={**os.environ, "LC_ALL": "C", **(environment or {})},
                start_new_session=True,
            )
        except (OSError, ValueError) as exc:
            self._close()
            raise CommandMissing(f"{args[0]} cannot be started: {exc}") from exc

    def wait(self, timeout: float, most: int | None = None, grace: float = GRACE) -> Ended:
        """Return the result. Raise CommandTimeout after timeout seconds, or if the output exceeds most bytes."""
        start = time.monotonic()
        while self._process.poll() is None:
            spent = time.monotonic() - start
            flooded = most is not None and sum(os.fstat(stream.fileno()).st_size for stream in self._streams[1:]) > most
            if spent >= timeout or flooded:
                said = self.kill(grace)
                what = f"printed more than {most} bytes" if flooded else f"did not answer in {timeout:g} s"
                raise CommandTimeout(f"'{' '.join(self._args)}' {what} and was killed", said)
            time.sleep(max(0.0005, min(spent / 20, timeout - spent, _LONGEST_PAUSE)))
        return self._ended()

    def kill(self, grace: float = GRACE) -> Ended:
        """Kill the program with its children and return its output. Abandon a process that does not end."""
        with contextlib.suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            self.kill_group()
            self._process.wait(grace)
        return self._ended()

    def kill_group(self) -> None:
        """Kill the remaining processes of the program and its children. Raise OSError if that fails."""
        os.killpg(self._process.pid, signal.SIGKILL)

    def _ended(self) -> Ended:
        code = self._process.returncode
        _given, out, err = self._streams
        ended = Ended(TIMED_OUT if code is None else code, _text(out), _text(err))
        self._close()
        return ended

    def _close(self) -> None:
        for stream in self._streams:
            stream.close()


def bounded_runner(timeout: float) -> Runner:
    """Return a runner that kills a program after timeout seconds."""

    def run(
        args: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        return Started(args, data, environment).wait(timeout, MOST)

    return run


def feeding_runner(timeout: float, most: int = MOST) -> Runner:
    """
    Return a runner that kills a program after timeout seconds and reports that as an exit status.

    A module can then handle a program that hangs or is missing like one that fails. A program that prints more than
    C(most) bytes is killed as well.
    """

    def run(
        args: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        try:
            return Started(args, data, environment).wait(timeout, most)
        except CommandTimeout as exc:
            return TIMED_OUT, exc.said.out, "\n".join(filter(None, (exc.said.err.strip(), str(exc))))
        except CommandMissing as exc:
            return MISSING, "", str(exc)

    return run


def hangs(path: str) -> bool:
    """Return whether the file system of a path hangs. A separate program checks, because it can be abandoned."""
    code, _out, _err = feeding_runner(HANGING)(["stat", "--file-system", "--format=%T", "--", path])
    return code == TIMED_OUT


def _memory(name: str) -> t.IO[bytes]:
    """Return an unnamed file, in memory because a disk may be full or read-only."""
    try:
        handle = os.memfd_create(name)
        # The kernel lets all write to it, and mariadb ignores such a file of options in /dev/stdin.
        os.fchmod(handle, 0o600)
        return os.fdopen(handle, "w+b")
    except (AttributeError, OSError):
        import tempfile  # imported here to save start time

        return tempfile.TemporaryFile()


def _text(handle: t.IO[bytes]) -> str:
    """
    Return what was printed, without a move of the position in the file.

    A killed process may still end its last write. It shares the position, so it would write over the beginning.
    """
    size = os.fstat(handle.fileno()).st_size
    return os.pread(handle.fileno(), size, 0).decode("utf-8", "replace")
