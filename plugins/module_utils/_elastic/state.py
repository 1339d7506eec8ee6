# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
What the program remembers between two passes, in one file with a lock.

A pass can be killed at any point. So the file has no step of a pass: only what a cloud and Slurm cannot tell.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
import typing as t
from pathlib import Path

from .cloud import ElasticError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

LOCK_SECONDS = 60.0
_PAUSE = 0.1


class Memory:
    """
    The content of the file.

    C(seen) has the first time of each unexpected machine and node, C(held) the time and cause of the last failure of
    each set, C(assigned) the node of each machine whose name the cloud chose, and C(operations) a request in progress.
    """

    def __init__(self, found: t.Any = None) -> None:
        """Ignore content of another form: everything in it can be found again."""
        content = found if isinstance(found, dict) else {}
        self.seen: dict[str, float] = _mapping(content.get("seen"))
        self.held: dict[str, list[t.Any]] = _mapping(content.get("held"))
        self.assigned: dict[str, str] = _mapping(content.get("assigned"))
        self.operations: dict[str, str] = _mapping(content.get("operations"))

    def text(self) -> str:
        """Return the content as JSON."""
        return json.dumps(vars(self), indent=1, sort_keys=True) + "\n"

    def lasting(self, keys: set[str], kind: str, now: float, seconds: float) -> set[str]:
        """Return the keys of a kind that are known for some seconds, and forget those that are no longer given."""
        prefix = f"{kind}:"
        kept = {name: at for name, at in self.seen.items() if not name.startswith(prefix)}
        kept.update({prefix + key: self.seen.get(prefix + key, now) for key in keys})
        self.seen = kept
        # A clock that was set back must not hold anything forever.
        return {key for key in keys if abs(now - kept[prefix + key]) >= seconds}


class Store:
    """The file, in a directory that only the user of Slurm can write. Two controllers share it."""

    def __init__(self, host: Host, directory: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self._host = host
        self._directory = directory
        self._sleep = sleep

    @contextlib.contextmanager
    def locked(self, seconds: float = LOCK_SECONDS) -> Iterator[Memory]:
        """Yield the memory, and write it if the pass ended without an error. One process at a time."""
        with (Path(self._directory) / "lock").open("a", encoding="utf-8") as stream:
            self._lock(stream, seconds)
            memory = self._read()
            before = memory.text()
            yield memory
            if memory.text() != before:
                self.save(memory)

    def save(self, memory: Memory) -> None:
        """Write the file now."""
        self._host.write(f"{self._directory}/state.json", memory.text(), 0o600)

    def _lock(self, stream: t.IO[str], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= deadline:
                    raise ElasticError(f"another pass has the lock for {seconds:g} s") from None
                self._sleep(_PAUSE)
            else:
                return

    def _read(self) -> Memory:
        try:
            return Memory(json.loads(self._host.read(f"{self._directory}/state.json") or "{}"))
        except ValueError:
            return Memory()


def _mapping(value: t.Any) -> dict[str, t.Any]:
    return dict(value) if isinstance(value, dict) else {}
