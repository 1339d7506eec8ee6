# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find what lies in a resource group beside the resources of a stack: what Azure made for them, and what is foreign."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import ownership
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import template as templates

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.writer import Writer

    Body = dict[str, t.Any]

_COMPUTE, _NETWORK = "2025-04-01", "2025-05-01"
# API versions for deletion, machines before what they use.
_VERSIONS = {
    "microsoft.compute/virtualmachinescalesets": _COMPUTE,
    "microsoft.compute/virtualmachines": _COMPUTE,
    "microsoft.compute/disks": "2025-01-02",
    "microsoft.network/bastionhosts": _NETWORK,
    "microsoft.network/networkinterfaces": _NETWORK,
    "microsoft.network/virtualnetworks": _NETWORK,
    "microsoft.network/natgateways": _NETWORK,
    "microsoft.network/publicipaddresses": _NETWORK,
    "microsoft.network/networksecuritygroups": _NETWORK,
    "microsoft.compute/capacityreservationgroups": _COMPUTE,
    "microsoft.compute/proximityplacementgroups": _COMPUTE,
    "microsoft.managedidentity/userassignedidentities": "2023-01-31",
    "microsoft.storage/storageaccounts": "2024-01-01",
}


class Content(t.NamedTuple):
    """What lies in the group beside the stack's resources (foreign has type and name), and those without our tag."""

    ours: list[Body]
    foreign: list[str]
    untagged: list[Body]


class Leftovers:
    """The resources that a stack does not manage; Microsoft documents that it leaves disks and the like."""

    def __init__(self, writer: Writer, group_id: str, cluster: str) -> None:
        self._writer = writer
        self._group_id = group_id
        self._cluster = cluster
        self._ours: list[Body] = []

    def sorted(self, managed: Sequence[Body]) -> Content:
        """Return the resources of the group that the stack does not manage, by owner."""
        known = [str(one["id"]).lower() for one in managed]
        ours, foreign, untagged = [], [], []
        for row in self._rows():
            name = str(row.get("id")).lower()
            if name in known and not self._is_tagged(row):
                untagged.append(row)
            inside = any(name.startswith(f"{one}/") for one in known)
            if name in known or (inside and ownership.owner(row) in (None, self._cluster)):
                continue
            if self._belongs(row, known):
                ours.append(row)
            else:
                foreign.append(f"{row.get('type')} {row.get('name')}")
        self._ours = ours
        return Content(ours, foreign, untagged)

    def _rows(self) -> list[Body]:
        return self._writer.rows(f"{self._group_id}/resources", templates.GROUP_VERSION)

    def _belongs(self, row: Body, known: Sequence[str]) -> bool:
        """Return whether a resource has the tag of the cluster, or is used by a resource of the stack."""
        if ownership.owner(row) not in (None, self._cluster):
            return False
        owner = str(row.get("managedBy") or "").lower()
        used = any(owner == one or owner.startswith(f"{one}/") for one in known)
        return used or self._is_tagged(row)

    def _is_tagged(self, row: Body) -> bool:
        return ownership.owner(row) == self._cluster

    def delete(self) -> None:
        """Delete what is left of our own; a type without a known API version is an error that names it."""
        there = {str(one.get("id")).lower() for one in self._rows()}
        order = list(_VERSIONS)
        rest = [one for one in self._ours if str(one["id"]).lower() in there]
        unknown = [one for one in rest if str(one["type"]).lower() not in _VERSIONS]
        for one in sorted(
            (one for one in rest if one not in unknown), key=lambda row: order.index(row["type"].lower())
        ):
            self._writer.delete(str(one["id"]), _VERSIONS[str(one["type"]).lower()])
        if unknown:
            names = ", ".join(f"{one['type']} {one['name']}" for one in unknown)
            raise RequestError(409, "LeftOver", f"delete these yourself: {names}")
