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

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import steady

from .cloud import GAP, ElasticError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

LOCK_SECONDS = 60.0
_PAUSE = 0.1


class Memory:
    """
    The content of the file. It may be lost or old: nothing in it alone lets a machine end.

    C(seen) has the first and the last time and the number of times of each unexpected machine and node, C(held) the
    time and cause of the last failure of each set, C(assigned) the node of each machine whose name the cloud chose,
    C(operations) a request in progress, C(known) the machines of each set with their nodes, C(starting) the nodes
    whose machines have not registered, C(failed) the starts without a registration, and C(alarms) why a set stopped.
    Times count since C(boot).
    """

    def __init__(self, found: t.Any = None, boot: str = "") -> None:
        """Ignore content of another form, and times of another boot: everything can be found again."""
        content = found if isinstance(found, dict) else {}
        same = content.get("boot") == boot
        self.boot = boot
        self.seen: dict[str, list[float]] = _mapping(content.get("seen"), _times) if same else {}
        self.held: dict[str, list[t.Any]] = _mapping(content.get("held"), _failure) if same else {}
        self.assigned: dict[str, str] = _mapping(content.get("assigned"), _text)
        self.operations: dict[str, str] = _mapping(content.get("operations"), _text)
        self.known: dict[str, dict[str, str]] = _mapping(content.get("known"), lambda one: isinstance(one, dict))
        self.known = {name: _mapping(one, _text) for name, one in self.known.items()}
        self.starting: dict[str, list[str]] = _mapping(content.get("starting"), _texts)
        self.failed: dict[str, int] = _mapping(content.get("failed"), lambda one: isinstance(one, int))
        self.alarms: dict[str, str] = _mapping(content.get("alarms"), _text)

    def text(self) -> str:
        """Return the content as JSON."""
        return json.dumps(vars(self), indent=1, sort_keys=True) + "\n"

    def lasting(self, keys: set[str], kind: str, now: float, seconds: float) -> set[str]:
        """
        Return the keys of a kind that were given twice and for some seconds; forget those that are no longer given.

        After a long time without a pass, which an old file looks like, the period begins again.
        """
        prefix = f"{kind}:"
        kept = {name: entry for name, entry in self.seen.items() if not name.startswith(prefix)}
        old = set()
        for key in keys:
            first, last, count = self.seen.get(prefix + key, (now, now, 0))
            if not 0 <= now - last <= GAP:
                first, count = now, 0
            kept[prefix + key] = [first, now, count + 1]
            if count and now - first >= seconds:
                old.add(key)
        self.seen = kept
        return old


class Store:
    """The file, in a directory that only the user of Slurm can write. Two controllers share it."""

    def __init__(
        self,
        host: Host,
        directory: str,
        sleep: Callable[[float], None] = time.sleep,
        boot: Callable[[], str] = steady.boot,
    ) -> None:
        self._host = host
        self._directory = directory
        self._sleep = sleep
        self._boot = boot

    @contextlib.contextmanager
    def locked(self, seconds: float = LOCK_SECONDS) -> Iterator[Memory]:
        """Yield the memory, and write it if the pass ended without an error. One process at a time."""
        # A restored state directory has none.
        Path(self._directory).mkdir(mode=0o700, exist_ok=True)
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
            found = json.loads(self._host.read(f"{self._directory}/state.json") or "{}")
        except ValueError:
            found = None
        return Memory(found, self._boot())


def _mapping(value: t.Any, fits: Callable[[t.Any], bool]) -> dict[str, t.Any]:
    """Return the entries of a mapping that have the right form."""
    return {key: one for key, one in value.items() if fits(one)} if isinstance(value, dict) else {}


def _text(one: t.Any) -> bool:
    return isinstance(one, str)


def _texts(one: t.Any) -> bool:
    return isinstance(one, list) and all(map(_text, one))


def _times(one: t.Any) -> bool:
    return isinstance(one, list) and len(one) == 3 and all(isinstance(value, (int, float)) for value in one)


def _failure(one: t.Any) -> bool:
    return isinstance(one, list) and len(one) == 2 and isinstance(one[0], (int, float)) and isinstance(one[1], str)
