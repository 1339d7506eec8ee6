# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Resources of a literal template: their API versions, ids and common parts. No expression but one reference()."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Resource = dict[str, t.Any]

# One API version for each provider: the default of the SDK whose models tests/unit check every template with
# (requirements-dev.txt: azure-mgmt-compute 39.0.0, -network 33.1.0, -storage 25.3.0, -netapp 18.0.0, -storagecache
# 4.1.0, -msi 7.1.0, -authorization 4.0.0).
VERSIONS = {
    "Microsoft.Compute": "2026-04-01",
    "Microsoft.Network": "2026-03-01",
    "Microsoft.Storage": "2026-09-01",
    "Microsoft.NetApp": "2026-08-01",
    "Microsoft.StorageCache": "2026-08-01",
    "Microsoft.ManagedIdentity": "2024-11-30",
    "Microsoft.Authorization": "2022-04-01",
}


class Scope:
    """The resource group of a cluster, and the tags of its resources."""

    def __init__(self, cluster: Mapping[str, t.Any]) -> None:
        self.cluster = cluster
        self.name: str = cluster["name"]
        self.group_id = group_id(cluster["subscription_id"], cluster["resource_group"])

    def id(self, kind: str, *names: str) -> str:
        """Return the id of a resource; I(kind) is C(PROVIDER/TYPE/SUBTYPE), with one name for each type."""
        return resource_id(self.group_id, kind, *names)

    def tags(self, **own: str) -> dict[str, str]:
        """Return the tags of a resource."""
        period = self.cluster["delete_after"]
        tags = {**self.cluster["tags"], "gpucluster_cluster": self.name, **own}
        return {**tags, "gpucluster_delete_after": period} if period else tags

    def resource(self, kind: str, name: str, depends: Iterable[str] = (), /, **parts: t.Any) -> Resource:
        """Return a resource with its type, version, name, location and tags; parts without a value are omitted."""
        return {
            "type": kind,
            "apiVersion": VERSIONS[kind.partition("/")[0]],
            "name": name,
            "location": self.cluster["location"],
            "tags": self.tags(),
            **{key: value for key, value in parts.items() if value is not None},
            **({"dependsOn": sorted(depends)} if depends else {}),
        }

    def child(self, kind: str, name: str, depends: Iterable[str] = (), /, **parts: t.Any) -> Resource:
        """Return a resource that has neither location nor tags."""
        whole = self.resource(kind, name, depends, **parts)
        return {key: value for key, value in whole.items() if key not in ("location", "tags")}


def group_id(subscription: str, group: str) -> str:
    """Return the id of a resource group."""
    return f"/subscriptions/{subscription}/resourceGroups/{group}"


def resource_id(group: str, kind: str, *names: str) -> str:
    """Return the id of a resource in a resource group."""
    provider, *types = kind.split("/")
    return "/".join([group, "providers", provider, *(part for pair in zip(types, names, strict=True) for part in pair)])


def zones(zone: str | None) -> list[str] | None:
    """Return the zones of a resource, or nothing for a regional one."""
    return [zone] if zone else None
