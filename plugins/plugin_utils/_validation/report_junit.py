# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Write a report as JUnit XML: one suite per stage, one case per check and node."""

from __future__ import annotations

import re
import typing as t
from xml.sax.saxutils import escape, quoteattr

# XML 1.0 cannot represent these characters.
_FORBIDDEN = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def junit(report: t.Mapping[str, t.Any]) -> str:
    """Return the report as JUnit XML. A check that was not run is skipped; a missing stage is an error."""
    suites = "".join(_suite(stage, report["checks"]) for stage in report["stages"])
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="gpucluster validation">\n{suites}</testsuites>\n'


def _suite(stage: t.Mapping[str, t.Any], checks: t.Sequence[t.Mapping[str, t.Any]]) -> str:
    """Return one stage."""
    mine = [item for item in checks if item["stage"] == stage["name"]]
    cases = "".join(map(_case, mine))
    if stage["state"] == "missing":
        error = '<error message="it did not run"/>'
        cases = f'  <testcase classname={_attribute(stage["name"])} name="stage">{error}</testcase>\n'
    failures = sum(item["status"] == "fail" for item in mine)
    skipped = sum(item["status"] == "not_run" for item in mine)
    counts = f'tests="{len(mine) or int(bool(cases))}" failures="{failures}" skipped="{skipped}"'
    seconds = f' time="{stage["seconds"]:.1f}"' if stage["seconds"] is not None else ""
    errors = f' errors="{int(stage["state"] == "missing")}"'
    return f" <testsuite name={_attribute(stage['name'])} {counts}{errors}{seconds}>\n{cases} </testsuite>\n"


def _case(item: t.Mapping[str, t.Any]) -> str:
    """Return one check."""
    who = item["node"] or item.get("group") or "cluster"
    name = f"{item['title']}: {who}"
    begin = f"  <testcase classname={_attribute(item['check'])} name={_attribute(name)}"
    message = _attribute(item["message"])
    advice = _text("\n".join(item["advice"]))
    body = {
        "fail": f"<failure message={message}>{advice}</failure>",
        "not_run": f"<skipped message={message}/>",
        "warn": f"<system-out>warning: {_text(item['message'])}</system-out>",
    }.get(item["status"], "")
    return f"{begin}>{body}</testcase>\n" if body else f"{begin}/>\n"


def _attribute(text: t.Any) -> str:
    """Return a quoted attribute."""
    return quoteattr(_FORBIDDEN.sub("?", str(text)))


def _text(text: str) -> str:
    """Return an escaped string."""
    return escape(_FORBIDDEN.sub("?", text))
