# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks of NVLink: which links are up, and whether their error counters grow."""

from __future__ import annotations

import re
import typing as t

from . import counters, readings
from .verdict import UNHEALTHY, Finding, NotApplicableError, UnknownError, healthy, listing, tidy, unhealthy

if t.TYPE_CHECKING:
    from .case import Case


_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) GB/s", re.IGNORECASE)
_DOWN = re.compile(r"<?(?:inactive|disabled|off)>?|(?:ERR!|\[?N/A\]?|\[?Not Supported\]?)(?: GB/s)?", re.IGNORECASE)
_ASLEEP = "in Sleep state"  # the form of an idle link of newer GPUs

# Kinds of counters. A link repeats what these count; _LOST_MAX is the limit of counters of lost data.
_REPEATED = re.compile(r"replay|crc|discard", re.IGNORECASE)
_RECOVERY = re.compile(r"recovery", re.IGNORECASE)
_FAILED = re.compile(r"recovery.*fail|fail.*recovery", re.IGNORECASE)
_RECOVERY_MAX, _LOST_MAX = 3.0, 100.0
# A counter of 16 or 32 bits that has reached its highest value grows no more.
_CEILINGS = (2**16 - 1, 2**32 - 1)


def state(case: Case) -> Finding:
    """Check that every GPU has all its links up, each as fast as the others."""
    expected = int(case.number("links"))
    found = readings.links(case.machine, case.number("timeout_seconds"), case.tool("nvidia-smi"), *_whole(case))
    return judge_links(expected, found)


def judge_links(expected: int, found: dict[int, dict[int, str]]) -> Finding:
    """Count the links with a rate. A state that is no known word is no verdict, unless other links have a fault."""
    rates = {(gpu, link): _rate(words) for gpu, links in found.items() for link, words in links.items()}
    fastest = max((rate for rate in rates.values() if rate), default=0.0)
    faults, doubts, slower = [], [], False
    for gpu, links in found.items():
        doubts += [
            f"GPU {gpu}: link {link} is {tidy(words, 60)!r}: neither a rate nor a link that is down"
            for link, words in links.items()
            if rates[gpu, link] is None and words != _ASLEEP
        ]
        down = [link for link in links if rates[gpu, link] == 0]
        slow = [link for link in links if 0 < (rates[gpu, link] or 0) < fastest]
        up = len(links) - len(down)
        if len(found) == 1 and not down and 0 < up < expected:
            # The lists of several GPUs show which one is cut; a single list does not.
            doubts.append(f"GPU {gpu}: {up} links are listed, not {expected}, and none of them is down")
        elif up != expected or slow:
            odd = [f"{link} {links[link]}" for link in (*down, *slow)]
            faults.append(f"GPU {gpu}: {up}" + (f" (link {listing(odd)})" if odd else ""))
            slower = slower or bool(slow)
    if faults:
        return unhealthy(f"{expected} NVLinks up per GPU" + (f" at {fastest:.10g} GB/s" * slower), listing(faults))
    if doubts:
        raise UnknownError(listing(doubts))
    return healthy(f"{expected} NVLinks up on {len(found)} GPUs")


def _rate(words: str) -> float | None:
    """Return the rate of a link in GB/s, 0 for a link that is down, or None for a link that sleeps or other words."""
    rate = _RATE.fullmatch(words)
    if rate:
        return float(rate[1])
    return 0.0 if _DOWN.fullmatch(words) else None


def errors(case: Case) -> Finding:
    """Check that no error counter of a link grows quickly or has reached its end, and that no recovery failed."""
    found = readings.link_errors(case.machine, case.number("timeout_seconds"), case.tool("nvidia-smi"), *_whole(case))
    if not found:
        raise UnknownError("nvidia-smi nvlink -e prints no counter")
    limits = {name: _limit(name, case.number("growth_max")) for name in found}
    grown = counters.judge(found, limits, case.number("window_seconds"), case.kept(), case.machine.now())
    at_once = [
        f"{name} {value}" for name, value in found.items() if (value and _FAILED.search(name)) or value in _CEILINGS
    ]
    if not at_once:
        return grown
    return unhealthy(
        "no failed recovery of a link, and no counter at its highest value",
        listing([*at_once, *([grown.found] if grown.status == UNHEALTHY else [])]),
        grown.keep,
    )


def _limit(name: str, growth_max: float) -> float:
    """Return the limit of a counter by its kind. A lower growth_max is the limit of every kind."""
    if _FAILED.search(name):
        return 0.0
    if _RECOVERY.search(name):
        return min(_RECOVERY_MAX, growth_max)
    return growth_max if _REPEATED.search(name) else min(_LOST_MAX, growth_max)


def _whole(case: Case) -> tuple[list[int], bool]:
    """Return the GPUs that are not in MIG mode, which disables NVLink, and whether these are all GPUs."""
    gpus = case.gpus()
    whole = [int(gpu.number("index")) for gpu in gpus if not gpu.mig]
    if not whole:
        raise NotApplicableError("every GPU is in MIG mode, which switches NVLink off")
    return whole, len(whole) == len(gpus)
