# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Words, signs and tables of the page. A table is data, and the template renders it."""

from __future__ import annotations

import typing as t

WORDS = {"pass": "pass", "warn": "warning", "fail": "FAIL", "not_run": "not run", "missing": "did not run"}
SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "not_run": "-", "missing": "✗", "": ""}
# Maximum number of rows of one kind on the page; report.json has all of them.
MOST = 40

# Class, name and text of a cell. The class C(name) marks the cell that names the row. Narrow screens show each cell
# as a line with its name.
Cell = tuple[str, str, str]
Table = dict[str, t.Any]


def table(head: t.Sequence[str], rows: t.Sequence[t.Sequence[Cell]], total: int | None = None) -> Table | None:
    """
    Return a table, or nothing if there are no rows; empty columns are removed.

    O(total) is the number of all rows; O(rows) can be only the first of them.
    """
    if not rows:
        return None
    used = [place for place in range(len(head)) if any(row[place][2] for row in rows)]
    return {
        "head": [head[place] for place in used],
        "rows": [[row[place] for place in used] for row in rows],
        "more": max(0, (total or 0) - len(rows)),
    }


def figure(value: float | None, unit: str) -> str:
    """Return a figure with its unit."""
    return "" if value is None else f"{value:.4g} {unit}"
