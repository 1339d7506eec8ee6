# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""The state of one run: which task runs since when, what changed where, and the words that describe it."""

from __future__ import annotations

import typing as t

from . import text
from .last_run import LastRun, Left, Step

if t.TYPE_CHECKING:
    from collections.abc import Callable

# A task that takes less is not worth "5 of about 6 min".
_LONG_TASK = 10.0


class Tracker:
    """Takes the events of a run. Each costs the same for one host and for ten thousand."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin a run without a known last one."""
        self._clock = clock
        self._began = self._since = clock()
        self.last = LastRun([])
        self.steps: list[Step] = []
        self.changed: dict[str, list[int]] = {}
        self.failed: dict[str, str] = {}
        self._places: dict[str, int] = {}
        self._items, self._items_of = 0, ""

    def task(self, identity: str, name: str) -> None:
        """Note that a task starts; with the strategy free, it may run already on other hosts."""
        if identity in self._places:
            return
        self.finish()
        self._places[identity] = len(self.steps)
        self.steps.append(Step(text.short_name(name), 0.0))
        self._since = self._clock()
        self._items, self._items_of = 0, ""
        self.last.start(self.steps[-1].name)

    def play(self) -> None:
        """Note that a play, or the next batch of hosts of it, starts: its tasks run again."""
        self._places = {}

    def result(self, host: str, identity: str, changed: bool) -> None:
        """Note that a host finished a task."""
        places = self.changed.setdefault(host, [])
        if changed and identity in self._places:
            places.append(self._places[identity])

    def item(self, host: str) -> None:
        """Note that a host finished an item of a loop. The first host that does stands for all."""
        self._items_of = self._items_of or host
        self._items += host == self._items_of

    def failure(self, host: str, why: str) -> None:
        """Note why a host failed; a later failure of the same host replaces it."""
        name = text.plain(self.steps[-1].name, 60) if self.steps else "before the first task"
        self.failed[host] = f"{name}: {why}"

    def finish(self) -> float:
        """Note that the present task ended; return the seconds of the run."""
        if self.steps:
            self.steps[-1] = Step(self.steps[-1].name, self._clock() - self._since)
        return self._clock() - self._began

    def _left(self) -> Left | None:
        return self.last.left(self._since - self._began, self._clock() - self._since)

    def words(self) -> str:
        """Return the line: C(47 of about 61 tasks, 1 min 20 s left; now: Compile Slurm (5 of about 6 min))."""
        if not self.steps:
            return "starting"
        left, done = self._left(), len(self.steps)
        if left is None:
            line = f"{text.count(done, 'task')}, {text.duration(self._clock() - self._began)} so far"
        else:
            line = f"{done} of about {done + left.tasks} tasks, {text.duration(left.seconds)} left"
        return f"{line}; now: {text.plain(self.steps[-1].name, 70)}{self._present(left)}"

    def _present(self, left: Left | None) -> str:
        """Return how far the present task is, where it is a long one."""
        elapsed = self._clock() - self._since
        usual = left.present if left else 0.0
        said: list[str] = []
        if max(usual, elapsed) >= _LONG_TASK:
            known = usual >= _LONG_TASK and elapsed <= 1.1 * usual
            time = text.part_of(elapsed, usual) if known else f"for {text.duration(elapsed)}"
            said = [time, f"{text.count(self._items, 'item')} done" if self._items else ""]
        said = [word for word in said if word]
        return f" ({', '.join(said)})" if said else ""
