# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The events of a training, and what follows from them: how much of its time went into steps that stayed."""

from __future__ import annotations

import json
import os
import typing as t

NAME = "torchrun.jsonl"
_MOST = 64 << 20  # bytes of events that are read
_DAMAGED = 100  # lines; each start that is killed can leave one, and to refuse millions takes minutes
Event = dict[str, t.Any]


class Summary(t.NamedTuple):
    """The minutes of a training."""

    job: str
    user: str
    allocated: float
    useful: float
    steps: int
    repeated: int | None
    faults: list[Event]

    @property
    def goodput(self) -> float:
        """Return the share of the time that made steps which stayed."""
        return self.useful / self.allocated if self.allocated else 0.0


class Events:
    """The file of events. A full disk stops no training."""

    def __init__(self, path: str, clock: t.Callable[[], float]) -> None:
        self.path, self.clock = path, clock

    def add(self, event: str, **values: t.Any) -> None:
        """Write one event."""
        line = json.dumps({"event": event, "time": round(self.clock(), 3), **values})
        try:
            with open(self.path, "a", encoding="utf-8", opener=_own) as file:
                file.write(f"{line}\n")
        except OSError:
            return


def _own(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o640)


def read(path: str) -> list[Event]:
    """Return the events of a file; without lines that are not complete."""
    return read_owned(path)[1]


def read_owned(path: str) -> tuple[int, list[Event]]:
    """Return the UID of the owner of a file, and its events up to where too many lines are damaged."""
    with open(path, encoding="utf-8", errors="replace", opener=_own_to_read) as file:
        owner = os.fstat(file.fileno()).st_uid
        lines = file.read(_MOST).splitlines()
    events, damaged = list[Event](), 0
    for event in map(_event, lines):
        if event:
            events.append(event)
        else:
            damaged += 1
        if damaged > _DAMAGED:
            break
    return owner, events


def _own_to_read(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)


def _no_number(word: str) -> t.NoReturn:
    raise ValueError(word)  # Infinity and NaN


def _event(line: str) -> Event:
    try:
        found = json.loads(line, parse_constant=_no_number)
        return found if isinstance(found, dict) and isinstance(found["time"], (int, float)) and found["event"] else {}
    except (ValueError, KeyError):
        return {}


def summary(events: t.Sequence[Event]) -> Summary:
    """Return the minutes of a training from its events, also if it was killed and has no last one."""
    about = next((event for event in events if event["event"] == "begin"), {})
    allocated = _allocated(events)
    useful, steps, repeated, last = 0.0, 0, t.cast("int | None", 0), Event()
    # The last note of each segment.
    for event in {event["segment"]: event for event in events if event["event"] == "steps"}.values():
        useful += event["seconds"]
        steps += event["steps"]
        if last and event["steps"]:
            again = _again(last, event)
            useful -= last["seconds"] / last["steps"] * (again or 0)
            repeated = None if again is None or repeated is None else repeated + again
        last = event if event["steps"] else last
    useful = max(0.0, min(useful, allocated))
    return Summary(
        str(about.get("job", "")), str(about.get("user", "")), allocated, useful, steps, repeated, _faults(events)
    )


def _allocated(events: t.Sequence[Event]) -> float:
    """Return the seconds from each start of the job to its last event."""
    found, start, before = 0.0, 0.0, 0.0
    for event in events:
        if event["event"] == "begin":
            found += before - start
            start = event["time"]
        before = event["time"]
    return found + before - start


def _again(last: Event, event: Event) -> int | None:
    """Return how many steps of a segment the next one repeats, or None."""
    if last["last"] is None or event["first"] is None:
        return None
    return int(min(last["steps"], max(0, last["last"] + 1 - event["first"])))


def _faults(events: t.Sequence[Event]) -> list[Event]:
    found = list[Event]()
    for event in events:
        if event["event"] == "fault":
            found.append(dict(event))
        elif event["event"] == "back":
            for fault in found:
                fault.setdefault("back", round(event["time"] - fault["time"] + fault["after"], 1))
    return found


def text(found: Summary) -> list[str]:
    """Return the minutes as lines for people."""
    repeated = "not known" if found.repeated is None else str(found.repeated)
    lines = [
        f"goodput {100 * found.goodput:.1f} %: {found.useful:.0f} s of steps that stayed in {found.allocated:.0f} s,"
        f" {found.steps} steps, {repeated} of them repeated, {len(found.faults)} faults"
    ]
    for fault in found.faults:
        back = f"back after {fault['back']:.0f} s" if fault.get("back") is not None else "not back"
        where = " ".join(
            filter(None, [f"rank {fault['rank']}" if fault.get("rank") is not None else "", fault.get("node", "")])
        )
        lines.append(f"  {fault['kind']} {where}: found after {fault.get('after', 0):.0f} s, {back}: {fault['text']}")
    return lines
