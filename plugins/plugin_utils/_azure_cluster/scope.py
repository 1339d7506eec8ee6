# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What every resource of the template shares: its API version, its place, its tags, and names that do not change."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Resource = dict[str, t.Any]

# One API version for each provider: the default of the SDK whose models the unit tests check every template with
# (requirements-dev.txt). No SDK of the tests has the models of Logic Apps and of resource groups.
VERSIONS = {
    "Microsoft.Authorization": "2022-04-01",
    "Microsoft.Compute": "2026-04-01",
    "Microsoft.Logic": "2019-05-01",
    "Microsoft.ManagedIdentity": "2024-11-30",
    "Microsoft.Network": "2026-03-01",
}
# Of disks; their models are in the same SDK, with a version of their own.
DISKS = "2026-03-02"


class Scope:
    """The resource group of a cluster, and the tags of its resources."""

    def __init__(self, cluster: Mapping[str, t.Any]) -> None:
        """Keep the cluster with its defaults."""
        self.cluster = cluster
        self.name: str = cluster["name"]
        self.group_id = f"/subscriptions/{cluster['subscription_id']}/resourceGroups/{cluster['resource_group']}"

    def id(self, kind: str, name: str) -> str:
        """Return the id of a resource in the group."""
        return f"{self.group_id}/providers/{kind}/{name}"

    def tags(self, **own: str) -> dict[str, str]:
        """Return the tags of a resource; azure_down and azure_scale trust gpucluster_cluster."""
        return {**self.cluster["tags"], "gpucluster_cluster": self.name, **own}

    def resource(self, kind: str, name: str, depends: Iterable[str] = (), /, **parts: t.Any) -> Resource:
        """Return a resource with its type, version, name, location and tags; parts that are None are omitted."""
        version = DISKS if kind == "Microsoft.Compute/disks" else VERSIONS[kind.partition("/")[0]]
        return {
            "type": kind,
            "apiVersion": version,
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
