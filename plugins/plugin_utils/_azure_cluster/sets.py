# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Sets of nodes: their placement groups, each one scale set, and their system disks."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import names, sizes

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    Set = Mapping[str, t.Any]

# An ephemeral disk takes this much of the temporary disk, where that is at least four times as big.
_DISK_GIB = 256


@dataclasses.dataclass(frozen=True)
class Group:
    """One placement group of a set: its scale set, the number of machines now, and the most it can have."""

    scale_set: str
    count: int
    max_count: int


def groups(cluster: Mapping[str, t.Any], entry: Set, capacities: Mapping[str, int]) -> list[Group]:
    """
    Return the placement groups of a set; the first ones are full before the next one has a machine.

    I(capacities) has the current number of machines by scale set. It takes precedence over C(count), so that a second
    run does not undo a change of the scale.
    """
    wanted = entry["count"]
    found = []
    for number, most in enumerate(_sizes(entry), 1):
        name = names.scale_set(cluster["name"], entry["name"], number)
        count = min(wanted, most)
        wanted -= count
        found.append(Group(name, min(capacities.get(name, count), most), most))
    return found


def scale_set_names(cluster: str, entry: Set) -> list[str]:
    """Return the names of the scale sets of a set."""
    return [names.scale_set(cluster, entry["name"], number) for number, _most in enumerate(_sizes(entry), 1)]


def most(entry: Set) -> int:
    """Return the most machines that a set can have."""
    return int(entry["max_count"] if entry["max_count"] is not None else max(entry["count"], 1))


def proximity(entry: Set) -> bool:
    """
    Return whether the groups of a set share a proximity placement group.

    The default is no: it constrains the allocation, and the placement group already has the machines on one fabric.
    Source: "Proximity placement groups", https://learn.microsoft.com/azure/virtual-machines/co-location
    """
    return bool(entry["proximity"]) and not reserved(entry)


def reserved(entry: Set) -> bool:
    """Return whether a set uses a capacity reservation."""
    return bool(entry["capacity_reservation"]["type"] != "none")


def ephemeral(entry: Set) -> bool:
    """Return whether the system disk of a set is on the temporary disk."""
    return bool(system_disk(entry)["type"] == "ephemeral")


def system_disk(entry: Set) -> dict[str, t.Any]:
    """Return the system disk of a set; V(auto) is ephemeral where the temporary disk is big enough."""
    disk = dict(entry["os_disk"])
    if disk["type"] == "auto":
        big = sizes.find(entry["vm_size"]).temp_gib >= 4 * _DISK_GIB
        disk["type"] = "ephemeral" if big else "managed"
    if disk["size_gib"] is None:
        disk["size_gib"] = _DISK_GIB
    return {"sku": "Premium_LRS", **disk}


def _sizes(entry: Set) -> list[int]:
    """Return the most machines of each placement group."""
    limit, left = entry["instances_per_group"], most(entry)
    full = [limit] * (left // limit)
    return [*full, left % limit] if left % limit else full
