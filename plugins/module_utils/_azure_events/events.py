# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the events of Azure, and decide what to do. Pure functions; times are seconds since 1970."""

from __future__ import annotations

import email.utils
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Sequence

KINDS = ("Preempt", "Terminate", "Reboot", "Redeploy", "Freeze")
LEADER = "Azure event:"
_LONGEST = 240


class EventsError(Exception):
    """Nothing is known about the events, or Slurm did not do what was asked; the message says why."""


class Settings(t.NamedTuple):
    """The configuration of the program. Periods are in seconds."""

    node: str
    metadata: str
    drain: tuple[str, ...]
    requeue: tuple[str, ...]
    margin: float
    interval: float
    check: tuple[str, ...]


class Event(t.NamedTuple):
    """One event. C(not_before) is None if it has begun, or if Azure names no time."""

    id: str
    kind: str
    status: str
    resources: tuple[str, ...]
    not_before: float | None


class Job(t.NamedTuple):
    """A job that uses the node."""

    id: str
    state: str
    requeues: bool

    @property
    def ends(self) -> bool:
        """Return whether the job ends already, so that it cannot be requeued."""
        return self.state == "COMPLETING"


class State(t.NamedTuple):
    """The node in Slurm. C(ours) is a drain by this program; C(away): it is down, or Slurm reboots it."""

    drained: bool
    ours: bool
    away: bool


class Plan(t.NamedTuple):
    """What to do now, in this order."""

    drain: str = ""
    requeue: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    resume: bool = False


def parsed(document: t.Any) -> list[Event]:
    """Return the events of a document. Raise EventsError if it is none, because then nobody knows the events."""
    events = document.get("Events") if isinstance(document, dict) else None
    if not isinstance(events, list) or not all(isinstance(one, dict) and one.get("EventId") for one in events):
        raise EventsError(f"the metadata service returned no list of events: {str(document)[:200]}")
    return [_event(one) for one in events]


def _event(found: dict[str, t.Any]) -> Event:
    status = str(found.get("EventStatus") or "Scheduled")
    resources = found.get("Resources")
    if not isinstance(resources, list):
        raise EventsError(f"the event {found['EventId']} has no list of machines: {str(found)[:200]}")
    return Event(
        id=str(found["EventId"]),
        kind=str(found.get("EventType") or ""),
        status=status,
        resources=tuple(map(str, resources)),
        not_before=None if status == "Started" else time_of(found.get("NotBefore")),
    )


def time_of(text: t.Any) -> float | None:
    """Return a time such as C(Mon, 19 Sep 2016 18:29:47 GMT), or None for anything else."""
    try:
        return email.utils.parsedate_to_datetime(str(text or "")).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def of_machine(events: Sequence[Event], machine: str, kinds: Sequence[str]) -> list[Event]:
    """Return the events of these kinds that concern a machine. Other machines of a placement group are listed, too."""
    name = machine.lower()
    return [one for one in events if one.kind in kinds and name in map(str.lower, one.resources)]


def reason(events: Sequence[Event]) -> str:
    """Return the reason of the drain."""
    return f"{LEADER} {'; '.join(map(_text, events))}".replace('"', "'")[:_LONGEST]


def _text(event: Event) -> str:
    when = f" not before {email.utils.formatdate(event.not_before, usegmt=True)}" if event.not_before else ""
    return f"{event.kind} {event.id}{when}"


def decide(settings: Settings, events: Sequence[Event], state: State, jobs: Sequence[Job], now: float) -> Plan:
    """
    Return what to do. The events are those of this machine.

    A drain of somebody else stays, and is no permission to begin an event. Jobs are requeued only from a drained node,
    because they would start here again.
    """
    if not events:
        return Plan(resume=state.ours and not state.away)
    if not state.drained:
        return Plan() if state.away else Plan(drain=reason(events))
    due = any(_due(one, settings, now) for one in events)
    return Plan(
        requeue=tuple(job.id for job in jobs if job.requeues and not job.ends) if due else (),
        start=_to_start(events) if state.ours and not jobs else (),
    )


def _due(event: Event, settings: Settings, now: float) -> bool:
    """Return whether jobs must go now: there is no time to lose before a preemption, or the time is over."""
    if event.kind not in settings.requeue:
        return False
    return event.kind == "Preempt" or event.not_before is None or now >= event.not_before - settings.margin


def _to_start(events: Sequence[Event]) -> tuple[str, ...]:
    """Return the events to acknowledge. That counts for all machines of an event, so this must be the only one."""
    return tuple(one.id for one in events if one.status == "Scheduled" and len(one.resources) == 1)
