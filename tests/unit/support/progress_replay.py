# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replays the recorded events of runs of site.yml, and compares the estimates on the way with what the run took."""

from __future__ import annotations

import dataclasses
import json
import random
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import estimate, history
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress.tracker import Tracker

STREAMS = Path(__file__).parents[1] / "fixtures/progress"


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the seconds."""
        return self.now


@dataclasses.dataclass
class Replay:
    """The end of a run as it was estimated at each event, by seconds; and what the run became."""

    seconds: float
    tracker: Tracker
    ends: list[tuple[float, float]]
    kind: str = ""

    def error(self, after: float) -> float:
        """Return the largest error of the estimated end from this part of the run on, as a part of the run."""
        return max(abs(end - self.seconds) for at, end in self.ends if at >= after * self.seconds) / self.seconds

    def as_run(self, options: str = "site") -> history.Run:
        """Return what the callback records of the run."""
        return history.Run(self.tracker.steps, options, self.kind)


def stream(name: str) -> list[t.Any]:
    """Return the events of a recorded run: seconds, kind, and what the kind needs."""
    return list(json.loads((STREAMS / f"{name}.json").read_text(encoding="utf-8")))


def replay(
    events: list[t.Any],
    runs: list[history.Run],
    shipped: list[history.Run],
    options: str = "site",
    kind: str = "",
    every: float = 1.0,
) -> Replay:
    """Replay events as the callback receives them, and ask each second for the time that is left."""
    clock = Clock()
    tracker = Tracker(clock)
    plays = {event[2] for event in events if event[1] == "play"}
    tracker.estimator = estimate.Estimator(estimate.candidates(runs, shipped, options, kind, plays))
    ends: list[tuple[float, float]] = []
    asked = 0.0
    for event in events:
        while asked + every < event[0]:
            clock.now = asked = asked + every
            left = tracker.left()
            if left is not None:
                ends.append((clock.now, clock.now + left))
        clock.now = event[0]
        _take(tracker, event)
    return Replay(events[-1][0], tracker, ends, kind)


def _take(tracker: Tracker, event: list[t.Any]) -> None:
    __, kind, *rest = event
    if kind == "play":
        tracker.play(rest[0])
    elif kind == "task":
        tracker.task(rest[0], rest[1])
    elif kind == "result":
        identity, host, changed = rest
        tracker.result(host, identity, bool(changed))
    else:
        tracker.finish()


def at_pace(events: list[t.Any], scale: float, noise: float, seed: int, later: float | None = None) -> list[t.Any]:
    """
    Return a run on a machine that is slower by C(scale), with tasks that vary by C(noise).

    From the middle of its work on, the machine is slower by C(later) instead.
    """
    chance = random.Random(seed)
    now = before = 0.0
    varies = 1.0
    found = []
    for when, kind, *rest in events:
        if kind == "task":
            varies = chance.lognormvariate(0, noise)
        first_half = later is None or before < events[-1][0] / 2
        now += (when - before) * varies * (scale if first_half else later or scale)
        before = when
        found.append([now, kind, *rest])
    return found


def seconds_of_an_event(hosts: int, runs: list[history.Run], clock: t.Callable[[], float]) -> float:
    """Return the seconds of one event of a run in which five tasks change each host."""
    events = stream("second")
    tracker = Tracker(clock)
    tracker.estimator = replay(events, runs, history.read(history.SHIPPED)).tracker.estimator
    tracker.play("Configure every machine and its users")
    names = [f"gpu{number}" for number in range(hosts)]
    tasks = [event for event in events if event[1] == "task"][:5]
    began = clock()
    for task in tasks:
        tracker.task(task[2], task[3])
        for name in names:
            tracker.result(name, task[2], True)
        tracker.words()
    return (clock() - began) / (len(tasks) * (hosts + 2))
