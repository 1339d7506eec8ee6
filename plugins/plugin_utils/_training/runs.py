# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the log of the trainer: one JSON object per line, of several attempts of one job."""

from __future__ import annotations

import dataclasses
import json
import typing as t

Event = dict[str, t.Any]


@dataclasses.dataclass
class Run:
    """What a log says. A step that was repeated after a resume counts as it was repeated."""

    starts: list[Event] = dataclasses.field(default_factory=list)
    resumes: list[Event] = dataclasses.field(default_factory=list)
    steps: dict[int, Event] = dataclasses.field(default_factory=dict)
    ranks: list[Event] = dataclasses.field(default_factory=list)
    checkpoints: list[Event] = dataclasses.field(default_factory=list)
    failed_checkpoints: list[Event] = dataclasses.field(default_factory=list)
    stops: list[Event] = dataclasses.field(default_factory=list)
    diverged: Event | None = None
    result: Event | None = None
    # The step at which each attempt after the first one began, and the last step before.
    lost: list[tuple[int, int]] = dataclasses.field(default_factory=list)
    # Steps that were done twice: the event of the first time, and the one of the second time.
    repeated: list[tuple[Event, Event]] = dataclasses.field(default_factory=list)
    broken_lines: int = 0
    # When the first and the last event were written, in seconds since 1970.
    begun: float | None = None
    ended: float | None = None

    @property
    def last_step(self) -> int:
        """Return the last step that was done; zero if there is none."""
        return max(self.steps, default=0)

    @property
    def hosts(self) -> list[str]:
        """Return the host of each rank."""
        return list(self.starts[-1].get("hosts") or []) if self.starts else []

    def mean(self, first: int, last: int, name: str = "step_ms") -> float | None:
        """Return the mean of a value over the steps of a range; nothing unless all of them are there."""
        found = [self.steps[step][name] for step in range(first, last + 1) if step in self.steps]
        return sum(found) / len(found) if len(found) == last - first + 1 else None


_LISTS = {
    "start": "starts",
    "resume": "resumes",
    "ranks": "ranks",
    "checkpoint": "checkpoints",
    "checkpoint_failed": "failed_checkpoints",
    "stop": "stops",
}
_COUNTS = {"start": ("first_step",), "step": ("step",)}
_MOST_TIME = 10**11
_MOST = 10**8  # above each number of steps, and each time in milliseconds


def events(text: str) -> tuple[list[Event], int]:
    """Return the events of a log, and how many lines are none, such as the last one of a killed rank."""
    found, broken = [], 0
    for line in filter(str.strip, text.splitlines()):
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if isinstance(event, dict) and isinstance(event.get("event"), str) and _readable(event):
            found.append(event)
        else:
            broken += 1
    return found, broken


def _readable(event: Event) -> bool:
    """Return whether the counts, times and the loss of an event are such; a loss can be NaN."""
    counts = [event.get(name) for name in _COUNTS.get(event["event"], ())]
    ranks = event.get("compute_ms", 0.0)
    times = [event.get("step_ms", 0.0), *(ranks if isinstance(ranks, list) else [ranks])]
    return (
        all(isinstance(count, int) and 0 < count < _MOST for count in counts)
        and all(isinstance(time, (int, float)) and 0 <= time < _MOST for time in times)
        and isinstance(event.get("loss", 0.0), (int, float))
    )


def read(text: str) -> Run:
    """Return the run of a log."""
    found, broken = events(text)
    run = Run(broken_lines=broken)
    for event in found:
        add(run, event)
    return run


def add(run: Run, event: Event) -> None:
    """Add one event, in the order of the log."""
    kind = event["event"]
    when = event.get("time")
    if isinstance(when, (int, float)) and 0 < when < _MOST_TIME:
        run.begun, run.ended = run.begun or when, when
    if kind == "start" and run.steps:
        run.lost.append((int(event["first_step"]), run.last_step))
    if kind == "step":
        number = int(event["step"])
        if number in run.steps:
            run.repeated.append((run.steps[number], event))
        run.steps[number] = event
    elif kind == "diverged":
        run.diverged = event
    elif kind == "result":
        run.result = event
    elif kind in _LISTS:
        getattr(run, _LISTS[kind]).append(event)
