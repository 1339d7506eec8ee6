# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Decide which scale sets grow, which instances go, and what an error of Azure means. Pure functions."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import ADVICE, NO_CAPACITY
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ScaleError, instances

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import Instance, ScaleSet


class Growth(t.NamedTuple):
    """A scale set and its new number of instances."""

    scale_set: ScaleSet
    capacity: int


def growths(sets: Sequence[ScaleSet], count: int) -> list[Growth]:
    """Return the scale sets that must grow so that the set has count machines; the first ones are filled first."""
    missing = count - sum(len(_kept(one)) for one in sets)
    found = []
    for one in sets:
        have = len(_kept(one))
        more = min(one.limit - have, missing)
        if more > 0:
            found.append(Growth(one, have + more))
            missing -= more
    if missing > 0:
        raise ScaleError(_too_many(sets, count))
    return found


def _kept(scale_set: ScaleSet) -> list[Instance]:
    """Return the instances that stay; broken ones are deleted before a scale set grows."""
    return [one for one in scale_set.instances if not one.broken]


def _too_many(sets: Sequence[ScaleSet], count: int) -> str:
    room = " + ".join(str(one.limit) for one in sets)
    names = ", ".join(one.name for one in sets)
    most = sum(one.limit for one in sets)
    return (
        f"count is {count}, but the set has {len(sets)} scale sets ({names}) for {room} = {most} instances. "
        "Set max_count of this set in azure_cluster.gpu_sets, run azure_up, which makes another scale set, then scale."
    )


def victims(sets: Sequence[ScaleSet], nodes: Sequence[str]) -> tuple[dict[str, list[Instance]], list[str]]:
    """Return the instances to delete by scale set, and the nodes that have no instance any more."""
    by_name = {name: one for one in instances(sets) for name in (one.name.lower(), one.node)}
    found: dict[str, list[Instance]] = {}
    missing = []
    for node in dict.fromkeys(name.lower() for name in nodes):
        one = by_name.get(node)
        if one:
            found.setdefault(one.scale_set, []).append(one)
        else:
            missing.append(node)
    return found, missing


_NO_MACHINES = (
    "Azure has no free machines of this size here now. Try again later, ask for fewer, or choose another zone or region"
)
_ADVICE = {
    **ADVICE,
    **dict.fromkeys(NO_CAPACITY, _NO_MACHINES),
    "skunotavailable": "This size is not offered here for this subscription; 'az vm list-skus' shows where it is",
    "quotaexceeded": "Ask for more quota: Azure portal, Quotas, Compute, the family of this size in this region",
    "authorizationfailed": (
        "The caller lacks a permission. It needs Microsoft.Compute/virtualMachineScaleSets/write, delete/action, "
        "start/action and virtualMachines/read, as in the role Virtual Machine Contributor"
    ),
    "scopelocked": "A lock on the resource group or the scale set forbids the change; remove it first",
    "conflict": "Another change of this scale set is in progress; run it again when that is done",
    "operationpreempted": "Another change of this scale set took its place; run it again",
}


def advice(error: RequestError, spot: bool) -> str:
    """Return what a person can do about an error of Azure, or an empty string."""
    found = next((_ADVICE[one.kind] for one in error.causes if one.kind in _ADVICE), "")
    if found == _NO_MACHINES and spot:
        return f"{found}. Spot machines come last: a set with priority regular, or with another size, may get some"
    return found


def explained(error: RequestError, spot: bool) -> str:
    """Return an error with what to do about it."""
    more = advice(error, spot)
    return f"{error}. {more}." if more else str(error)
