# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Combine the output of the health program on many nodes into one table and one verdict."""

from __future__ import annotations

import json
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# Short, for a table of hundreds of nodes, and easy to tell apart.
MARKS = {
    "healthy": "ok",
    "unhealthy": "SICK",
    "suspect": "suspect",
    "unknown": "?",
    "not run": "not run",
    "not applicable": "-",
}
_PASSED, _NOT_RUN, _NOTHING = "healthy", "not run", "not applicable"


def report(outputs: Iterable[str], expected: Sequence[str] = ()) -> dict[str, t.Any]:
    """Return status, nodes, faults, checks that did not run, missing nodes and a table; ignore other lines."""
    nodes = dict(sorted(_reports(outputs)))
    said = [
        {"node": node, "check": check["check"], "status": check["status"], "reason": check["reason"]}
        for node, found in nodes.items()
        for check in found["checks"]
    ]
    faults = [item for item in said if item["status"] not in (_PASSED, _NOT_RUN, _NOTHING)]
    not_run = [item for item in said if item["status"] == _NOT_RUN]
    idle = [node for node, found in nodes.items() if {check["status"] for check in found["checks"]} == {_NOTHING}]
    missing = [node for node in expected if node not in nodes]
    status = _status(bool(faults or missing or not nodes), bool(not_run or idle))
    return {
        "status": status,
        "healthy": status == _PASSED,
        "nodes": nodes,
        "faults": faults,
        "not_run": not_run,
        "missing": missing,
        "summary": [
            *("{node}: {check}: {status}: {reason}".format(**item) for item in [*faults, *not_run]),
            *(f"{node}: not run: none of the checks applies to it" for node in idle),
            *(f"{node}: no answer" for node in missing),
        ],
        "table": table(nodes, missing),
    }


def _status(sick: bool, unproved: bool) -> str:
    return "unhealthy" if sick else "not run" if unproved else _PASSED


def _reports(outputs: Iterable[str]) -> Iterable[tuple[str, dict[str, t.Any]]]:
    for line in (line for output in outputs for line in output.splitlines()):
        start = line.find('{"node"')  # srun and its plugins may print before it
        if start < 0:
            continue
        try:
            found, _end = json.JSONDecoder().raw_decode(line[start:])
        except ValueError:
            continue
        if isinstance(found.get("checks"), list) and found["checks"]:
            yield str(found["node"]), found


def table(nodes: dict[str, dict[str, t.Any]], missing: Sequence[str] = ()) -> list[str]:
    """Return one line per check, one column per node; skip checks that apply nowhere."""
    names = list(nodes)
    rows: dict[str, dict[str, str]] = {}
    for node, found in nodes.items():
        for check in found["checks"]:
            rows.setdefault(check["check"], {})[node] = MARKS.get(check["status"], check["status"])
    shown = {check: row for check, row in rows.items() if set(row.values()) != {"-"}}
    width = max(map(len, [*shown, "check"]))
    lines = ["  ".join(["check".ljust(width), *names])]
    for check, row in shown.items():
        cells = [row.get(name, "").ljust(len(name)) for name in names]
        lines.append("  ".join([check.ljust(width), *cells]).rstrip())
    lines += [f"{node}: no answer" for node in missing]
    return lines
