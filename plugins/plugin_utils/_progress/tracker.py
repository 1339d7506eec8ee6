# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""The state of one run: which task runs since when, what changed where, and the words that describe it."""

from __future__ import annotations

import typing as t

from . import text
from .estimate import Estimate, Estimator
from .history import MOST_STEPS, Step

if t.TYPE_CHECKING:
    from collections.abc import Callable

# A task that takes less is not worth "5 of about 6 min".
_LONG_TASK = 10.0


class Tracker:
    """Takes the events of a run. Each costs the same for one host and for ten thousand."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin a run without known earlier runs."""
        self._clock = clock
        self.began = clock()
        self.estimator = Estimator([])
        self.steps: list[Step] = []
        self.changed: dict[str, list[int]] = {}
        self.failed: dict[str, str] = {}
        self._play = ""
        self._since = 0.0
        self._places: dict[str, int] = {}
        self._running = False
        self._inside: tuple[float, str] = (0.0, "")
        self._told = 0.0
        self._items = 0
        self._items_of = ""

    def play(self, name: str) -> None:
        """Note that a play, or the next batch of hosts of it, starts."""
        self._end()
        self._play = name.strip()
        self._places = {}

    def task(self, identity: str, name: str) -> None:
        """Note that a task starts; with the strategy free, it may run already on other hosts."""
        if identity in self._places:
            return
        self._end()
        self._places[identity] = len(self.steps)
        self.steps.append(Step(self._play, text.task_name(name), 0.0))
        self._since = self._clock()
        self._running = True
        self.estimator.start(self.steps[-1].key)

    def result(self, host: str, identity: str, changed: bool) -> None:
        """Note that a host finished a task."""
        if changed and identity in self._places:
            place = self._places[identity]
            self.steps[place].changed = True
            self.changed.setdefault(host, []).append(place)
        else:
            self.changed.setdefault(host, [])

    def item(self, host: str) -> None:
        """Note that a host finished an item of a loop. The first host that does stands for all."""
        self._items_of = self._items_of or host
        self._items += host == self._items_of

    def failure(self, host: str, why: str) -> None:
        """Note why a host failed; a later failure of the same host replaces it."""
        name = text.plain(text.short_name(self.steps[-1].task), 60) if self.steps else "before the first task"
        self.failed[host] = f"{name}: {why}"

    def inside(self, fraction: float, words: str) -> None:
        """Note what the present task reports of itself; a fraction of 0 is unknown."""
        if fraction != self._inside[0]:
            self._told = self._clock() - self._since
        self._inside = (min(max(fraction, 0.0), 1.0), words)

    def finish(self) -> float:
        """End the last task; return the seconds of the run."""
        self._end()
        return self._clock() - self.began

    def _end(self) -> None:
        if self._running:
            step = self.steps[-1]
            step.seconds = self._clock() - self._since
            self.estimator.finish(step.seconds, step.changed)
        self._running = False
        self._inside = (0.0, "")
        self._items, self._items_of = 0, ""

    def left(self) -> float | None:
        """Return the seconds that are left, or None where nothing is known."""
        found = self._estimate()
        return found.left if found else None

    def _estimate(self) -> Estimate | None:
        fraction, elapsed = self._inside[0], self._clock() - self._since
        # The start of a long step is not typical of it.
        said = self._told / fraction if fraction >= 0.05 and self._told >= _LONG_TASK else None
        return self.estimator.estimate(elapsed if self._running else 0.0, len(self.steps) - self._running, said)

    def words(self) -> str:
        """Return the line: C(47 of about 61 tasks, 1 min 20 s left; now: Compile Slurm (5 of about 6 min))."""
        if not self.steps:
            return "starting"
        found = self._estimate()
        if found is None:
            line = f"{text.count(len(self.steps), 'task')}, {text.duration(self._clock() - self.began)} so far"
        else:
            most = max(found.tasks, len(self.steps))
            line = f"{len(self.steps)} of about {most} tasks, {text.duration(found.left)} left"
        name = text.plain(text.short_name(self.steps[-1].task), 70)
        return f"{line}; now: {name}{self._present(found)}"

    def _present(self, found: Estimate | None) -> str:
        """Return how far the present task is, where it is a long one."""
        elapsed, words = self._clock() - self._since, self._inside[1]
        usual = found.task_seconds if found and found.task_seconds >= _LONG_TASK else 0.0
        items = f"{text.count(self._items, 'item')} done" if self._items and max(usual, elapsed) >= _LONG_TASK else ""
        said = [word for word in (items, words) if word]
        if self._running and usual and elapsed <= 1.1 * usual:
            said.insert(0, text.part_of(elapsed, usual))
        elif self._running and elapsed >= _LONG_TASK:
            said.insert(0, f"for {text.duration(elapsed)}")
        return f" ({', '.join(said)})" if said else ""

    def recordable(self) -> bool:
        """Return whether the run can serve as an example for later ones."""
        return 0 < len(self.steps) <= MOST_STEPS
