# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Return the results of measured groups by kind, with one result for several measurements of a group."""

from __future__ import annotations

import typing as t

Raw = t.Mapping[str, t.Any]

ONE_GPU = "not measured: one GPU"
# The kinds of groups, as parts of the titles of checks.
TITLES = {"node": "in one node,", "pair": "between two nodes,", "all": "over all nodes,"}


def known(raw: Raw) -> Raw:
    """Return the input without jobs that did not measure, which prove nothing about their nodes."""
    kinds = {kind: [result for result in raw.get(kind) or [] if not lost(result)] for kind in (*TITLES, "search")}
    return {**raw, **kinds}


def alone(result: Raw) -> Raw:
    """Return a result of one rank as not measured, because it reached no other GPU: its bandwidth is always 0."""
    one = result.get("state") == "ok" and result.get("world") == 1 and result["busbw"] == 0
    return {**result, **not_measured(result["nodes"], result["collective"], ONE_GPU)} if one else result


def not_measured(nodes: t.Sequence[str], collective: str, message: str) -> dict[str, t.Any]:
    """Return the result of a group that was not measured."""
    return {
        "nodes": list(nodes),
        "collective": collective,
        "state": "not_measured",
        "message": message,
        "busbw": None,
        "rows": [],
        "checked": False,
    }


def lost(result: Raw) -> bool:
    """Return whether a job ended before its measurement."""
    return result.get("state") == "not_measured"


def first(result: Raw, raw: Raw) -> bool:
    """Return whether a result belongs to the operation that has thresholds."""
    return bool(result["collective"] == (raw.get("collectives") or ["all_reduce"])[0])


def settled(kind: str, raw: Raw) -> list[dict[str, t.Any]]:
    """
    Return one result for each group and operation of a kind, with all C(samples) of its bandwidth.

    The upper median of several measurements counts, because noise only reduces bandwidth. But wrong results always
    count, because noise does not cause them. C(failures) has the messages of the measurements that failed.
    """
    found: dict[tuple[frozenset[str], str], list[Raw]] = {}
    for result in raw.get(kind) or []:
        found.setdefault((frozenset(result["nodes"]), result["collective"]), []).append(result)
    for result in raw.get("search") or []:
        # The search measures some groups again.
        found.get((frozenset(result["nodes"]), result["collective"]), []).append(result)
    return [
        {
            **next((result for result in same if wrong(result)), sorted(same, key=level)[len(same) // 2]),
            "samples": [result["busbw"] for result in same],
            "failures": [result["message"] for result in same if result["busbw"] is None],
        }
        for same in found.values()
    ]


def wrong(result: Raw) -> bool:
    """Return whether the program found wrong results."""
    return bool(result.get("wrong"))


def level(result: Raw) -> float:
    """Return the bandwidth; zero if the measurement failed."""
    return result["busbw"] or 0.0
