# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check the figures of groups of nodes, and of the slowest GPU of each node, against thresholds and other results."""

from __future__ import annotations

import math
import statistics
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import shortfalls
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import (
    FAIL,
    NOT_RUN,
    PASS,
    WARN,
    Check,
    check,
    natural,
)


def bandwidth(
    results: t.Sequence[t.Mapping[str, t.Any]],
    name: str,
    title: str,
    *,
    threshold: t.Any = None,
    relative: t.Mapping[str, float] | None = None,
) -> list[Check]:
    """Return one check per measured group; groups of the same operation are compared with each other."""
    found = []
    for collective in dict.fromkeys(result["collective"] for result in results):
        groups = [result for result in results if result["collective"] == collective]
        measured = {collective: {group(result): result["busbw"] for result in groups}}
        limits = {collective: threshold} if threshold else {}
        short = {
            item.name: item
            for item in shortfalls.shortfalls(measured, limits, relative=relative)
            if item.metric == collective
        }
        levels = shortfalls.levels(collective, threshold) if threshold else {}
        for result in groups:
            found.append(
                _bandwidth(result, short.get(group(result)), f"{name}.{collective}", f"{title} {collective}", levels)
            )
    return found


def memcpy(
    measured: t.Mapping[str, t.Mapping[str, float | None]],
    name: str,
    title: str,
    threshold: t.Any,
    gpus: int = 0,
    most: float = math.inf,
) -> list[Check]:
    """
    Return one check per node for its slowest GPU; O(measured) maps nodes to GB/s by GPU.

    A node of which not all GPUs were measured has failed; O(gpus) is how many it has, 0 if that is not known.
    A figure above O(most) is no measurement.
    """
    odd = {node: [value for value in found.values() if value and value > most] for node, found in measured.items()}
    measured = {
        node: {gpu: None if value in odd[node] else value for gpu, value in found.items()}
        for node, found in measured.items()
    }
    slowest = {
        node: min((value for value in gpus.values() if value is not None), default=None)
        for node, gpus in measured.items()
    }
    limits = {name: threshold} if threshold else {}
    levels = shortfalls.levels(name, threshold) if threshold else {}
    short = {item.name: item for item in shortfalls.shortfalls({name: slowest}, limits)}
    found = []
    for node, value in slowest.items():
        item = short.get(node)
        known, number = [v for v in measured[node].values() if v is not None], max(gpus, len(measured[node]))
        text = item.message if item else f"slowest of {number} GPUs; median {statistics.median(known):.4g}"
        text += "" if item or threshold else "; no limit is known"
        level = item.level if item else PASS
        if len(known) < number:
            level, more = FAIL, f"; {item.message}" if item else ""
            text = f"{len(known)} of {number} GPUs measured{more}"
            text += f"; {odd[node][0]:.10g} GB/s is no measurement: at most {most:.4g} is possible" if odd[node] else ""
        found.append(
            check(
                name,
                title,
                level,
                text,
                node,
                measured=value,
                expected=levels.get("expected"),
                limits=levels,
                margin=margin(value, levels),
                unit="GB/s",
            )
        )
    return found


def margin(measured: float | None, levels: t.Mapping[str, float]) -> float | None:
    """Return the fraction by which a figure is above the lowest value that passes; negative if it is below."""
    least = levels.get("warn", levels.get("fail"))
    return None if measured is None or not least else measured / least - 1


def limited(measured: float, least: float) -> dict[str, t.Any]:
    """Return the limit below which a figure fails, and the margin to it, for a check."""
    levels = {"fail": least}
    return {"limits": levels, "margin": margin(measured, levels)}


def unjudged(item: Check) -> Check:
    """Return a passed check as not run, because it has no limit and no other results to compare with."""
    if item["status"] != PASS:
        return item
    text = f"{item['group']}: {item['measured']:.4g} {item['unit']}, but no limit is known and nothing to compare with"
    # A limit that comes from the figure itself is none.
    return {**item, "status": NOT_RUN, "message": text, "expected": None, "limits": {}, "margin": None}


def group(result: t.Mapping[str, t.Any]) -> str:
    """Return a name for a group of nodes."""
    nodes = sorted(result["nodes"], key=natural)
    return " - ".join(nodes) if len(nodes) < 3 else f"{nodes[0]} to {nodes[-1]} ({len(nodes)} nodes)"


def _above(measured: float | None, levels: t.Mapping[str, float]) -> str:
    """Return a message with the margin of a figure that passed."""
    part, least = margin(measured, levels), levels.get("warn", levels.get("fail"))
    expected = f", expected {levels['expected']:.4g}" if "expected" in levels else ""
    return "" if part is None else f"{part:.0%} above the limit of {least:.4g}{expected}"


def _bandwidth(
    result: t.Mapping[str, t.Any], short: shortfalls.Shortfall | None, name: str, title: str, levels: dict[str, float]
) -> Check:
    """Return the check of one group."""
    status, message = PASS, _above(result["busbw"], levels)
    if result["state"] != "ok":
        status, message = NOT_RUN if result["state"] == "not_measured" else FAIL, result["message"]
    elif short:
        unit = " GB/s" if short.message[-1].isdigit() else ""
        status, message = short.level, f"{short.message}{unit}{_samples(result)}"
    elif not result["checked"]:
        status, message = WARN, "the program did not check its results"
    elif result.get("failures"):
        status = WARN
        message = f"{result['busbw']:.4g} GB/s{_samples(result)}; the failure: {result['failures'][0]}"
    who = group(result)
    return check(
        name,
        title,
        status,
        f"{who}: {message}" if message and len(result["nodes"]) > 1 else message,
        result["nodes"][0] if len(result["nodes"]) == 1 else None,
        group=who,
        measured=result["busbw"],
        expected=levels.get("expected"),
        limits=levels,
        margin=margin(result["busbw"], levels),
        unit="GB/s",
        size=result.get("largest"),
    )


def _samples(result: t.Mapping[str, t.Any]) -> str:
    """Return the samples if there are several."""
    samples = result.get("samples") or []
    figures = ", ".join("failed" if value is None else f"{value:.4g}" for value in samples)
    return f"; measured {len(samples)} times: {figures}" if len(samples) > 1 else ""
