# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Run the checks of the site with LBNL Node Health Check (NHC), which reports faults but never marks the node."""

from __future__ import annotations

import os
import re
import typing as t

from .process import DONE, MISSING, TIMEOUT
from .verdict import Finding, NotApplicableError, NotRunError, UnknownError, healthy, listing, tidy, unhealthy

if t.TYPE_CHECKING:
    from .case import Case

# This program and NHC set it for each other. A program that finds it does not start the other one again.
INSIDE = "GPUCLUSTER_NHC"
_GRACE = 10  # seconds for NHC to end after its timeout
_FAILED = re.compile(r"^ERROR:\s+\S+:\s+Health check failed:\s+(.*)", re.MULTILINE)


def check(case: Case) -> Finding:
    """Run NHC and return its result as a finding."""
    program = case.text("path")
    if os.environ.get(INSIDE):
        raise NotApplicableError("NHC has started this program and runs its checks itself")
    result = case.machine.run([program], case.number("timeout_seconds") + _GRACE, env={INSIDE: "yes"})
    if result.state == MISSING:
        raise NotRunError(f"{program}: no such program")
    if result.state == TIMEOUT:
        raise UnknownError(f"{program} gave no answer in time")
    failed = _FAILED.findall(result.out)
    if failed:
        return unhealthy("the site's checks to pass", listing(failed))
    if result.state != DONE or result.rc:
        raise UnknownError(f"{program} ended with {result.rc}: {tidy(result.text, 160) or 'without a word'}")
    return healthy("the site's checks pass")
