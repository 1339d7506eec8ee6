# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Summarize the report in a few lines for any number of nodes: figures by kind, and missing evidence."""

from __future__ import annotations

import statistics
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

Report = t.Mapping[str, t.Any]
Item = t.Mapping[str, t.Any]

_RANK = {"fail": 3, "warn": 2, "not_run": 1, "pass": 0}


def figures(report: Report) -> list[dict[str, t.Any]]:
    """Return one row for each kind of measurement: its slowest group, the median, and the margin to the limit."""
    kinds: dict[str, list[Item]] = {}
    for item in report["checks"]:
        if item.get("unit") and not item["check"].startswith("isolation"):
            kinds.setdefault(item["check"], []).append(item)
    return [_row(items) for items in kinds.values()]


def _row(items: t.Sequence[Item]) -> dict[str, t.Any]:
    """Return the row of one kind."""
    known = [item for item in items if item.get("measured") is not None]
    slowest = min(known, key=lambda item: item["measured"], default=None)
    levels: dict[str, float] = next((item["limits"] for item in items if item.get("limits")), {})
    return {
        "check": items[0]["check"],
        "title": items[0]["title"],
        "status": max((item["status"] for item in items), key=_RANK.__getitem__),
        "groups": len(items),
        "failed": len(items) - len(known),
        "slowest": slowest and slowest["measured"],
        "who": (slowest.get("group") or slowest["node"]) if slowest else None,
        "median": statistics.median(item["measured"] for item in known) if known else None,
        "levels": levels,
        "margin": slowest.get("margin") if slowest else None,
        "size": next((item["size"] for item in known if item.get("size")), None),
        "unit": items[0]["unit"],
    }


def keys(report: Report) -> list[dict[str, t.Any]]:
    """Return the rows of the operation that has limits: in one node, between two nodes, and over all nodes."""
    rules = report.get("limits") or []
    first = {f"nccl.{rule['kind']}.{rules[0]['collective']}" for rule in rules}
    return [row for row in figures(report) if row["check"] in first and row["slowest"] is not None]


def verdict(row: t.Mapping[str, t.Any]) -> str:
    """Return a phrase about the margin of the slowest group to its limit."""
    if row["margin"] is None:
        return "no limit is known"
    return f"{percent(abs(row['margin'])).lstrip('+')} {'below' if row['margin'] < 0 else 'above'} the limit"


def unproved(report: Report) -> list[dict[str, str]]:
    """Return what the run did not prove, why, and for which nodes."""
    found: dict[tuple[str, str], list[str]] = {}
    for item in report["checks"]:
        partly = item["status"] == "pass" and "not run" in item["message"]
        if item["status"] == "not_run" or partly:
            found.setdefault((item["title"], item["message"]), []).append(item["node"] or item.get("group") or "")
    rows = [
        {"what": title, "why": message or "it did not run", "where": names(nodes)}
        for (title, message), nodes in found.items()
    ]
    for stage in report["stages"]:
        if stage["state"] == "missing" or stage["reason"] == "not asked for":
            rows.append({"what": stage["title"], "why": stage["reason"], "where": ""})
        rows += [{"what": stage["title"], "why": note, "where": ""} for note in stage["notes"]]
    return rows


def names(nodes: t.Iterable[str]) -> str:
    """Return nodes as hostlists of Slurm; other names stay unchanged, and long lists are only counted."""
    wanted = list(dict.fromkeys(filter(None, nodes)))
    try:
        return hostlist.compress(wanted)
    except hostlist.HostlistError:
        return words.listed(wanted, 4, "; ")


def duration(seconds: float | None) -> str:
    """Return C(2 min 5 s)."""
    if seconds is None or seconds < 0:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours} h" if hours else "", f"{minutes} min" if minutes else "", f"{rest} s" if not hours else ""]
    return " ".join(filter(None, parts))


def percent(part: float | None) -> str:
    """Return C(+3.1 %)."""
    if part is None:
        return ""
    return f"{100 * part:+.1f} %" if abs(part) < 10 else f"{part + 1:.0f} times"
