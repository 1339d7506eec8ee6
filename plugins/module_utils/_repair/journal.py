# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The journal: what happened to which node, one JSON object a line. A case is what its lines say."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Event = dict[str, t.Any]

# What begins and what ends a case.
CLAIMED = "claimed"
RETURNED, OUT, RELEASED, HANDED_OVER, PARKED = "returned", "out", "released", "handed over", "parked"
ENDS = (RETURNED, OUT, RELEASED, HANDED_OVER, PARKED)
BEGIN, END = "begin", "end"
RETRY = "retry"  # text of the release of a node that begins again


class Busy(Exception):  # noqa: N818 - not an error: another run is active
    """Another run has the state directory."""


class Tried(t.NamedTuple):
    """A step that ended: its name, whether it worked, what it said, and when it ended."""

    step: str
    ok: bool
    text: str
    time: float


class Case(t.NamedTuple):
    """A node in repair."""

    node: str
    id: str
    reason: str
    since: float
    mode: str
    tried: tuple[Tried, ...] = ()
    begun: str = ""  # the step that an interrupted run had begun
    begun_with: Event = {}  # noqa: RUF012 - a tuple cannot change
    state: str = CLAIMED

    @property
    def open(self) -> bool:
        """Return whether the program still works on the node."""
        return self.state == CLAIMED

    def ended(self, step: str) -> Tried | None:
        """Return the last result of a step, or None if it did not end yet."""
        return next((one for one in reversed(self.tried) if one.step == step), None)


class Journal:
    """The file C(repair.jsonl) in the state directory."""

    def __init__(self, directory: str, clock: t.Callable[[], float]) -> None:
        """Store the clock, which gives seconds since the epoch."""
        self._path = Path(directory) / "repair.jsonl"
        self._clock = clock

    def add(self, node: str, case: str, what: str, **more: t.Any) -> None:
        """Write a line; it is on the disk when this returns."""
        line = json.dumps({"time": round(self._clock(), 3), "node": node, "case": case, "event": what, **more})
        with self._path.open("a+b") as stream:
            if stream.tell() and not self._complete(stream):
                stream.write(b"\n")  # an interrupted run has written half a line
            stream.write(line.encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    def events(self) -> list[Event]:
        """Return all lines; half a line of an interrupted run is skipped."""
        try:
            lines = self._path.read_text(encoding="utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return []
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                event = json.loads(line)
                if isinstance(event, dict) and _is_event(event):
                    found.append(event)
        return found

    @staticmethod
    def _complete(stream: t.IO[bytes]) -> bool:
        stream.seek(-1, os.SEEK_END)
        return stream.read(1) == b"\n"


def _is_event(found: Event) -> bool:
    """Return whether a line has what every line has: a number and three texts."""
    words = all(isinstance(found.get(name), str) for name in ("node", "case", "event"))
    return words and isinstance(found.get("time"), (int, float))


def cases(events: Sequence[Event]) -> dict[str, Case]:
    """Return the last case of each node."""
    found: dict[str, Case] = {}
    for event in events:
        node = event["node"]
        if event["event"] == CLAIMED:
            found[node] = Case(node, event["case"], event.get("reason", ""), event["time"], event.get("mode", "act"))
        elif node in found and found[node].id == event["case"]:
            found[node] = _after(found[node], event)
    return found


def returns(events: Sequence[Event], node: str, since: float) -> int:
    """Return how often the program has returned a node since a time."""
    return sum(1 for one in events if one["node"] == node and one["event"] == RETURNED and one["time"] >= since)


def _after(case: Case, event: Event) -> Case:
    what, step = event["event"], event.get("step", "")
    if what == BEGIN:
        return case._replace(begun=step, begun_with=event)
    if what == END:
        tried = Tried(step, bool(event.get("ok")), str(event.get("text", "")), event["time"])
        return case._replace(begun="", begun_with={}, tried=(*case.tried, tried))
    if what not in ENDS:
        return case
    return case._replace(state=what, begun="", mode=str(event.get("mode", case.mode)))


@contextlib.contextmanager
def alone(directory: str, seconds: int = 0) -> Iterator[None]:
    """Hold the lock of the state directory, which the controllers share; raise Busy if another run keeps it."""
    Path(directory).mkdir(mode=0o700, parents=True, exist_ok=True)
    with (Path(directory) / ".lock").open("a", encoding="utf-8") as stream:
        for _second in range(seconds):
            if _locked(stream):
                break
            time.sleep(1)
        else:
            if not _locked(stream):
                raise Busy("another run of this program is active")
        yield


def _locked(stream: t.IO[str]) -> bool:
    try:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
