# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The program gpucluster-events: a service on each node that empties the node before an event of Azure."""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits

from . import events
from .metadata import Metadata
from .slurm import SECONDS, Slurm

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

CONFIG = "/etc/gpucluster/azure_events.json"
_LOOK = 10.0  # seconds between two queries of Slurm while nothing changes
_SLOWEST = 10.0  # seconds between two requests to a metadata service that refuses
_CHECK_SECONDS = 120
_CHECK_AGAIN = 60.0


class Watch:
    """What the program knows from one look to the next. A new process finds it again in Slurm and in Azure."""

    def __init__(
        self, settings: events.Settings, metadata: Metadata, slurm: Slurm, check: Runner, say: t.Callable[[str], None]
    ) -> None:
        """All access to Azure, Slurm and programs is injected."""
        self._settings = settings
        self._metadata = metadata
        self._slurm = slurm
        self._check = check
        self._say = say
        self._machine = ""
        self._events: list[events.Event] | None = None  # None means that Slurm must be queried
        self._next = 0.0
        self._requeued: set[str] = set()
        self._said: dict[str, str] = {}
        self._fails = 0

    def look(self, now: float) -> float:
        """Look once, and return the seconds until the next look. I(now) is by a clock that nobody can set."""
        try:
            self._machine = self._machine or self._metadata.machine()
            found = events.of_machine(events.parsed(self._metadata.events()), self._machine, self._settings.drain)
        except events.EventsError as exc:
            # Nothing is known: the node stays as it is.
            self._fails += 1
            self._tell("azure", str(exc))
            return min(self._settings.interval * float(2 ** min(self._fails, 8)), _SLOWEST)
        self._fails = 0
        self._tell("azure", f"{self._machine}: {events.reason(found) if found else 'no event'}")
        self._act(found, now)
        return self._settings.interval

    def _act(self, found: list[events.Event], now: float) -> None:
        """Do what the events need, at once after a change, and then from time to time."""
        if found == self._events and (not self._next or now < self._next):
            return
        self._events, self._next = found, now + _LOOK
        try:
            if self._done(found, now):
                self._next = 0.0  # nothing is left to do until the events change
        except events.EventsError as exc:
            self._tell("node", str(exc))

    def _done(self, found: list[events.Event], now: float) -> bool:
        """Take the steps that are possible now, and return whether nothing is left to do for these events."""
        state = self._slurm.state()
        plan = events.decide(self._settings, found, state, [], self._metadata.now())
        if plan.resume:
            return self._resume(now)
        if plan.drain:
            self._slurm.drain(plan.drain)
            self._tell("node", f"drained: {plan.drain}")
            state = self._slurm.state()
        if found:
            self._empty(found, state)
        return not found and not (state.ours and state.away)

    def _empty(self, found: list[events.Event], state: events.State) -> None:
        """Requeue the jobs that ask for it, and acknowledge the events of an idle node."""
        jobs = self._slurm.jobs()
        faults = [fault for job in self._requeued - {one.id for one in jobs} for fault in self._begin(job)]
        plan = events.decide(self._settings, found, state, jobs, self._metadata.now())
        faults += [fault for job in plan.requeue for fault in self._requeue(job)]
        if plan.start:
            self._metadata.start(plan.start)
            self._tell("node", f"the node is idle; acknowledged {', '.join(plan.start)}")
        if faults:
            raise events.EventsError("; ".join(faults))

    def _requeue(self, job: str) -> list[str]:
        """Requeue one job, and return what went wrong: another job must not wait for it."""
        try:
            self._slurm.requeue(job)
        except events.EventsError as exc:
            return [str(exc)]
        self._requeued.add(job)
        self._tell("node", f"requeued job {job}")
        return []

    def _begin(self, job: str) -> list[str]:
        """Let a requeued job that has left the node begin elsewhere now: Slurm's delay is two minutes."""
        self._requeued.discard(job)
        try:
            self._slurm.begin(job)
        except events.EventsError as exc:
            return [str(exc)]
        return []

    def _resume(self, now: float) -> bool:
        """Return the node to service if its check passes, and return whether that is done."""
        if self._settings.check:
            code, out, err = self._check(list(self._settings.check))
            if code:
                self._next = now + _CHECK_AGAIN
                said = " ".join((out or err).split())[:200]
                self._tell("node", f"the events are over, but the node stays drained: its check exited {code}: {said}")
                return False
        self._slurm.resume()
        self._tell("node", "the events are over; resumed")
        return True

    def _tell(self, about: str, text: str) -> None:
        """Log what changed. A fault that stays is one line."""
        if self._said.get(about) != text:
            self._said[about] = text
            self._say(text)


def read_settings(text: str, path: str) -> events.Settings:
    """Return the configuration; raise EventsError if it is not usable."""
    try:
        found = json.loads(text)
        settings = events.Settings(
            node=str(found["node"]),
            metadata=str(found["metadata"]),
            drain=tuple(found["drain"]),
            requeue=tuple(found["requeue"]),
            margin=float(found["margin"]),
            interval=float(found["interval"]),
            check=tuple(found["check"]),
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise events.EventsError(f"{path} is not a valid configuration: {exc!r}") from None
    if not settings.node or not settings.metadata.startswith("http://") or settings.interval < 1:
        raise events.EventsError(f"{path} needs a node, an address that begins with http://, and an interval from 1 s")
    return settings


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program until it is ended. Return 1 if its configuration is not usable."""
    parser = argparse.ArgumentParser(prog="gpucluster-events", description="Empty this node before an event of Azure.")
    parser.add_argument("--config", default=CONFIG, help="configuration (%(default)s)")
    parser.add_argument("--once", action="store_true", help="look once, and end")
    options = parser.parse_args(argv)
    forget_habits()
    run = feeding_runner(SECONDS)
    try:
        settings = read_settings(Host(run).read_required(options.config), options.config)
    except (events.EventsError, OSError) as exc:
        sys.stderr.write(f"gpucluster-events: {exc}\n")
        return 1
    metadata, slurm = Metadata(settings.metadata), Slurm(run, settings.node)
    watch = Watch(settings, metadata, slurm, feeding_runner(_CHECK_SECONDS), _say)
    pause = watch.look(time.monotonic())
    while not options.once:
        # The machines of a cluster must not ask at the same moment.
        time.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311
        pause = watch.look(time.monotonic())
    return 0
