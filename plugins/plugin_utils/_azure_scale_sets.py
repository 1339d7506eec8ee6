# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Uniform scale sets: their instances, interfaces and addresses are lists below each set."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils import _azure_model as model

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_arm import Lists

    Row = dict[str, t.Any]


class Members(t.NamedTuple):
    """What belongs to some scale sets."""

    machines: list[Row]
    nics: list[Row]
    addresses: list[Row]


def is_uniform(scale_set: Row) -> bool:
    """Return whether the instances of a set are not machines of their own; flexible members are."""
    return str(scale_set["mode"]).lower() != "flexible"


def wanted(scale_sets: Iterable[Row], groups: tuple[str, ...], names: tuple[str, ...] = ()) -> list[Row]:
    """Return the uniform sets in the wanted resource groups, with the wanted names if any are given."""
    lowered = {group.lower() for group in groups}
    return [
        one
        for one in scale_sets
        if is_uniform(one)
        and ("*" in lowered or model.part(one["id"], "resourcegroups").lower() in lowered)
        and (not names or str(one["name"]).lower() in names)
    ]


def set_of(machine: Row) -> str:
    """Return the id, in lower case, of the scale set of a machine, or an empty text."""
    machine_id = str(machine["id"]).lower()
    if "/virtualmachinescalesets/" in machine_id:
        return machine_id.rpartition("/virtualmachines/")[0]
    return str(machine.get("vmssId") or "").lower()


def outdated(scale_sets: Iterable[Row], machines: Iterable[Row]) -> list[Row]:
    """Return the sets of which a different number of instances was seen than Resource Manager counts."""
    seen: dict[str, int] = {}
    for machine in machines:
        owner = set_of(machine)
        seen[owner] = seen.get(owner, 0) + 1
    return [
        one for one in scale_sets if one["capacity"] is not None and seen.get(one["id"].lower(), 0) != one["capacity"]
    ]


def without(rows: Iterable[Row], scale_sets: Iterable[Row]) -> list[Row]:
    """Return the rows that do not lie below any of the sets."""
    dropped = {one["id"].lower() for one in scale_sets}
    return [row for row in rows if str(row["id"]).lower().partition("/virtualmachines/")[0] not in dropped]


def read(lists: Lists, scale_sets: Iterable[Row], start: Callable[..., t.Any]) -> list[t.Any]:
    """Start to read instances, interfaces and addresses of each set; the answers come as (kind, rows)."""
    waiting = []
    for one in scale_sets:
        waiting += [start(f"instances of {one['name']}", "machines", lists.instances, one["id"])]
        waiting += [start(f"network interfaces of {one['name']}", "nics", lists.instance_nics, one["id"])]
        waiting += [start(f"public addresses of {one['name']}", "addresses", lists.instance_addresses, one["id"])]
    return waiting
