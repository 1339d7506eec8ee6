# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check of the NVSwitch fabric: CUDA fails on a GPU that the fabric manager has not registered."""

from __future__ import annotations

import typing as t

from . import gpu
from .verdict import Finding, NotApplicableError, UnknownError, tidy

if t.TYPE_CHECKING:
    from .case import Case
    from .readings import Gpu

# Registration states of NVML in addition to "not supported".
STATES = ("Not Started", "In Progress", "Completed")


def state(case: Case) -> Finding:
    """Check that the fabric manager has registered every GPU that is behind NVSwitches."""
    return gpu.each(case.gpus(), fault, "registered with the fabric")


def fault(one: Gpu) -> str:
    """Return the registration state or, if complete, its failed status; return nothing for a registered GPU."""
    if one.mig:
        raise NotApplicableError("is in MIG mode")
    if not one.available("fabric.state"):
        raise NotApplicableError("reports no fabric")
    found, status = (one.row[f"fabric.{field}"].strip() for field in ("state", "status"))
    if found not in STATES:
        raise UnknownError(f"{one.name}: fabric.state is {tidy(found, 60)!r}, not one of {', '.join(STATES)}")
    if found != "Completed":
        return found
    return status if one.available("fabric.status") and status != "Success" else ""
