# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check of the NVSwitch fabric: CUDA fails on a GPU that the fabric manager has not registered."""

from __future__ import annotations

import typing as t

from . import gpu
from .verdict import Finding, NotApplicableError, UnknownError, listing, tidy

if t.TYPE_CHECKING:
    from .case import Case
    from .readings import Gpu

# Registration states of NVML in addition to "not supported".
STATES = ("Not Started", "In Progress", "Completed")
# What NVML calls an error, in nvmlErrorString and in nvidia-ml-py 13, for a registration that has failed.
_FAILED = (
    "uninitialized",
    "invalid argument",
    "not found",
    "insufficient permissions",
    "insufficient size",
    "insufficient memory",
    "insufficient external power",
    "insufficient resources",
    "driver not loaded",
    "timeout",
    "in use by another client",
    "no data",
    "not ready",
    "invalid state",
    "unknown error",
    "gpu is lost",
    "gpu requires reset",
    "gpu requires restart",
    "corrupted inforom",
    "function not found",
    "interrupt request issue",
    "the operating system has blocked the request.",
)
# Fields of drivers from 555 or 580 on, each with the words of nvidia-smi 580 for a healthy and for a faulty fabric.
_CONFIGURATION = (
    "incorrect systemguid",
    "incorrect chassis serial number",
    "no partition",
    "insufficient nvlink resources",
    "incompatible gpu firmware",
    "invalid location",
    "gpu state invalid",
)
HEALTH = {
    "summary": ("healthy", ("unhealthy", "limited capacity")),
    "bandwidth": ("full", ("degraded",)),
    "route_recovery_in_progress": ("false", ("true",)),
    "route_unhealthy": ("false", ("true",)),
    "access_timeout_recovery": ("false", ("true",)),
    "incorrect_configuration": ("none", _CONFIGURATION),
}


def state(case: Case) -> Finding:
    """Check that every GPU behind NVSwitches is registered with the fabric, and that the fabric is healthy."""
    return gpu.each(case.gpus(), fault, "registered with the fabric")


def fault(one: Gpu) -> str:
    """Return the registration state or, if complete, its failed status or the faults of the fabric; else nothing."""
    if one.mig:
        raise NotApplicableError("is in MIG mode")
    if not one.available("fabric.state"):
        raise NotApplicableError("reports no fabric")
    found, status = (one.row[f"fabric.{field}"].strip() for field in ("state", "status"))
    if found not in STATES:
        raise UnknownError(f"{one.name}: fabric.state is {tidy(found, 60)!r}, not one of {', '.join(STATES)}")
    if found != "Completed":
        return found
    if not one.available("fabric.status") or status == "Success":
        return _unhealthy(one)
    if status.strip("[]").lower() not in _FAILED:
        raise UnknownError(f"{one.name}: fabric.status is {tidy(status, 60)!r}, neither Success nor a known failure")
    return status


def _unhealthy(one: Gpu) -> str:
    """Return the fields of the fabric's health that report a fault."""
    faults, doubts = [], []
    for name, (right, wrong) in HEALTH.items():
        field = f"fabric.health.{name}"
        found = one.row.get(field, "").strip()
        if found.lower() in wrong:
            faults.append(f"{field} {found}")
        elif found.lower() != right and one.available(field):
            doubts.append(f"{field} is {tidy(found, 60)!r}")
    if doubts and not faults:
        raise UnknownError(f"{one.name}: {listing(doubts)}, not a known word")
    return " and ".join(faults)
