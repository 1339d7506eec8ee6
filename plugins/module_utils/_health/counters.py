# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Judge counters by their growth within a time window; the memory stores earlier values with their times."""

from __future__ import annotations

import typing as t

from .verdict import Finding, healthy, listing, unhealthy

_MOST_EVENTS = 200


def judge(
    found: dict[str, int], limits: dict[str, float], window: float, kept: dict[str, t.Any], now: float
) -> Finding:
    """
    Compare the growth of each counter within the window with its limit.

    A counter that is new or that decreased (a reset, a reloaded driver) starts again.
    """
    memory: dict[str, t.Any] = {}
    faults = []
    for name, value in found.items():
        last, events = _remembered(kept.get(name), now, window)
        if last is not None and value > last:
            events.append([now, value - last])
        grown = sum(event[1] for event in events) if events else 0
        if grown > limits[name]:
            faults.append(f"{name} {grown:.10g}")
        memory[name] = {"last": value, "events": events[-_MOST_EVENTS:]}
    hours = window / 3600
    if faults:
        least = sorted({f"{limits[name]:.10g}" for name in found})
        return unhealthy(f"growth of at most {'/'.join(least)} in {hours:.10g} h", listing(faults), keep=memory)
    return healthy(f"no counter of {len(found)} grew beyond its limit in {hours:.10g} h", keep=memory)


def _remembered(entry: t.Any, now: float, window: float) -> tuple[int | None, list[list[float]]]:
    """Return the last value and the events that still count; ignore damaged memory."""
    if not isinstance(entry, dict) or not isinstance(entry.get("last"), int):
        return None, []
    if not entry.get("events"):
        return entry["last"], []
    events = [
        [float(event[0]), float(event[1])]
        for event in entry["events"]
        if isinstance(event, list) and len(event) == 2 and 0 <= now - event[0] <= window
    ]
    return entry["last"], events
