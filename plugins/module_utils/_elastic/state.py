# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
What the program remembers: when it deallocated machines, and which wait for a person. In one file with a lock.

Times are those of the clock since boot, which nobody can set. After a restart, all of them count as now.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import time
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import steady, whole_file

from .azure import ElasticError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WINDOW = 600.0  # seconds of the limit
_LOCK_SECONDS, _PAUSE = 1800.0, 0.2  # Slurm does not wait for a call


class Memory:
    """The times of the last deallocations, the nodes that wait for a person, and why, for the monitoring."""

    def __init__(self, found: t.Any, boot: str, now: float) -> None:
        """Take the content of the file; a damaged one is no permission, so its limit counts as reached."""
        content = found if isinstance(found, dict) else {"times": [now] * 10}
        times, held, alarms = content.get("times") or [], content.get("held"), content.get("alarms")
        if not isinstance(times, list) or not all(isinstance(one, (int, float)) for one in times):
            times = [now] * 10
        same = content.get("boot") == boot
        self.boot = boot
        self.times = [float(one) if same and one <= now else now for one in times]
        self.times = [one for one in self.times if now - one < WINDOW]
        self.held = sorted(map(str, held)) if isinstance(held, list) else []
        self.alarms: dict[str, str] = dict(alarms) if isinstance(alarms, dict) else {}

    def room(self, count: int) -> int:
        """Return how many machines of a set of this size may be deallocated now."""
        return max(0, max(1, min(10, count // 4)) - len(self.times))


class Store:
    """The file, in a directory that only the user of Slurm can write. Two controllers may share it."""

    def __init__(
        self, directory: str, clock: Callable[[], float] = steady.seconds, boot: Callable[[], str] = steady.boot
    ) -> None:
        self._directory, self._clock, self._boot = Path(directory), clock, boot

    @contextlib.contextmanager
    def locked(self, seconds: float = _LOCK_SECONDS) -> Iterator[Memory]:
        """Yield the memory, and write it at the end, also after an error. One process at a time."""
        self._directory.mkdir(mode=0o700, exist_ok=True)  # a restored state directory has none
        with (self._directory / "lock").open("a", encoding="utf-8") as stream:
            _lock(stream, seconds)
            memory = Memory(self._read(), self._boot(), self._clock())
            try:
                yield memory
            finally:
                self.save(memory)

    def save(self, memory: Memory) -> None:
        """Write the file now."""
        text = json.dumps(vars(memory), indent=1, sort_keys=True) + "\n"
        whole_file.replace(str(self._directory / "state.json"), text.encode(), 0o600)

    def note(self, memory: Memory) -> None:
        """Count one deallocation, before it is asked for: the process may be killed."""
        memory.times.append(self._clock())
        self.save(memory)

    def _read(self) -> t.Any:
        try:
            return json.loads((self._directory / "state.json").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            return None


def _lock(stream: t.IO[str], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() >= deadline:
                raise ElasticError(f"another call has the lock for {seconds:g} s") from None
            time.sleep(_PAUSE)
        else:
            return
