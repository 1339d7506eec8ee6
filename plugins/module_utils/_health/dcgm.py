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
    return judge(result)


def _health(case: Case, *options: str) -> Result:
    command = [case.tool("dcgmi"), "health", "-g", str(int(case.number("group"))), *options]
    result = case.machine.run(command, case.number("timeout_seconds"))
    if result.state == MISSING:
        raise NotRunError("dcgmi is missing")
    if result.state != DONE:
        raise UnknownError(f"dcgmi gave no answer within {case.number('timeout_seconds'):.10g} s")
    return result


def judge(result: Result) -> Finding:
    """Judge the report. DCGM says Failure if jobs cannot use a device, and Warning if somebody should look at it."""
    try:
        body = json.loads(result.out[result.out.index("{") :])["body"]
        overall = body["Overall Health"]["value"]
    except (ValueError, KeyError, TypeError) as exc:
        raise UnknownError(f"dcgmi printed no report: {tidy(result.text, 120) or f'exit status {result.rc}'}") from exc
    incidents = list(_incidents(body, ""))
    if overall == "Failure":
        return unhealthy("no failure of a health watch of DCGM", listing(incidents) or "Failure")
    if overall not in ("Healthy", "Warning"):
        raise UnknownError(f"dcgmi reports {tidy(str(overall), 40)!r}")
    return healthy(f"DCGM warns: {listing(incidents)}" if incidents else "no watch of DCGM reports a fault")


def _incidents(children: t.Mapping[str, t.Any], place: str) -> t.Iterator[str]:
    """Yield each watch that reports a fault, with its device and text."""
    for name, node in children.items():
        if not isinstance(node, dict):
            continue
        below = node.get("children") or {}
        if not below and place and node.get("value") in _BAD:
            text = tidy(" ".join(node.get("overflow") or []), 120)
            yield f"{place}: {name}: {node['value']}" + (f": {text}" if text else "")
        yield from _incidents(below, place if name == "Errors" else f"{place} {name}".strip())
