# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This package is PRIVATE to the collection. It may change or vanish at any time.
"""
The time that a run still needs, by the earlier run that it resembles most.

A run of site.yml on new machines takes ten times as long as one that changes nothing, and a run with --limit skips
plays. So no average of earlier runs is right. Each earlier run is followed task by task: it loses agreement where
this run skips a task, has another one, or changes what it did not change. The best one gives the tasks that are left,
and its seconds are scaled by how fast this run was on the tasks that both have.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from .history import Key, Run

# Tasks of this run that outweigh what was known before it.
PRIOR_TASKS = 6.0
# When the pace of this run outweighs the expected one, as a part of the whole run. More errs on a machine that is
# faster than before, and a pace that forgets the first tasks errs more on runs that were recorded under load.
PACE = 0.02
SLOWEST, FASTEST = 6.0, 1 / 6


@dataclasses.dataclass(frozen=True)
class Estimate:
    """Seconds that are left, tasks of the whole run, and the seconds of the task that runs."""

    left: float
    tasks: int
    task_seconds: float


class Candidate:
    """An earlier run, and how well the present one follows it."""

    def __init__(self, run: Run, prior: float, pace: float | None = 1.0) -> None:
        """Begin before the first task; C(prior) is from 0 to 1, and C(pace) what to expect of this machine if known."""
        self.steps = run.steps
        self.after = [*itertools.accumulate((step.seconds for step in reversed(run.steps)), initial=0.0)][::-1]
        self.places: dict[Key, list[int]] = {}
        for place, step in enumerate(run.steps):
            self.places.setdefault(step.key, []).append(place)
        self.place = -1
        self.known = False
        self.agreed = prior * PRIOR_TASKS
        self.judged = PRIOR_TASKS
        self.spent = max(self.after[0], 1.0) * PACE
        self.took = self.spent * (pace or 1.0)

    def start(self, key: Key) -> None:
        """Go to the next task of this name; what is skipped on the way does not agree."""
        places = self.places.get(key, [])
        found = bisect.bisect_right(places, self.place)
        self.known = found < len(places)
        if not self.known:
            self.judged += 1
            return
        self.judged += places[found] - self.place - 1
        self.place = places[found]

    def finish(self, seconds: float, changed: bool) -> None:
        """Compare the task that ends with the same task of the earlier run."""
        if not self.known:
            return
        step = self.steps[self.place]
        self.judged += 1
        self.agreed += 1.0 if step.changed == changed else 0.25
        self.spent += step.seconds
        self.took += seconds

    @property
    def agreement(self) -> float:
        """The part of the tasks that agree."""
        return self.agreed / self.judged

    @property
    def speed(self) -> float:
        """Seconds of this run for each second of the earlier one."""
        return min(max(self.took / self.spent, FASTEST), SLOWEST)

    def estimate(self, elapsed: float, done: int, reported: float | None) -> Estimate:
        """Return what is left, with the seconds of the present task so far and, if it reports them, at its end."""
        present = self.steps[self.place].seconds * self.speed if self.known else elapsed
        present = reported or present
        left = max(present - elapsed, 0.0) + self.after[self.place + 1] * self.speed
        tasks = done + 1 + len(self.steps) - self.place - 1
        return Estimate(left, tasks, present)


class Estimator:
    """Follows a run. A task costs one step in each of a dozen earlier runs, however many hosts there are."""

    def __init__(self, candidates: Iterable[Candidate]) -> None:
        """Begin before the first task; the first of equal candidates wins."""
        self.candidates = list(candidates)

    def start(self, key: Key) -> None:
        """Note that a task starts."""
        for candidate in self.candidates:
            candidate.start(key)

    def finish(self, seconds: float, changed: bool) -> None:
        """Note that a task ended on all hosts."""
        for candidate in self.candidates:
            candidate.finish(seconds, changed)

    def estimate(self, elapsed: float, done: int, reported: float | None = None) -> Estimate | None:
        """Return what is left, or None where no earlier run resembles this one."""
        if not self.candidates:
            return None
        best = max(self.candidates, key=lambda candidate: candidate.agreement)
        if best.agreement < 0.2:
            return None
        return best.estimate(elapsed, done, reported)


def candidates(runs: list[Run], shipped: list[Run], options: str, kind: str, plays: Collection[str]) -> list[Candidate]:
    """Return what a run may resemble: the runs of this playbook, newest first, and the shipped ones of its plays."""
    # After a run that finished, the next one with the same options is expected to change little.
    settled = any(run.options == options for run in runs) and "check" not in kind
    found = [Candidate(run, _prior(run, options, kind, settled)) for run in runs]
    for run in shipped:
        part = dataclasses.replace(run, steps=[step for step in run.steps if step.play in plays])
        if part.steps:
            found.append(Candidate(part, 0.9 * _prior(part, options, kind, settled), _pace(runs, shipped)))
    return found


def _pace(runs: list[Run], shipped: list[Run]) -> float | None:
    """Return the seconds of this machine for each second of the shipped runs, by the tasks that change nothing."""
    own = {step.key: step.seconds for run in reversed(runs) for step in run.steps if not step.changed}
    theirs = {step.key: step.seconds for run in shipped for step in run.steps if not step.changed}
    common = own.keys() & theirs.keys()
    seconds = sum(theirs[key] for key in common)
    return sum(own[key] for key in common) / seconds if seconds > 1 else None


def _prior(run: Run, options: str, kind: str, settled: bool) -> float:
    """Return how much a run with these options is expected to resemble an earlier one."""
    value = 1.0 if run.options == options else 0.8
    value *= 1.0 if run.kind == kind else 0.5
    return value * (0.5 if settled and run.changes else 1.0)
