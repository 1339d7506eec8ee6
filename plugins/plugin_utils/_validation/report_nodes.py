# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The table of nodes by checks. Of many nodes, those without a complaint are one line."""

from __future__ import annotations

import typing as t
from html import escape

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.outcomes import natural
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.report_figures import names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.report_words import SIGNS, WORDS

Report = t.Mapping[str, t.Any]
Item = t.Mapping[str, t.Any]
Row = dict[str, Item]

_RANK = {"fail": 3, "warn": 2, "pass": 1, "not_run": 0}
# So many good nodes have a line of their own, and so many bad ones.
_GOOD, _BAD = 32, 100
_VERSIONS = "preflight.version"


def nodes(report: Report) -> str:
    """Return the table, the nodes with failures first."""
    rows = _rows(report["checks"])
    columns = _columns(report["checks"])
    if not rows or not columns:
        return ""
    bad = {node: _badness(row) for node, row in rows.items()}
    ordered = sorted(rows, key=lambda name: (bad[name], natural(name)))
    sick = [node for node in ordered if bad[node] != (0, 0)]
    good = [node for node in ordered if bad[node] == (0, 0)]
    folded = good if len(good) > _GOOD else []
    lines = [_line(node, rows[node], columns) for node in sick[:_BAD]]
    lines += [_line(node, rows[node], columns) for node in good if not folded]
    lines += [_fold(folded, rows, columns)] if folded else []
    head = "".join(_head(title, has) for title, has in columns.values())
    table = f'<table class="nodes"><thead><tr><th>node</th>{head}</tr></thead><tbody>{"".join(lines)}</tbody></table>'
    rest = words.more(sick, _BAD)
    more = f"<p>{rest} nodes with complaints; report.json has them.</p>" if rest else ""
    note = "<p>Checks that ran on no node are under <i>What was not proved</i>.</p>"
    return f'<h2>Nodes</h2>\n{note}<div class="scroll">{table}</div>{more}\n'


def _rows(checks: t.Sequence[Item]) -> dict[str, Row]:
    """Return the checks of each node by column; of several in one column the worst counts."""
    rows: dict[str, Row] = {}
    for item in checks:
        if item["node"]:
            row, column = rows.setdefault(item["node"], {}), _column(item)
            if column not in row or _RANK[item["status"]] > _RANK[row[column]["status"]]:
                row[column] = item
    return rows


def _columns(checks: t.Sequence[Item]) -> dict[str, tuple[str, bool]]:
    """Return title of each column and whether it has figures; the named culprit first, and none that ran nowhere."""
    mine = sorted((item for item in checks if item["node"]), key=lambda item: not item["check"].startswith("isolation"))
    ran = {_column(item) for item in mine if item["status"] != "not_run"}
    figures = {_column(item) for item in mine if item.get("measured") is not None}
    titles = {_column(item): "versions" if _column(item) == _VERSIONS else item["title"] for item in mine}
    return {column: (title, column in figures) for column, title in titles.items() if column in ran}


def _column(item: Item) -> str:
    """Return the column of a check; versions share one."""
    return _VERSIONS if item["check"].startswith(_VERSIONS) else str(item["check"])


def _badness(row: Row) -> tuple[int, int]:
    """Return a key that sorts nodes with failures, and then those with warnings, to the top."""
    statuses = [item["status"] for item in row.values()]
    return -statuses.count("fail"), -statuses.count("warn")


def _head(title: str, figures: bool) -> str:
    """Return the head of a column; words stand upright where the column is narrow."""
    return (
        f'<th class="{"wide" if figures else "turned"}"><span>{escape(title)}{", GB/s" if figures else ""}</span></th>'
    )


def _line(node: str, row: Row, columns: t.Iterable[str]) -> str:
    """Return the line of one node."""
    return f"<tr><th>{escape(node)}</th>{''.join(_cell(row.get(column), column) for column in columns)}</tr>\n"


def _cell(item: Item | None, column: str) -> str:
    """Return one cell; the message shows when one points at it. The search says nothing about nodes that it acquits."""
    if item is None and column.startswith("isolation"):
        return "<td></td>"
    if item is None:
        return '<td class="cell not_run" title="not run">-</td>'
    number = f' <span class="figure">{item["measured"]:.4g}</span>' if item.get("measured") is not None else ""
    title = escape(f"{WORDS[item['status']]}: {item['message']}".rstrip(": "), quote=True)
    return f'<td class="cell {item["status"]}" title="{title}">{SIGNS[item["status"]]}{number}</td>'


def _fold(folded: t.Sequence[str], rows: t.Mapping[str, Row], columns: t.Iterable[str]) -> str:
    """Return one line for all nodes without a complaint."""
    cells = ""
    for column in columns:
        items = [
            rows[node][column] for node in folded if column in rows[node] and rows[node][column]["status"] == "pass"
        ]
        values = [item["measured"] for item in items if item.get("measured") is not None]
        span = f' <span class="figure">{min(values):.4g} to {max(values):.4g}</span>' if values else ""
        count = "" if len(items) == len(folded) else f" {len(items)}"
        status = "pass" if items else "not_run"
        cells += f'<td class="cell {status}">{SIGNS[status]}{count}{span}</td>'
    return f'<tr><th class="many">{len(folded)} nodes without a complaint: {escape(names(folded))}</th>{cells}</tr>\n'
