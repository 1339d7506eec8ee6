# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The words, signs and tables of the page of a report."""

from __future__ import annotations

import typing as t
from html import escape

WORDS = {"pass": "pass", "warn": "warning", "fail": "FAIL", "not_run": "not run", "missing": "did not run"}
SIGNS = {"pass": "✓", "warn": "!", "fail": "✗", "not_run": "-", "missing": "✗", "": ""}

# Class, name (for narrow screens, where each cell is a line) and text of a cell.
Cell = tuple[str, str, str]


def table(head: t.Sequence[str], rows: t.Sequence[t.Sequence[Cell]]) -> str:
    """Return a table; columns without any text are left out, and on narrow screens a row is a block."""
    used = [place for place in range(len(head)) if any(row[place][2] for row in rows)]
    top = "".join(f"<th>{escape(head[place])}</th>" for place in used)
    body = "".join(f"<tr>{''.join(_cell(*row[place]) for place in used)}</tr>\n" for row in rows)
    return f'<table class="rows"><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>\n'


def _cell(kind: str, label: str, text: str) -> str:
    """Return one cell; one without text takes no line on a narrow screen."""
    tag = "th" if kind == "name" else "td"
    names = " ".join(filter(None, [kind if kind != "name" else "", "" if text else "empty"]))
    named = (f' class="{names}"' if names else "") + (f' data-name="{escape(label, quote=True)}"' if label else "")
    return f"<{tag}{named}>{escape(text)}</{tag}>"
