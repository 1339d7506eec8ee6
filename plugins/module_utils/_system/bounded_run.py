# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Start a program that may hang, and always get an answer in bounded time."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Runner = Callable[[Sequence[str]], tuple[int, str, str]]

    class FeedingRunner(t.Protocol):
        """A runner that may give the program an input and more environment."""

        def __call__(
            self, args: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
        ) -> tuple[int, str, str]: ...


# Exit statuses of what did not end in time, as timeout(1) has it, and of what is not there, as a shell has it.
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


class CommandTimeout(Exception):  # noqa: N818 - named like subprocess.TimeoutExpired
    """The program did not end in time."""


class CommandMissing(Exception):  # noqa: N818
    """There is no such program, or it may not be executed."""


def bounded_runner(timeout: float) -> Runner:
    """
    Return a runner that ends every program after so many seconds.

    The output goes to files, not pipes: a child that cannot be killed would keep a pipe open for ever.
    """

    def run(args: Sequence[str]) -> tuple[int, str, str]:
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            code = _wait(_start(args, out, err), args, timeout)
            return code, _text(out), _text(err)

    return run


def feeding_runner(timeout: float) -> FeedingRunner:
    """
    Return a runner that ends every program after so many seconds and reports that as its exit status.

    So what a module says of a program that failed serves for one that hangs or is not there, too.
    """

    def run(
        args: Sequence[str], data: str | None = None, environment: Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            given.write((data or "").encode("utf-8", "surrogateescape"))
            given.seek(0)
            try:
                code = _wait(_start(args, out, err, given, environment), args, timeout)
            except CommandTimeout as exc:
                return TIMED_OUT, _text(out), "\n".join(filter(None, (_text(err).strip(), str(exc))))
            except CommandMissing as exc:
                return MISSING, "", str(exc)
            return code, _text(out), _text(err)

    return run


def hangs(path: str) -> bool:
    """Tell whether the file system of a path does not answer; a program asks, which can be left behind."""
    code, _out, _err = feeding_runner(HANGING)(["stat", "--file-system", "--format=%T", "--", path])
    return code == TIMED_OUT


def _start(
    args: Sequence[str],
    out: t.IO[bytes],
    err: t.IO[bytes],
    given: t.IO[bytes] | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            list(args),
            stdin=given or subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "LC_ALL": "C", **(environment or {})},
            start_new_session=True,
        )
    except (OSError, ValueError) as exc:
        raise CommandMissing(f"{args[0]} cannot be started: {exc}") from exc


def _wait(process: subprocess.Popen[bytes], args: Sequence[str], timeout: float) -> int:
    try:
        return process.wait(timeout)
    except subprocess.TimeoutExpired:
        _kill(process)
        raise CommandTimeout(f"'{' '.join(args)}' did not answer in {timeout:g} s and was killed") from None


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(GRACE)
    except (ProcessLookupError, PermissionError, subprocess.TimeoutExpired):
        pass  # gone already, or held by the kernel


def _text(handle: t.IO[bytes]) -> str:
    handle.seek(0)
    return handle.read().decode("utf-8", "replace")
