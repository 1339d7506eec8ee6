# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""One variable in, one literal template out."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import (
    access,
    identity,
    inputs,
    machines,
    network,
    scale_sets,
    sets,
    sizes,
    storage,
    summary,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Scope

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Cluster = Mapping[str, t.Any]

_SCHEMA = "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#"


def rendered(value: t.Any, capacities: Mapping[str, t.Any] | None = None) -> dict[str, t.Any]:
    """
    Return C(template), C(sets), C(summary), C(messages) and C(variables) of azure_cluster.

    I(capacities) has the current number of machines by scale set. Raises inputs.InputError with all faults.
    """
    scope = Scope(inputs.read(value))
    now = {str(name): int(count) for name, count in (capacities or {}).items()}
    groups = _sets(scope.cluster, now)
    return {
        "template": _template(scope, now),
        "sets": groups,
        "summary": summary.lines(scope, now, groups),
        "messages": list(_messages(scope.cluster)),
        "variables": summary.variables(scope),
        "name": scope.name,
        "subscription_id": scope.cluster["subscription_id"],
        "resource_group": scope.cluster["resource_group"],
        "location": scope.cluster["location"],
        "tags": scope.tags(),
    }


def _template(scope: Scope, capacities: Mapping[str, int]) -> dict[str, t.Any]:
    resources = [
        *network.resources(scope),
        *access.resources(scope),
        *identity.resources(scope),
        *machines.resources(scope),
        *storage.resources(scope),
        *scale_sets.resources(scope, capacities),
    ]
    outputs = storage.outputs(scope)
    rendered = {"$schema": _SCHEMA, "contentVersion": "1.0.0.0", "resources": resources}
    return {**rendered, "outputs": outputs} if outputs else rendered


def _sets(cluster: Cluster, capacities: Mapping[str, int]) -> list[dict[str, t.Any]]:
    """Return the scale sets with the set that each belongs to, in the order in which they grow."""
    return [
        {
            "set": entry["name"],
            "scale_set": group.scale_set,
            "vm_size": sizes.find(entry["vm_size"]).name,
            "count": group.count,
            "max_count": group.max_count,
            "priority": entry["priority"],
        }
        for entry in cluster["gpu_sets"]
        for group in sets.groups(cluster, entry, capacities)
    ]


def _messages(cluster: Cluster) -> Iterator[str]:
    """Yield what the template does that its author may not expect."""
    for entry in cluster["gpu_sets"]:
        scale = sets.scale_set_names(cluster["name"], entry)
        if len(scale) > 1:
            yield (
                f"gpu_sets.{entry['name']}: {sets.most(entry)} machines need {len(scale)} placement groups of at most"
                f" {entry['instances_per_group']} ({', '.join(scale)}); InfiniBand does not cross them, so the topology"
                " keeps a job in one where it fits"
            )
        if entry["instances_per_group"] > 100:
            yield (
                f"gpu_sets.{entry['name']}: more than 100 instances in a placement group need an agreement with Azure"
                " for the subscription"
            )
        if sets.reserved(entry):
            yield f"gpu_sets.{entry['name']}: Azure reserves no capacity for a single placement group"
    yield from _storage_messages(cluster)


def _storage_messages(cluster: Cluster) -> Iterator[str]:
    kinds = [entry["type"] for entry in cluster["storage"]]
    if "head" in kinds and not cluster["controller"]["data_disks"]:
        size = cluster["controller"]["os_disk"]["size_gib"]
        yield f"storage: homes are on the system disk of the controller ({size} GiB) without controller.data_disks"
    if cluster["network"]["type"] == "existing" and "azure_files" in kinds:
        yield "storage: the subnets of an existing network need the service endpoint Microsoft.Storage"
    # A role on a resource group gives no right on a subnet of another group.
    network = cluster["network"]
    elsewhere = network["type"] == "existing" and network["resource_group"].lower() != cluster["resource_group"].lower()
    if elsewhere and any(entry["elastic"] for entry in cluster["gpu_sets"]):
        yield (
            f"network: give the identity {cluster['name']}-controller the right Microsoft.Network/virtualNetworks/"
            "subnets/join/action on the subnet of the nodes; its own role ends at the resource group, "
            "and Azure starts no elastic node without it"
        )
    if cluster["network"]["type"] == "existing":
        yield "network: nothing is made or changed in an existing network; its subnets need a way out, such as NAT"
