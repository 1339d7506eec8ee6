# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks of NVLink: which links are up, and whether their error counters grow."""

from __future__ import annotations

import typing as t

from . import counters, readings
from .verdict import Finding, NotApplicableError, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case


def state(case: Case) -> Finding:
    """Check that every GPU has all its links up."""
    expected = int(case.number("links"))
    found = readings.links(case.machine, case.number("timeout_seconds"), case.tool("nvidia-smi"), _whole(case))
    return judge_links(expected, found)


def judge_links(expected: int, found: dict[int, dict[int, str]]) -> Finding:
    """Count the links with a rate; anything else is a link that is down."""
    faults = []
    for gpu, links in found.items():
        active = [
            link for link, words in links.items() if words.lower().endswith("gb/s") and not words.startswith("0 ")
        ]
        down = [f"{link} {words}" for link, words in links.items() if link not in active]
        if len(active) != expected:
            faults.append(f"GPU {gpu}: {len(active)}" + (f" (link {listing(down)})" if down else ""))
    return (
        unhealthy(f"{expected} NVLinks up per GPU", listing(faults))
        if faults
        else healthy(f"{expected} NVLinks up on {len(found)} GPUs")
    )


def errors(case: Case) -> Finding:
    """Check that no error counter of a link grows quickly."""
    found = readings.link_errors(case.machine, case.number("timeout_seconds"), case.tool("nvidia-smi"), _whole(case))
    if not found:
        raise UnknownError("nvidia-smi nvlink -e prints no counter")
    limits = dict.fromkeys(found, case.number("growth_max"))
    return counters.judge(found, limits, case.number("window_seconds"), case.kept(), case.machine.now())


def _whole(case: Case) -> list[int] | None:
    """Return the GPUs that are not in MIG mode, which disables NVLink; None if no GPU is in MIG mode."""
    gpus = case.gpus()
    if not any(gpu.mig for gpu in gpus):
        return None
    whole = [int(gpu.number("index")) for gpu in gpus if not gpu.mig]
    if not whole:
        raise NotApplicableError("every GPU is in MIG mode, which switches NVLink off")
    return whole
