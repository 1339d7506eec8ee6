# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The tables of the page: stages, figures, missing evidence, changes, checks of the cluster, and limits."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report_figures
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.report_words import (
    MOST,
    SIGNS,
    WORDS,
    Table,
    figure,
    table,
)

Report = t.Mapping[str, t.Any]
Item = t.Mapping[str, t.Any]

_KINDS = {"node": "in one node", "pair": "between two nodes", "all": "over all nodes"}
_COUNTED = {"pass": "passed", "fail": "failed", "warn": "with a warning", "not_run": "not run"}


def stages(report: Report) -> Table | None:
    """Return one line per stage."""
    rows = []
    for stage in report["stages"]:
        counts = ", ".join(
            f"{stage['counts'][status]} {word}" for status, word in _COUNTED.items() if stage["counts"].get(status)
        )
        rows.append(
            [
                ("cell " + stage["state"], "", f"{SIGNS[stage['state']]} {WORDS[stage['state']]}"),
                ("name", "", stage["title"]),
                ("", "checks", "; ".join(filter(None, [stage["reason"], counts]))),
                ("figure", "took", report_figures.duration(stage.get("seconds"))),
            ]
        )
    return table(["", "stage", "checks", "time"], rows)


def figures(report: Report) -> Table | None:
    """Return the figures by kind, with the margin of the slowest group to its limit."""
    rows = []
    for row in report_figures.figures(report):
        unit, levels = row["unit"], row["levels"]
        failed = f" ({row['failed']} failed)" if row["failed"] else ""
        several = f", of {row['groups']}" if row["groups"] > 1 else ""
        below = f"figure {row['status']}" if (row["margin"] or 0) < 0 else "figure"
        rows.append(
            [
                ("cell " + row["status"], "", SIGNS[row["status"]]),
                ("name", "", row["title"]),
                ("figure", "slowest", figure(row["slowest"], unit)),
                ("", "which", f"{row['who'] or ''}{several}{failed}"),
                ("figure", "median", figure(row["median"], unit)),
                ("", "limit", _limit(levels, unit)),
                (below, "margin", report_figures.percent(row["margin"])),
                ("figure", "expected", figure(levels.get("expected"), unit)),
            ]
        )
    return table(["", "figure", "slowest", "which", "median", "limit", "margin", "expected"], rows)


def unproved(report: Report) -> Table | None:
    """Return what the run did not prove."""
    found = report_figures.unproved(report)
    rows = [[("name", "", row["what"]), ("", "why", row["why"]), ("", "where", row["where"])] for row in found[:MOST]]
    return table(["check", "why", "where"], rows, len(found))


def changes(report: Report) -> Table | None:
    """Return the changes since the earlier run."""
    found = report["baseline"] or {"regressions": [], "improvements": []}
    every = [*found["regressions"], *found["improvements"]]
    rows = [
        [
            ("cell " + ("fail" if change["worse"] else "pass"), "", "worse" if change["worse"] else "better"),
            ("name", "", change["title"]),
            ("", "where", str(change["node"] or change["group"] or "cluster")),
            ("figure", "change", f"{_change(change['before'])} → {_change(change['after'])}"),
        ]
        for change in every[:MOST]
    ]
    return table(["", "check", "where", "before → after"], rows, len(every))


def cluster(report: Report) -> Table | None:
    """Return the checks of the whole cluster; checks with figures are in another table unless they failed or warned."""
    mine = [
        item for item in report["checks"] if not item["node"] and (item["status"] != "pass" or not item.get("unit"))
    ]
    rows = [
        [
            ("cell " + item["status"], "", f"{SIGNS[item['status']]} {WORDS[item['status']]}"),
            ("name", "", item["title"]),
            ("", "what", item["message"] or item.get("group") or ""),
            ("figure", "measured", figure(item.get("measured"), item.get("unit", ""))),
        ]
        for item in sorted(mine, key=lambda item: item["status"] != "fail")[:MOST]
    ]
    return table(["", "check", "what was found", "measured"], rows, len(mine))


def limits(report: Report) -> Table | None:
    """Return the sources of the limits."""
    rows = [
        [
            ("name", "", f"{_KINDS[rule['kind']]}, {rule['collective']}"),
            ("figure", "expected", figure(rule.get("expected"), "GB/s")),
            ("figure", "warns below", figure(rule.get("warn"), "GB/s")),
            ("figure", "fails below", figure(rule.get("fail"), "GB/s")),
            ("", "from", rule["why"]),
        ]
        for rule in report.get("limits") or []
    ]
    return table(["bandwidth", "expected", "warns below", "fails below", "where the limit comes from"], rows)


def repairs(report: Report) -> Table | None:
    """Return the last repair of each node, the newest first."""
    cases = sorted(report.get("repairs") or [], key=lambda case: -case["since"])
    rows = [
        [
            ("name", "", case["node"]),
            ("", "since", _time(case["since"])),
            (
                "",
                "state",
                f"in repair, step {case['begun'] or 'none'}" if case["state"] == "claimed" else case["state"],
            ),
            ("", "reason", case["reason"]),
            ("", "steps", "; ".join(map(_step, case["tried"]))),
        ]
        for case in cases[:MOST]
    ]
    return table(["node", "since", "state", "why", "what was done"], rows, len(cases))


def _step(tried: Item) -> str:
    """Return a step of a repair with the time of its end; what a failed step said."""
    return f"{_time(tried['time'])[11:]} {tried['step']}" + ("" if tried["ok"] else f" failed: {tried['text']}")


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def _limit(levels: t.Mapping[str, float], unit: str) -> str:
    """Return the limits of a kind."""
    said = {"warn": "warns below", "fail": "fails below"}
    return (
        "; ".join(f"{said[level]} {figure(levels[level], unit)}" for level in said if level in levels)
        or "none is known"
    )


def _change(value: t.Any) -> str:
    """Return a number or a word in a comparison."""
    return f"{value:.4g} GB/s" if isinstance(value, (int, float)) else WORDS.get(str(value), str(value))
