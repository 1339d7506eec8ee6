# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The table of nodes, failed nodes first. Many nodes without a failure or warning share one row."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import natural
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.report_figures import names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.report_words import WORDS

Report = t.Mapping[str, t.Any]
Item = t.Mapping[str, t.Any]
Row = dict[str, Item]

_RANK = {"fail": 3, "warn": 2, "pass": 1, "not_run": 0}
# Maximum numbers of good nodes and of bad nodes with a row each.
_GOOD, _BAD = 32, 100
_VERSIONS = "preflight.version"


def nodes(report: Report) -> dict[str, t.Any] | None:
    """Return the table, or None if it would be empty."""
    rows = _rows(report["checks"])
    columns = _columns(report["checks"])
    if not rows or not columns:
        return None
    bad = {node: _badness(row) for node, row in rows.items()}
    ordered = sorted(rows, key=lambda name: (bad[name], natural(name)))
    sick = [node for node in ordered if bad[node] != (0, 0)]
    good = [node for node in ordered if bad[node] == (0, 0)]
    folded = good if len(good) > _GOOD else []
    shown = [*sick[:_BAD], *([] if folded else good)]
    return {
        "columns": [{"title": title, "figures": figures} for title, figures in columns.values()],
        "rows": [{"node": name, "cells": [_cell(rows[name].get(key), key) for key in columns]} for name in shown],
        "good": _fold(folded, rows, columns) if folded else None,
        "more": max(0, len(sick) - _BAD),
    }


def _rows(checks: t.Sequence[Item]) -> dict[str, Row]:
    """Return the checks of each node by column; the worst of several in one column counts."""
    rows: dict[str, Row] = {}
    for item in checks:
        if item["node"]:
            row, column = rows.setdefault(item["node"], {}), _column(item)
            if column not in row or _RANK[item["status"]] > _RANK[row[column]["status"]]:
                row[column] = item
    return rows


def _columns(checks: t.Sequence[Item]) -> dict[str, tuple[str, bool]]:
    """Return the title of each column and whether it has figures; the culprit first, without columns that are empty."""
    mine = sorted((item for item in checks if item["node"]), key=lambda item: not item["check"].startswith("isolation"))
    ran = {_column(item) for item in mine if item["status"] != "not_run"}
    figures = {_column(item) for item in mine if item.get("measured") is not None}
    titles = {_column(item): "versions" if _column(item) == _VERSIONS else item["title"] for item in mine}
    return {column: (title, column in figures) for column, title in titles.items() if column in ran}


def _column(item: Item) -> str:
    """Return the column of a check; versions share one."""
    return _VERSIONS if item["check"].startswith(_VERSIONS) else str(item["check"])


def _badness(row: Row) -> tuple[int, int]:
    """Return a sort key that puts failed nodes first, then nodes with warnings."""
    statuses = [item["status"] for item in row.values()]
    return -statuses.count("fail"), -statuses.count("warn")


def _cell(item: Item | None, column: str) -> dict[str, str] | None:
    """Return one cell; the message is its tooltip. The search adds no cell for a node that it clears."""
    if item is None and column.startswith("isolation"):
        return None
    if item is None:
        return {"status": "not_run", "title": "not run", "figure": ""}
    figure = f"{item['measured']:.4g}" if item.get("measured") is not None else ""
    title = f"{WORDS[item['status']]}: {item['message']}".rstrip(": ")
    return {"status": item["status"], "title": title, "figure": figure}


def _fold(folded: t.Sequence[str], rows: t.Mapping[str, Row], columns: t.Iterable[str]) -> dict[str, t.Any]:
    """Return one row for all nodes without a failure or warning."""
    cells = []
    for column in columns:
        items = [
            rows[node][column] for node in folded if column in rows[node] and rows[node][column]["status"] == "pass"
        ]
        values = [item["measured"] for item in items if item.get("measured") is not None]
        cells.append(
            {
                "status": "pass" if items else "not_run",
                "count": None if len(items) == len(folded) else len(items),
                "figure": f"{min(values):.4g} to {max(values):.4g}" if values else "",
            }
        )
    return {"count": len(folded), "names": names(folded), "cells": cells}
