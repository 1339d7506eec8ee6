# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Decide what to do about a cluster that shall delete itself. Pure functions; times are seconds since 1970."""

from __future__ import annotations

import calendar
import json
import re
import time
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping

TAG = "gpucluster_delete_after"
CLUSTER_TAG = "gpucluster_cluster"
NEVER = "never"
NOTICE = 3600.0  # seconds between the first warning and the deletion, whatever the tag says
_PERIOD = re.compile(r"([1-9][0-9]{0,3})([dh])")
_UNITS = {"d": 86400, "h": 3600}
_FORMAT = "%Y-%m-%dT%H:%M:%SZ"


class ExpiryError(Exception):
    """Nothing may be deleted now; the message says why and what to do."""


class Settings(t.NamedTuple):
    """The configuration of the program."""

    subscription_id: str
    resource_group: str
    cluster: str
    period: str
    wait_hours: float
    warn_hours: tuple[float, ...]
    client_id: str
    metadata: str
    resource_manager: str

    @property
    def group(self) -> str:
        """Return the path of the resource group."""
        return f"/subscriptions/{self.subscription_id}/resourceGroups/{self.resource_group}"


class State(t.NamedTuple):
    """What earlier runs did: the period and the last value of the tag, and the warnings about this value."""

    period: str = ""
    tag: str = ""
    first_warned: float = 0.0
    hours_said: float = 0.0

    def seen(self, period: str, tag: str) -> State:
        """Return the state for a value of the tag; the warnings about another value do not count."""
        return self._replace(period=period) if self.tag == tag else State(period, tag)


def remembered(text: str, now: float) -> State:
    """Return what earlier runs wrote. Warnings of a damaged file, or of a time that is yet to come, do not count."""
    try:
        found = json.loads(text or "{}")
        period, value = found.get("period", ""), found.get("tag", "")
        first, hours = (float(found.get(name, 0)) for name in ("first_warned", "hours_said"))
    except (ValueError, TypeError, AttributeError, OverflowError):
        return State()
    if not (isinstance(period, str) and isinstance(value, str)):
        return State()
    # No comparison with NaN, which is a number in JSON, is true.
    return State(period, value, first, hours) if 0 <= first <= now and hours >= 0 else State(period, value)


class Step(t.NamedTuple):
    """What to do now. The action is set, off, later, warn, wait or delete; at is the time of the deletion."""

    action: str
    at: float = 0.0
    text: str = ""
    tag: str = ""


def seconds(period: str) -> float:
    """Return the seconds of a period such as 7d or 12h."""
    match = _PERIOD.fullmatch(period.strip())
    if not match:
        raise ExpiryError(f"the period is {period!r}; allowed: a number of days or hours, such as 7d or 12h")
    return float(int(match[1]) * _UNITS[match[2]])


def printed(at: float) -> str:
    """Return a time as it stands in the tag, in UTC."""
    return time.strftime(_FORMAT, time.gmtime(at))


def parsed(text: str) -> float:
    """Return the time of a tag; seconds and their fraction may be missing."""
    clean = re.sub(r"\.\d+(?=Z|$)", "", text.strip())
    for form in (_FORMAT, "%Y-%m-%dT%H:%MZ", "%Y-%m-%d"):
        try:
            return float(calendar.timegm(time.strptime(clean, form)))
        except ValueError:
            continue
    raise ExpiryError(
        f"the tag {TAG} is {text!r}; allowed: a time in UTC such as 2026-12-01T18:00:00Z, or {NEVER}. Nothing is"
        " deleted"
    )


def tag(tags: Mapping[str, t.Any] | None, name: str) -> str:
    """Return the value of a tag, or an empty string; Azure ignores the case of names."""
    return next((str(value) for key, value in (tags or {}).items() if key.lower() == name.lower()), "")


def wanted_tag(settings: Settings, current: str, state: State, now: float) -> str:
    """
    Return the value that the tag must have.

    The first run, and a change of the period, count from now. A tag that somebody removed, or that a deployment set to
    the period, gets its last value back: only the value never cancels a deletion.
    """
    changed = bool(state.period) and state.period != settings.period
    if current and not _PERIOD.fullmatch(current) and not changed:
        return current
    known = state.tag if not changed else ""
    return known or printed(now + seconds(settings.period))


def decide(settings: Settings, current: str, state: State, now: float, jobs: int | None) -> Step:
    """
    Return what to do about the value of the tag.

    Jobs is the number of jobs that run, or None if nobody knows; then it counts as one. A deletion follows the first
    warning after an hour at least, also if the tag names an earlier time.
    """
    value = wanted_tag(settings, current, state, now)
    if value != current:
        return Step("set", text=f"{settings.cluster}: the tag {TAG} becomes {value}", tag=value)
    if current.lower() == NEVER:
        return Step("off", text=f"{settings.cluster} is not deleted: the tag {TAG} is {current}", tag=current)
    wanted = parsed(current)
    first = state.seen(settings.period, current).first_warned or now
    at = max(wanted, first + NOTICE)
    text = f"The cluster {settings.cluster} with all its data is deleted at {printed(at)}"
    if now < wanted - max((*settings.warn_hours, 1.0)) * 3600:
        return Step("later", wanted, text, current)
    if now < at:
        return Step("warn", at, text, current)
    latest = at + settings.wait_hours * 3600
    if (jobs is None or jobs > 0) and now < latest:
        number = "an unknown number of" if jobs is None else str(jobs)
        return Step("wait", at, f"{text}, when {number} jobs have ended, or at {printed(latest)}", current)
    return Step("delete", at, f"The cluster {settings.cluster} with all its data is deleted now", current)


def announces(settings: Settings, state: State, step: Step, now: float) -> float:
    """Return the hours before the deletion that a warning names now, or 0 if that was said already."""
    left = (step.at - now) / 3600
    reached = [hours for hours in settings.warn_hours if left <= hours]
    hours = min(reached) if reached else max((*settings.warn_hours, 1.0))
    return hours if not state.hours_said or hours < state.hours_said else 0.0
