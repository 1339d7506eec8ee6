# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Access to the machine for checks: files, programs, file systems and the clock, each with a time limit."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
import typing as t

from . import process

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Started

_MOST_BYTES = 4 << 20


class Space(t.NamedTuple):
    """Used space and inodes of a file system."""

    blocks_percent: float
    inodes_percent: float


class Machine:
    """The real machine; tests replace it."""

    def __init__(self, deadline: float = 60.0, root: str = "") -> None:
        """Store the time limit in seconds for the whole run, and the directory to use as root."""
        self._end = time.monotonic() + deadline
        self._root = root
        self.stuck: dict[str, int] = {}  # path of a hung file system: PID of the child that waits for it

    def now(self) -> float:
        """Return seconds since boot; setting the clock does not change them."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def left(self, wanted: float) -> float:
        """Return the seconds that one step may take."""
        return min(wanted, self._end - time.monotonic())

    def read(self, path: str) -> str:
        """Return the content of a file, or raise OSError."""
        descriptor = os.open(self._root + path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            chunks = []
            size = 0
            while size < _MOST_BYTES:
                chunk = os.read(descriptor, 65536)
                if not chunk:
                    break
                chunks.append(chunk)
                size += len(chunk)
        finally:
            os.close(descriptor)
        return b"".join(chunks).decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none if it is missing."""
        try:
            return sorted(os.listdir(self._root + path))  # noqa: PTH208 (a Path costs start time)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def target(self, path: str) -> str:
        """Return the target of a symbolic link, or an empty string."""
        try:
            return os.readlink(self._root + path)  # noqa: PTH115
        except OSError:
            return ""

    def kernel_log(self, path: str) -> list[str]:
        """Return the records of the kernel log, or raise OSError if it cannot be read."""
        if not path.startswith("/dev/"):
            # Users write texts into records, also with other characters that end lines.
            return list(filter(None, self.read(path).split("\n")))
        descriptor = os.open(self._root + path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _records(descriptor)
        finally:
            os.close(descriptor)

    def run(
        self, argv: t.Sequence[str], timeout: float, stdin: str = "", env: dict[str, str] | None = None
    ) -> process.Result:
        """Run a program for at most this number of seconds."""
        return process.run(argv, self.left(timeout), stdin, env)

    def start(self, argv: t.Sequence[str]) -> Started:
        """Start a program in the background, or raise CommandMissing."""
        return process.start(argv)

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to a process; ignore a process that has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    def sleep(self, seconds: float) -> None:
        """Wait, at most to the end of the run's time limit."""
        time.sleep(max(0.0, self.left(seconds)))

    def spaces(self, paths: t.Sequence[str], timeout: float) -> dict[str, Space | str]:
        """Return the usage of the file system of each path, or why it is unknown; a hung one takes no extra time."""
        waiting = {path: _Asked(self._root + path) for path in paths}
        end = time.monotonic() + self.left(timeout)
        answers = {path: asked.answer(end, timeout) for path, asked in waiting.items()}
        self.stuck = {path: asked.pid for path, asked in waiting.items() if asked.pid}
        return answers


class _Asked:
    """A child process that queries one file system, so that only the child can hang."""

    def __init__(self, path: str) -> None:
        self._read, write = os.pipe()
        self.pid = os.fork()
        if not self.pid:
            os.write(write, _space(path).encode())
            os._exit(0)
        os.close(write)

    def answer(self, end: float, timeout: float) -> Space | str:
        ready, _write, _error = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
        text = os.read(self._read, 4096).decode() if ready else ""
        os.close(self._read)
        self._stop()
        if not text:
            return f"no answer within {timeout:.10g} s"
        value = json.loads(text)
        return value if isinstance(value, str) else Space(*value)

    def _stop(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        for _attempt in range(20):
            if os.waitpid(self.pid, os.WNOHANG)[0]:
                self.pid = 0
                return
            time.sleep(0.001)


def _space(path: str) -> str:
    try:
        stat = os.statvfs(path)
    except OSError as exc:
        return json.dumps(exc.strerror)
    blocks = stat.f_blocks - stat.f_bfree + stat.f_bavail
    return json.dumps(
        [
            100.0 * (stat.f_blocks - stat.f_bfree) / blocks if blocks else 0.0,
            100.0 * (stat.f_files - stat.f_ffree) / stat.f_files if stat.f_files else 0.0,
        ]
    )


def _records(descriptor: int) -> list[str]:
    records: list[str] = []
    while len(records) < 100_000:
        try:
            record = os.read(descriptor, 8192)
        except BlockingIOError:
            break
        except BrokenPipeError:  # records were overwritten; the next read continues with the oldest record
            continue
        if not record:
            break
        records.append(record.decode("utf-8", "replace"))
    return records
