# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Set the limits of bandwidth: known thresholds, or a fraction of the bandwidth of good groups in the same run.

Operations other than the first one have no thresholds of their own; they are compared with the first one.
"""

from __future__ import annotations

import math
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import results, shortfalls

Raw = t.Mapping[str, t.Any]

# The minimum of a group without a known threshold, as a fraction of the bandwidth of good pairs.
_NCCL = {"node": 0.9, "pair": 0.85, "all": 0.7}
# Results of CPUs that share a host with others vary widely: only a large fault is visible.
_MPI = {"node": 0.1, "pair": 0.1, "all": 0.02}
# Bus bandwidth is similar for all operations. On four H200, these two reached 0.9 of the bandwidth of all-reduce.
_OTHERS = {"all_gather": 0.7, "reduce_scatter": 0.7}
_LEAST_OTHER = 0.4


def reference(values: t.Sequence[float]) -> float | None:
    """Return the bandwidth of good groups: the upper quartile, because one bad node slows half of the pairs or more."""
    ordered = sorted(values)
    return ordered[math.ceil(0.75 * len(ordered)) - 1] if ordered else None


def minimums(raw: Raw) -> dict[str, t.Any]:
    """Return the thresholds of groups by kind, C(node), C(pair) and C(all): the given ones, or else fractions."""
    fractions = {**(_MPI if raw.get("program") == "mpi" else _NCCL), **(raw.get("relative") or {})}
    given = raw.get("thresholds") or {}
    good = {}
    for kind in ("node", "pair"):
        settled = [result for result in results.settled(kind, raw) if result["busbw"] and results.first(result, raw)]
        good[kind] = reference([result["busbw"] for result in settled])
    good["all"] = good["pair"] or good["node"]
    found: dict[str, t.Any] = {}
    for kind, value in good.items():
        if given.get(kind):
            found[kind] = shortfalls.levels(kind, given[kind])
        else:
            found[kind] = {"fail": fractions[kind] * value} if value else {}
    return found


def threshold(result: Raw, raw: Raw, limits: dict[str, float]) -> dict[str, float]:
    """Return the threshold of a result."""
    return limits if results.first(result, raw) else _other(limits, result["collective"])


def _other(limits: t.Mapping[str, float], collective: str) -> dict[str, float]:
    """Return the threshold of an operation without its own: a fraction of the known one, below which it warns."""
    least = limits.get("fail", limits.get("warn"))
    return {"warn": least * _OTHERS.get(collective, _LEAST_OTHER)} if least else {}


def why(raw: Raw, kind: str, result: Raw) -> str:
    """Return a sentence about the source of the threshold of a result."""
    fractions = {**(_MPI if raw.get("program") == "mpi" else _NCCL), **(raw.get("relative") or {})}
    given = (raw.get("thresholds") or {}).get(kind)
    source = (raw.get("limits_from") or {}).get(kind) or "validate_thresholds"
    if not given:
        whose = "nodes" if kind == "node" else "pairs"
        source = f"{fractions[kind]:.0%} of what good {whose} of this run reach, for no limit is known"
    if results.first(result, raw):
        return source
    first = (raw.get("collectives") or ["all_reduce"])[0]
    share = _OTHERS.get(result["collective"], _LEAST_OTHER)
    return f"{share:.0%} of the limit of {first}, for none of {result['collective']} itself is known: it only warns"


def unlimited(raw: Raw) -> list[str]:
    """Return the measured kinds without their own limit; limits of all nodes follow from the pairs."""
    given = raw.get("thresholds") or {}
    return [
        kind
        for kind in ("node", "pair")
        if any(result["busbw"] for result in raw.get(kind) or [])
        and not (given.get(kind) and least(shortfalls.levels(kind, given[kind])))
    ]


def relative(kinds: t.Sequence[str]) -> str:
    """Return a message about the kinds without a limit, if there are any."""
    titles = " and ".join(results.TITLES[kind].rstrip(",") for kind in kinds)
    return f"no limit is known for the bandwidth {titles}: figures are only compared with each other" if kinds else ""


def least(limits: t.Mapping[str, float]) -> float:
    """Return the lowest value that passes without a warning."""
    return limits.get("warn", limits.get("fail", 0.0))
