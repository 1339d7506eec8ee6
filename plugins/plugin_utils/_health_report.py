# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Turn what the health program printed on many nodes into one table and one verdict."""

from __future__ import annotations

import json
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# As short as a table of hundreds of nodes needs, and none looks like another.
MARKS = {"healthy": "ok", "unhealthy": "SICK", "suspect": "suspect", "unknown": "?", "not run": "-"}


def report(outputs: Iterable[str], expected: Sequence[str] = ()) -> dict[str, t.Any]:
    """Return nodes, faults, missing nodes and a table; lines that are no reports are passed over."""
    nodes = dict(sorted(_reports(outputs)))
    faults = [
        {"node": node, "check": check["check"], "status": check["status"], "reason": check["reason"]}
        for node, found in nodes.items()
        for check in found["checks"]
        if check["status"] not in ("healthy", "not run")
    ]
    missing = [node for node in expected if node not in nodes]
    return {
        "healthy": bool(nodes) and not faults and not missing,
        "nodes": nodes,
        "faults": faults,
        "missing": missing,
        "summary": [
            *("{node}: {check}: {status}: {reason}".format(**fault) for fault in faults),
            *(f"{node}: no answer" for node in missing),
        ],
        "table": table(nodes, missing),
    }


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
    """Return one line per check, one column per node; checks that ran nowhere are left out."""
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
