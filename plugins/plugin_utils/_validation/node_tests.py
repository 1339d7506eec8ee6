# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the output of the tests of single nodes: DCGM diagnostics and nvbandwidth."""

from __future__ import annotations

import json
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import throughput
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

_MATRIX = re.compile(r"^Running (\w+)\.?\s*$")
_MOST = 4  # results in a message
_WORDS = {"pass": "pass", "skip": "not_run", "warn": "warn", "fail": "fail"}


def dcgm(text: str) -> tuple[str, str]:
    """Return status and message of C(dcgmi diag --json). Output that cannot be parsed means failed."""
    try:
        data = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return "fail", "the output of dcgmi is not JSON, or cut"
    found = list(throughput.diagnosis(data))
    passed = sum(_WORDS.get(one.status) == "pass" for one in found)
    worst = [one for one in found if _WORDS.get(one.status, "fail") in ("fail", "warn")]
    told = words.listed(list(dict.fromkeys(f"{one.text}: {one.status}" for one in worst or found)), _MOST)
    if not passed:
        return "fail", f"no test of dcgmi passed: {told or 'the report names none'}"
    if not worst:
        return "pass", f"{passed} results"
    return "fail" if any(_WORDS.get(one.status, "fail") == "fail" for one in worst) else "warn", told


def nvbandwidth(text: str) -> dict[str, dict[str, float | None]]:
    """Return GB/s by GPU for each test that ran, from plain or JSON output; the sum would hide one bad GPU."""
    if "{" in text:
        try:
            return _json(json.loads(text[text.index("{") : text.rindex("}") + 1]))
        except (ValueError, KeyError, TypeError):
            return {}
    found: dict[str, dict[str, float | None]] = {}
    name, columns = "", 0
    for line in text.splitlines():
        match, cells = _MATRIX.match(line.strip()), line.split()
        if match:
            name, columns = match.group(1), 0
        elif name and cells == [str(place) for place in range(len(cells) or 1)]:
            columns = len(cells)
        elif name and columns and cells[:1] == ["0"]:
            found[name] = _row([*cells[1:], *[""] * (columns + 1 - len(cells))])
            name = ""
        elif cells[:1] == ["SUM"] and len(cells) > 2 and cells[1] in found:
            found[cells[1]] = _row(list(found[cells[1]].values()), cells[2])
    return found


def _json(data: t.Mapping[str, t.Any]) -> dict[str, dict[str, float | None]]:
    """Return the matrices of the JSON output."""
    found = {}
    for case in data["nvbandwidth"].get("testcases", []):
        if case["status"] == "Passed":
            found[case["name"]] = _row([cell for row in case["bandwidth_matrix"] for cell in row], case.get("sum"))
    return found


def _row(cells: t.Sequence[t.Any], total: t.Any = None) -> dict[str, float | None]:
    """Return numbers by position; None for a GPU that was not measured, and for all if their sum is another one."""
    found = throughput.whole([throughput.figure(cell) for cell in cells], total)
    return {str(place): value for place, value in enumerate(found)}
