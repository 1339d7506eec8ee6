# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Scale sets of the GPU nodes, one for each placement group.

InfiniBand needs uniform orchestration and a single placement group (azure-compute-docs,
virtual-machine-scale-sets-orchestration-modes.md), which Azure never gives to a scale set later. Nodes are not made in
surplus, and no image is changed below a running job (upgrade mode Manual).
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import (
    identity,
    images,
    machines,
    names,
    network,
    sets,
    sizes,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import zones

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

    Set = Mapping[str, t.Any]

_SCALE_SET = "Microsoft.Compute/virtualMachineScaleSets"
_PROXIMITY = "Microsoft.Compute/proximityPlacementGroups"
_RESERVATIONS = "Microsoft.Compute/capacityReservationGroups"


def resources(scope: Scope, capacities: Mapping[str, int]) -> list[Resource]:
    """Return the scale sets, and what each set needs before them."""
    found: list[Resource] = []
    for entry in scope.cluster["gpu_sets"]:
        found += _proximity(scope, entry) + _reservation(scope, entry)
        groups = sets.groups(scope.cluster, entry, capacities)
        found += [_scale_set(scope, entry, group) for group in groups]
    return found


def _name(scope: Scope, entry: Set) -> str:
    return names.of_set(scope.name, entry["name"])


def _proximity(scope: Scope, entry: Set) -> list[Resource]:
    """Return the group that keeps the placement groups of a set near each other."""
    if not sets.proximity(entry):
        return []
    properties = {"proximityPlacementGroupType": "Standard", "intent": {"vmSizes": [_size(entry)]}}
    return [scope.resource(_PROXIMITY, _name(scope, entry), zones=zones(entry["zone"]), properties=properties)]


def _size(entry: Set) -> str:
    """Return the name of the size as the catalogue spells it."""
    return sizes.find(entry["vm_size"]).name


def _reservation(scope: Scope, entry: Set) -> list[Resource]:
    """Return a new capacity reservation."""
    reservation = entry["capacity_reservation"]
    if reservation["type"] != "new":
        return []
    name, zone = _name(scope, entry), zones(entry["zone"])
    member = scope.resource(
        f"{_RESERVATIONS}/capacityReservations",
        f"{name}/{entry['name']}",
        [scope.id(_RESERVATIONS, name)],
        sku={"name": _size(entry), "capacity": reservation["count"] or entry["count"]},
        zones=zone,
        properties={},
    )
    return [scope.resource(_RESERVATIONS, name, zones=zone, properties={}), member]


def _reservation_id(scope: Scope, entry: Set) -> str:
    reservation = entry["capacity_reservation"]
    return str(reservation.get("id") or scope.id(_RESERVATIONS, _name(scope, entry)))


def _depends(scope: Scope, entry: Set) -> list[str]:
    found = [network.security_group_id(scope, "nodes"), identity.identity_id(scope, "nodes"), *network.depends(scope)]
    if sets.proximity(entry):
        found.append(scope.id(_PROXIMITY, _name(scope, entry)))
    if entry["capacity_reservation"]["type"] == "new":
        found.append(scope.id(_RESERVATIONS, _name(scope, entry)))
        found.append(scope.id(f"{_RESERVATIONS}/capacityReservations", _name(scope, entry), entry["name"]))
    return found


def _scale_set(scope: Scope, entry: Set, group: sets.Group) -> Resource:
    # Machines without a role are in no group of the inventory: Slurm, not Ansible, knows those of an elastic set.
    role = {} if entry["elastic"] else {"slurm_role": "compute"}
    tags = scope.tags(slurm_cluster=scope.name, **role, gpucluster_set=entry["name"])
    properties: Resource = {
        "orchestrationMode": "Uniform",
        # Azure reserves no capacity for single placement groups. It refuses them for GB200 and GB300 ("Vertical Connect
        # Feature is not available"), which no page of Microsoft says.
        "singlePlacementGroup": not sets.reserved(entry) and sizes.find(entry["vm_size"]).rack == 1,
        "platformFaultDomainCount": 1,
        "overprovision": False,
        "upgradePolicy": {"mode": "Manual"},
        "virtualMachineProfile": _profile(scope, entry, group),
    }
    if sets.proximity(entry):
        properties["proximityPlacementGroup"] = {"id": scope.id(_PROXIMITY, _name(scope, entry))}
    return scope.resource(
        _SCALE_SET,
        group.scale_set,
        _depends(scope, entry),
        tags=tags,
        sku={"name": _size(entry), "tier": "Standard", "capacity": group.count},
        zones=zones(entry["zone"]),
        identity=identity.attached(scope, "nodes"),
        properties=properties,
    )


def _profile(scope: Scope, entry: Set, group: sets.Group) -> Resource:
    """Return what all machines of a scale set share."""
    profile: Resource = {
        "priority": "Spot" if entry["priority"] == "spot" else "Regular",
        "osProfile": {
            "computerNamePrefix": names.host_prefix(group.scale_set),
            "adminUsername": scope.cluster["admin"]["name"],
            "linuxConfiguration": machines.linux(scope),
        },
        "storageProfile": _storage(scope, entry),
        "networkProfile": {"networkInterfaceConfigurations": [_interface(scope)]},
        "securityProfile": machines.security(scope),
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
    }
    if entry["priority"] == "spot":
        profile.update(evictionPolicy=entry["eviction_policy"], billingProfile={"maxPrice": entry["max_price"]})
    if sets.reserved(entry):
        profile["capacityReservation"] = {"capacityReservationGroup": {"id": _reservation_id(scope, entry)}}
    return profile


def _storage(scope: Scope, entry: Set) -> Resource:
    disk = sets.system_disk(entry)
    system: Resource = {"createOption": "FromImage", "diskSizeGB": disk["size_gib"]}
    if disk["type"] == "ephemeral":
        # Azure requires the cache ReadOnly (ephemeral-os-disks-deploy.md).
        system.update(caching="ReadOnly", diffDiskSettings={"option": "Local", "placement": "ResourceDisk"})
        system["managedDisk"] = {"storageAccountType": "Standard_LRS"}
    else:
        system.update(caching="ReadWrite", managedDisk={"storageAccountType": disk["sku"]})
    return {"imageReference": images.reference(entry["image"] or scope.cluster["image"]), "osDisk": system}


def _interface(scope: Scope) -> Resource:
    ip = {"primary": True, "privateIPAddressVersion": "IPv4", "subnet": {"id": network.subnet_id(scope, "nodes")}}
    properties = {
        "primary": True,
        "enableAcceleratedNetworking": True,
        "networkSecurityGroup": {"id": network.security_group_id(scope, "nodes")},
        "ipConfigurations": [{"name": "primary", "properties": ip}],
    }
    return {"name": "primary", "properties": properties}
