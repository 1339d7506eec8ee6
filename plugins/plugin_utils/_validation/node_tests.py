# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the output of the tests of single nodes: DCGM diagnostics and nvbandwidth."""

from __future__ import annotations

import json
import re
import typing as t

_MATRIX = re.compile(r"^Running (\w+)\.?\s*$")
_WORDS = {"pass": "pass", "skip": "not_run", "warn": "warn", "fail": "fail"}


def dcgm(text: str) -> tuple[str, str]:
    """Return status and message of C(dcgmi diag --json). Output that cannot be parsed means failed."""
    try:
        data = json.loads(text[text.index("{") : text.rindex("}") + 1])
    except ValueError:
        return "fail", "the output of dcgmi is not JSON, or cut"
    found = list(_statuses(data, ""))
    worst = [(name, word) for name, word in found if _WORDS.get(word, "fail") in ("fail", "warn")]
    if not any(_WORDS.get(word) == "pass" for _name, word in found):
        return "fail", "no test of dcgmi passed"
    if not worst:
        return "pass", f"{sum(_WORDS.get(word) == 'pass' for _name, word in found)} results"
    level = "fail" if any(_WORDS.get(word, "fail") == "fail" for _name, word in worst) else "warn"
    return level, "; ".join(dict.fromkeys(f"{name}: {word}" for name, word in worst))


def nvbandwidth(text: str) -> dict[str, dict[str, float | None]]:
    """Return GB/s by GPU for each test that ran, from plain or JSON output; the sum would hide one bad GPU."""
    if "{" in text:
        try:
            return _json(json.loads(text[text.index("{") : text.rindex("}") + 1]))
        except (ValueError, KeyError, TypeError):
            return {}
    found: dict[str, dict[str, float | None]] = {}
    name = None
    for line in text.splitlines():
        match = _MATRIX.match(line.strip())
        if match:
            name = match.group(1)
        elif name and re.match(r"^\s*0\s+\S*\d+\.\d", line):
            found[name] = _row(line.split()[1:])
            name = None
    return found


def _statuses(data: t.Any, name: str) -> t.Iterator[tuple[str, str]]:
    """Yield name and status of every entry with a status."""
    if isinstance(data, dict):
        name = str(data.get("name") or data.get("category") or name)
        if isinstance(data.get("status"), str):
            yield name, data["status"].lower()
        for value in data.values():
            yield from _statuses(value, name)
    elif isinstance(data, list):
        for value in data:
            yield from _statuses(value, name)


def _json(data: t.Mapping[str, t.Any]) -> dict[str, dict[str, float | None]]:
    """Return the matrices of the JSON output."""
    found = {}
    for case in data["nvbandwidth"].get("testcases", []):
        if case["status"] == "Passed":
            found[case["name"]] = _row([str(cell) for row in case["bandwidth_matrix"] for cell in row])
    return found


def _row(cells: t.Sequence[str]) -> dict[str, float | None]:
    """Return numbers by position."""
    return {str(place): float(cell) if re.match(r"^\d", cell) else None for place, cell in enumerate(cells)}
