# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Search for the slow node or path: select the groups to measure again, and those to measure next."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import isolation
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import limits, results

Raw = t.Mapping[str, t.Any]


def again(raw: Raw, repeats: int = 2) -> dict[str, t.Any]:
    """
    Return by kind the groups and operations that were slow or failed, and were measured less than C(repeats) times.

    What failed is repeated even if no limit is known. Wrong results are not, because they count in any case.
    """
    least = limits.minimums(raw)
    found = {}
    for kind in results.TITLES:
        short = [
            result
            for result in results.settled(kind, raw)
            if (not result["busbw"] or result["busbw"] < limits.least(limits.threshold(result, raw, least[kind])))
            and len(result["samples"]) < repeats
            and not results.wrong(result)
        ]
        if short:
            found[kind] = {
                "groups": list({tuple(result["nodes"]): result["nodes"] for result in short}.values()),
                "collectives": list(dict.fromkeys(result["collective"] for result in short)),
            }
    return found


def isolate(raw: Raw, repeats: int = 2) -> dict[str, t.Any]:
    """Return the groups to measure next, and the verdict so far; empty if all groups pass."""
    raw = results.known(raw)
    least = limits.minimums(raw)
    lowest = {kind: limits.least(limit) for kind, limit in least.items()}
    nodes = list(raw.get("nodes") or [])
    pairs = [result for result in raw.get("pair") or [] if results.first(result, raw)]
    whole = [result for result in raw.get("all") or [] if results.first(result, raw)]
    seen = [_observation(result) for result in [*pairs, *whole, *(raw.get("search") or [])]]
    well = not any((item.value or 0.0) < lowest["pair" if len(item.nodes) == 2 else "all"] for item in seen)
    if well or not lowest["pair"]:
        return {"again": again(raw, repeats), "next": [], "verdict": None}
    options: dict[str, t.Any] = {"many": lowest["all"], "repeats": repeats}
    groups = isolation.next_groups(nodes, seen, lowest["pair"], **options)
    return {
        "again": again(raw, repeats),
        "next": [list(group) for group in groups],
        "verdict": isolation.verdict(nodes, seen, lowest["pair"], **options),
    }


def _observation(result: Raw) -> isolation.Observation:
    """Return a result in the form that the search accepts."""
    return isolation.Observation(tuple(result["nodes"]), result["busbw"])
