# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Access to programs, files, processes, clock and network of the managed node. Tests pass a substitute."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.processes import end, processes_of

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


class Host:
    """The managed node."""

    def __init__(self, run: Runner) -> None:
        self.run = run

    def read(self, path: str) -> str:
        """Return the content of a file, or an empty string if the file is missing."""
        try:
            return self.read_required(path)
        except FileNotFoundError:
            return ""

    def read_required(self, path: str) -> str:
        """Return the content of a file. Raise FileNotFoundError if the file is missing."""
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Replace a file atomically. After a crash it has either the old or the new content."""
        self.make_directory(os.path.dirname(path))  # noqa: PTH120
        whole_file.replace(path, text.encode("utf-8", "surrogateescape"), mode)

    def remove(self, path: str) -> None:
        """Remove a file that may be missing."""
        Path(path).unlink(missing_ok=True)

    def remove_empty(self, path: str) -> None:
        """Remove a directory that may be missing; one with files stays."""
        with contextlib.suppress(OSError):
            Path(path).rmdir()

    def entries(self, path: str) -> list[str] | None:
        """Return the names in a directory, or None if the directory is missing."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208
        except FileNotFoundError:
            return None

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)

    def head(self, path: str, size: int) -> bytes:
        """Return the first bytes of a disk."""
        with Path(path).open("rb") as stream:
            return stream.read(size)

    def real_path(self, path: str) -> str:
        """Return a path with all symbolic links resolved."""
        return os.path.realpath(path)

    def executable(self, path: str) -> bool:
        """Return whether a file is executable."""
        return os.access(path, os.X_OK)

    def changed_at(self, path: str) -> float:
        """Return when the content, name, owner or mode of a file last changed, or 0 if it cannot be read."""
        try:
            return os.stat(path).st_ctime  # noqa: PTH116
        except OSError:
            return 0.0

    def boot_clock(self) -> float:
        """Return the system time at which the monotonic clock was 0."""
        return time.time() - time.monotonic()

    def program(self, pid: str) -> str:
        """Return the path of the program of a process, or an empty string if there is no such process."""
        try:
            return os.readlink(f"/proc/{int(pid)}/exe")  # noqa: PTH115
        except (OSError, ValueError):
            return ""

    def processes(self, uid: int) -> list[int]:
        """Return the processes of a user."""
        return processes_of(uid)

    def kill(self, pid: int) -> None:
        """Kill a process. Ignore one that has already ended."""
        end(pid, signal.SIGKILL)

    def pause(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)

    def connect(self, host: str, port: int, seconds: float) -> str:
        """Connect to a TCP port. Return an empty string, or the error of each address that was tried."""
        try:
            addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as exc:
            return f"{host} has no address: {exc.strerror or exc}"
        tried = []
        for name in dict.fromkeys(str(address[0]) for *_kind, address in addresses):
            try:
                with socket.create_connection((name, port), timeout=seconds):
                    return ""
            except OSError as exc:
                tried.append(f"{name} port {port}: {exc.strerror or exc}")
        return "; ".join(tried)
