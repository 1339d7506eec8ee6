#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Query Prometheus on this machine with each expression of the boards, until each one has data.

Usage: boards.py SECONDS (how long to wait for data: rates need two readings).
An expression that shows only faults, such as mounts that are missing, is also queried without its last comparison.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
import typing as t
import urllib.parse
import urllib.request
from pathlib import Path

API = "http://127.0.0.1:9090/api/v1/query?query="
BOARDS = Path("/var/lib/gpucluster-grafana")
PATIENCE = int(sys.argv[1])
_FAULTS_ONLY = re.compile(r" (?:==|!=|>) [0-9.]+$")
_LABEL_VALUES = re.compile(r"label_values\((.*), (\w+)\)")


def answer(query: str) -> list[dict[str, t.Any]]:
    """Return the series that answer a query. Raise SystemExit for a query that Prometheus rejects."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(API + urllib.parse.quote(query), timeout=PATIENCE) as page:
            found: list[dict[str, t.Any]] = json.load(page)["data"]["result"]
    except OSError as exc:
        raise SystemExit(f"{query}: {exc}") from exc
    return found


def filled(board: dict[str, t.Any]) -> list[dict[str, str]]:
    """Return the values of the variables of a board, as a person could select them."""
    choices = []
    for variable in board["templating"]["list"]:
        match = _LABEL_VALUES.fullmatch(variable["query"])
        if not match:
            raise SystemExit(f"{board['title']}: unknown query of a variable: {variable['query']}")
        series, label = match.groups()
        values = sorted({one["metric"][label] for one in answer(series) if label in one["metric"]})
        choices.append([(f"${variable['name']}", value) for value in values])
    return [dict(choice) for choice in itertools.product(*choices)]


def empty(board: dict[str, t.Any]) -> list[str]:
    """Return the expressions of a board that have no data with any value of its variables."""
    selections, found = filled(board), []
    for panel in board["panels"]:
        for target in panel["targets"]:
            queries = []
            for selection in selections:
                query = target["expr"]
                for name, value in selection.items():
                    query = query.replace(name, value)
                queries += [query, _FAULTS_ONLY.sub("", query)]
            answers = [answer(query) for query in queries]
            if not any(answers):
                found.append(f"{board['title']}: {panel['title']}: {target['expr']}")
    return found


def main() -> int:
    """Print the expressions without data, and return 1 if there are some, or if there are no boards."""
    boards = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(BOARDS.glob("*.json"))]
    deadline = time.monotonic() + PATIENCE
    while (left := [line for board in boards for line in empty(board)]) and time.monotonic() < deadline:
        time.sleep(5)
    number = sum(len(panel["targets"]) for board in boards for panel in board["panels"])
    print("\n".join([*left, f"{number} expressions of {len(boards)} boards, {len(left)} without data"]))
    return int(bool(left) or len(boards) != 1)


if __name__ == "__main__":
    sys.exit(main())
