# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the health watches of DCGM, which its service keeps between two runs."""

from __future__ import annotations

import json
import typing as t

from .process import DONE, MISSING, Result
from .verdict import Finding, NotRunError, UnknownError, healthy, listing, tidy, unhealthy

if t.TYPE_CHECKING:
    from .case import Case

_NO_WATCHES = "watches not enabled"
_BAD = ("Failure", "Warning")


def check(case: Case) -> Finding:
    """Read the watches of a group of DCGM. Enable them after a start of the service, which forgets them."""
    result = _health(case, "-c", "-j")
    if _NO_WATCHES in result.text:
        _health(case, "-s", "a")
        result = _health(case, "-c", "-j")
    return judge(result, case.items("ignored_watches"))


def _health(case: Case, *options: str) -> Result:
    command = [case.tool("dcgmi"), "health", "-g", str(int(case.number("group"))), *options]
    result = case.machine.run(command, case.number("timeout_seconds"))
    if result.state == MISSING:
        raise NotRunError("dcgmi is missing")
    if result.state != DONE:
        raise UnknownError(f"dcgmi gave no answer within {case.number('timeout_seconds'):.10g} s")
    return result


def judge(result: Result, ignored: t.Sequence[str] = ()) -> Finding:
    """
    Judge the report. DCGM says Failure if jobs cannot use a device, and Warning if somebody should look at it.

    I(ignored) has the begins of the names of watches that do not apply to the machine.
    """
    try:
        body = json.loads(result.out[result.out.index("{") :])["body"]
        overall = body["Overall Health"]["value"]
    except (ValueError, KeyError, TypeError) as exc:
        raise UnknownError(f"dcgmi printed no report: {tidy(result.text, 120) or f'exit status {result.rc}'}") from exc
    if overall not in ("Healthy", *_BAD):
        raise UnknownError(f"dcgmi reports {tidy(str(overall), 40)!r}")
    incidents: list[Incident] = []
    ignorable: list[Incident] = []
    for one in _incidents(body, ()):
        (ignorable if one.of(ignored) else incidents).append(one)
    told = listing([one.text for one in incidents])
    explained = any(one.value == "Failure" for one in ignorable)
    if any(one.value == "Failure" for one in incidents) or (overall == "Failure" and not explained):
        return unhealthy("no failure of a health watch of DCGM", told or "Failure")
    note = f"; does not apply: {listing([one.text for one in ignorable])}" if ignorable else ""
    return healthy((f"DCGM warns: {told}" if incidents else "no watch of DCGM reports a fault") + note)


class Incident(t.NamedTuple):
    """One fault in the report: the names from the device down to the fault, Failure or Warning, and its text."""

    names: tuple[str, ...]
    value: str
    says: str

    @property
    def text(self) -> str:
        """Return the incident in one line."""
        *place, name = (name for name in self.names if name != "Errors")
        return f"{' '.join(place)}: {name}: {self.value}" + (f": {self.says}" if self.says else "")

    def of(self, watches: t.Sequence[str]) -> bool:
        """Return whether it is of one of the watches."""
        return any(name.lower().startswith(watch.lower()) for name in self.names for watch in watches)


def _incidents(children: t.Any, place: tuple[str, ...]) -> t.Iterator[Incident]:
    """
    Yield each watch that reports a fault: the innermost values, and a fault that nothing below it explains.

    Raise UnknownError for a report of another form.
    """
    if not isinstance(children, dict):
        raise UnknownError(f"dcgmi prints {tidy(str(children), 60)!r} below {' '.join(place) or 'the report'}")
    for name, node in children.items():
        if not isinstance(node, dict):
            continue
        inner = list(_incidents(node.get("children") or {}, (*place, name)))
        value = node.get("value")
        if place and value is not None and value not in ("Healthy", *_BAD) and not node.get("children"):
            raise UnknownError(f"dcgmi reports {tidy(str(value), 40)!r} for {' '.join((*place, name))}")
        if place and value in _BAD and not inner:
            yield Incident((*place, name), str(value), tidy(_text(node), 120))
        yield from inner


def _text(node: t.Mapping[str, t.Any]) -> str:
    """Return the words of a watch, its own or those of its list of errors."""
    errors = (node.get("children") or {}).get("Errors")
    overflow = node.get("overflow") or (errors.get("overflow") if isinstance(errors, dict) else None) or []
    return " ".join(map(str, overflow)) if isinstance(overflow, list) else str(overflow)
