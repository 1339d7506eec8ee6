# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How long tests wait. On a slow machine: GPUCLUSTER_TEST_PATIENCE=3. Molecule has molecule/patience.yml."""

from __future__ import annotations

import contextlib
import os
import time
import typing as t

PATIENCE = 600 * int(os.environ.get("GPUCLUSTER_TEST_PATIENCE") or 1)
# How long a stand-in hangs: what waits for its end is not within PATIENCE.
HANGS = 2 * PATIENCE
# Limits for the code under test. A slow machine needs a longer one until a stand-in has begun.
LIMITS = (0.5, 5.0, 50.0, float(PATIENCE))

Seen = t.TypeVar("Seen")


def wait_until(what: str, look: t.Callable[[], Seen], there: t.Callable[[], t.Any] | None = None) -> Seen:
    """Wait until C(look) returns something true, and return that. C(there) tells a failure what was there instead."""
    end = time.monotonic() + PATIENCE
    while not (seen := look()):
        if time.monotonic() > end:
            found = there() if there else seen
            raise AssertionError(f"waited {PATIENCE} s for this: {what}; there was: {found!r}")
        time.sleep(0.05)
    return seen


@contextlib.contextmanager
def within(what: str) -> t.Iterator[None]:
    """Fail if the block took as long as something that hangs."""
    begin = time.monotonic()
    yield
    took = time.monotonic() - begin
    assert took < PATIENCE, f"{what}: took {took:.0f} s, and is to end within {PATIENCE} s"


def slowness() -> float:
    """Return how many times longer than a usual machine this one computes, now and at least 1."""
    begin = time.process_time()
    sum(number * number for number in range(300_000))
    return max(1.0, (time.process_time() - begin) / 0.03)


# What a loaded machine may add. A wrong order of growth costs more; the budgets themselves are those of make bench.
LOADED = 10.0


@contextlib.contextmanager
def cheap(seconds: float) -> t.Iterator[None]:
    """Fail if the block costs much more than these seconds of a usual processor, as a wrong order of growth does."""
    begin = time.process_time()
    yield
    spent, most = time.process_time() - begin, seconds * LOADED
    assert spent < most or spent < most * slowness(), f"took {spent:.2f} s of processor time, more than {most} s"
