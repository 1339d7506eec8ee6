# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Start a program that may hang, and always get an answer in bounded time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    # Runs a program and returns its exit status, its output and its errors. Takes the program with its arguments;
    # where the caller has them, data for its standard input, and more environment. Tests hand in what takes less.
    Runner = Callable[..., tuple[int, str, str]]


# Exit statuses of a program that did not end in time, as timeout(1) has it, and of a missing one, as a shell has it.
TIMED_OUT = 124
MISSING = 127

# Seconds after which a file system counts as dead.
HANGING = 20

# Seconds for programs that only ask, that change something, and that wait for a service or the network.
ASK = 60
CHANGE = 600
WORK = 1500

# Seconds that a killed process gets to disappear. One that the kernel holds (state D, as after a GPU fell off the bus)
# never does; it is left behind.
GRACE = 5.0
_LONGEST_PAUSE = 0.05  # seconds between two looks whether a program has ended


class CommandTimeout(Exception):  # noqa: N818 - named like subprocess.TimeoutExpired
    """The program did not end in time; said is what it had printed until then."""

    def __init__(self, message: str, said: Ended | None = None) -> None:
        super().__init__(message)
        self.said = said or Ended(TIMED_OUT, "", "")


class CommandMissing(Exception):  # noqa: N818
    """There is no such program, or it may not be executed."""


class Ended(t.NamedTuple):
    """How a program ended and what it printed."""

    code: int
    out: str
    err: str


class Started:
    """
    A program that was started and whose output is collected.

    The output goes to memory, not through pipes: a child that cannot be killed would keep a pipe open for ever.
    """

    def __init__(
        self, args: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start it; raises CommandMissing."""
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
        """Return how it ended; after so many seconds, or with more output than so many bytes, raise CommandTimeout."""
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
        """End it with its children, and return what it printed; what the kernel holds is left behind."""
        with contextlib.suppress(ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
            self.kill_group()
            self._process.wait(grace)
        return self._ended()

    def kill_group(self) -> None:
        """End what is left of it and of its children; raises OSError."""
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
    """Return a runner that ends every program after so many seconds."""

    def run(
        args: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        return Started(args, data, environment).wait(timeout)

    return run


def feeding_runner(timeout: float) -> Runner:
    """
    Return a runner that ends every program after so many seconds and reports that as its exit status.

    So what a module says of a program that failed serves for one that hangs or is missing, too.
    """

    def run(
        args: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        try:
            return Started(args, data, environment).wait(timeout)
        except CommandTimeout as exc:
            return TIMED_OUT, exc.said.out, "\n".join(filter(None, (exc.said.err.strip(), str(exc))))
        except CommandMissing as exc:
            return MISSING, "", str(exc)

    return run


def hangs(path: str) -> bool:
    """Tell whether the file system of a path does not answer; a program asks, which can be left behind."""
    code, _out, _err = feeding_runner(HANGING)(["stat", "--file-system", "--format=%T", "--", path])
    return code == TIMED_OUT


def _memory(name: str) -> t.IO[bytes]:
    """Return a file without a name; in memory, because a disk may be full or read-only."""
    try:
        return os.fdopen(os.memfd_create(name), "w+b")
    except (AttributeError, OSError):
        import tempfile  # here because it costs start time

        return tempfile.TemporaryFile()


def _text(handle: t.IO[bytes]) -> str:
    handle.seek(0)
    return handle.read().decode("utf-8", "replace")
