# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What the code for file systems needs of a machine: files, programs, network. Tests hand in another one."""

from __future__ import annotations

import os
import socket
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Runner = Callable[[Sequence[str]], tuple[int, str, str]]


class StorageError(Exception):
    """What is wanted cannot be done; the message says what to change."""


class Machine:
    """The machine itself."""

    def __init__(self, run: Runner) -> None:
        self.run = run

    def read(self, path: str) -> str:
        """Return the text of a file; empty if there is no such file."""
        try:
            return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            return ""

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Replace a file in one step; a crash leaves the old one or the new one."""
        target = Path(path)
        target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        fresh = target.with_name(f".{target.name}.gpucluster")
        with fresh.open("w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        fresh.chmod(mode)
        fresh.replace(target)

    def remove(self, path: str) -> None:
        """Remove a file that may be missing."""
        Path(path).unlink(missing_ok=True)

    def entries(self, path: str) -> list[str] | None:
        """Return the names in a folder, or None if there is no such folder."""
        try:
            return sorted(os.listdir(path))  # noqa: PTH208
        except FileNotFoundError:
            return None

    def make_folder(self, path: str) -> None:
        """Make a folder and its parents."""
        Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)

    def head(self, path: str, size: int) -> bytes:
        """Return the first bytes of a disk."""
        with Path(path).open("rb") as stream:
            return stream.read(size)

    def real_path(self, path: str) -> str:
        """Return where a chain of links ends."""
        return os.path.realpath(path)

    def connect(self, host: str, port: int, seconds: float) -> str:
        """Try to reach a TCP port; return an empty string or why it failed, with the address that was tried."""
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
