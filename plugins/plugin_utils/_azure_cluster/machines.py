# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The machines: controller, login machines and nodes, each a virtual machine whose name is its host name.

Nodes are fixed: one that is deallocated keeps its name, its address and its disk, and starts again. For InfiniBand, the
nodes of a set are in one availability set, because machines of a flexible scale set have none, and those of a uniform
one have no fixed names: "Orchestration modes for Virtual Machine Scale Sets in Azure", row InfiniBand networking,
https://learn.microsoft.com/azure/virtual-machine-scale-sets/virtual-machine-scale-sets-orchestration-modes.
"""

from __future__ import annotations

import base64
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import network, rights
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

if t.TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

MACHINE = "Microsoft.Compute/virtualMachines"
_DISK = "Microsoft.Compute/disks"
_PLACEMENT = "Microsoft.Compute/availabilitySets"
# What Ansible needs, and nothing else: site.yml sets up the rest. Azure refuses to change it in a machine that exists,
# so it never changes.
_CLOUD_CONFIG = "#cloud-config\nssh_pwauth: false\npackages: [openssh-server, python3]\n"


def names_of_set(scope: Scope, entry: Mapping[str, t.Any], existing: Collection[str]) -> list[str]:
    """Return the names of the nodes of a set: those that exist, then the lowest free numbers up to C(count)."""
    prefix = f"{scope.name}-{entry['name']}-"
    there = {int(name[len(prefix) :]) for name in existing if name.startswith(prefix) and name[len(prefix) :].isdigit()}
    free = (number for number in range(1, entry["count"] + len(there) + 1) if number not in there)
    new = [next(free) for _missing in range(entry["count"] - len(there))]
    return [f"{prefix}{number}" for number in sorted([*there, *new])]


def too_many(scope: Scope, existing: Collection[str]) -> list[str]:
    """Return a sentence for each set with more machines than its count: azure_up never makes a set smaller."""
    found = []
    for entry in scope.cluster["gpu_sets"]:
        there = names_of_set(scope, entry, existing)
        if len(there) > entry["count"]:
            found.append(
                f"azure_cluster.gpu_sets: the set {entry['name']} has count {entry['count']}, but {len(there)} machines"
                f" exist. azure_up deletes none. Set count to {len(there)}; or remove nodes that you name with"
                " playbooks/node_remove.yml, then delete their machines with playbooks/azure_scale.yml -e nodes=NAME"
            )
    return found


def resources(scope: Scope, existing: Collection[str]) -> list[Resource]:
    """Return the data disks of the controller, the machines with their interfaces, and the placements of the nodes."""
    cluster = scope.cluster
    found = _disks(scope) + _one(scope, f"{scope.name}-controller", "controller,database,build,nfs_server", "head")
    for number in range(1, cluster["login"]["count"] + 1):
        found += _one(scope, f"{scope.name}-login-{number}", "login", "head")
    for entry in cluster["gpu_sets"]:
        found += _placement(scope, entry)
        for name in names_of_set(scope, entry, existing):
            found += _one(scope, name, "compute", "nodes", entry)
    return found


def _one(scope: Scope, name: str, role: str, subnet: str, entry: Mapping[str, t.Any] | None = None) -> list[Resource]:
    """Return a machine and its interface."""
    size = entry or scope.cluster["login" if role == "login" else "controller"]
    return [network.interface(scope, name, subnet), _machine(scope, name, role, size)]


def _machine(scope: Scope, name: str, role: str, size: Mapping[str, t.Any]) -> Resource:
    """Return a machine. I(size) is a set of nodes, the controller or login."""
    interface = scope.id("Microsoft.Network/networkInterfaces", name)
    head = role.startswith("controller")
    identity = rights.attached(scope) if head else None
    disks = [scope.id(_DISK, disk["name"]) for disk in _disks(scope)] if head else []
    placement = [scope.id(_PLACEMENT, one["name"]) for one in (_placement(scope, size) if role == "compute" else ())]
    own = {"gpucluster_set": size["name"]} if role == "compute" else {}
    properties: Resource = {
        "hardwareProfile": {"vmSize": size["vm_size"]},
        "storageProfile": _storage(scope, size, disks),
        "osProfile": _system(scope, name),
        # The interface goes with its machine, also when azure_scale.yml deletes it.
        "networkProfile": {
            "networkInterfaces": [{"id": interface, "properties": {"primary": True, "deleteOption": "Delete"}}]
        },
        # No profile can mean Trusted Launch, and Secure Boot refuses the drivers of the HPC images.
        "securityProfile": {"securityType": "Standard"},
        "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        **({"availabilitySet": {"id": placement[0]}} if placement else {}),
    }
    depends = [interface, *disks, *placement, *(identity or {}).get("userAssignedIdentities", ())]
    tags = scope.tags(slurm_cluster=scope.name, slurm_role=role, **own)
    return scope.resource(MACHINE, name, depends, tags=tags, identity=identity, properties=properties)


def _system(scope: Scope, name: str) -> Resource:
    admin = scope.cluster["admin"]
    path = f"/home/{admin['name']}/.ssh/authorized_keys"
    return {
        "computerName": name,
        "adminUsername": admin["name"],
        "customData": base64.b64encode(_CLOUD_CONFIG.encode()).decode(),
        "linuxConfiguration": {
            "disablePasswordAuthentication": True,
            "provisionVMAgent": True,
            "ssh": {"publicKeys": [{"path": path, "keyData": key} for key in admin["ssh_keys"]]},
        },
    }


def _storage(scope: Scope, size: Mapping[str, t.Any], disks: list[str]) -> Resource:
    image = size.get("image") or scope.cluster["image"]
    words = ("publisher", "offer", "sku", "version")
    return {
        "imageReference": {"id": image} if image.startswith("/") else dict(zip(words, image.split(":"), strict=True)),
        "osDisk": {
            "createOption": "FromImage",
            "caching": "ReadWrite",
            "deleteOption": "Delete",
            "diskSizeGB": size["os_disk_gib"],
            "managedDisk": {"storageAccountType": "Premium_LRS"},
        },
        "dataDisks": [
            # The disk has the homes of all people. It stays if its machine is deleted.
            {
                "lun": lun,
                "createOption": "Attach",
                "caching": "None",
                "deleteOption": "Detach",
                "managedDisk": {"id": disk},
            }
            for lun, disk in enumerate(disks)
        ],
    }


def _disks(scope: Scope) -> list[Resource]:
    """Return the data disks of the controller as resources of their own, so that they outlive it."""
    return [
        scope.resource(
            _DISK,
            f"{scope.name}-data-{number}",
            sku={"name": disk["sku"]},
            properties={"creationData": {"createOption": "Empty"}, "diskSizeGB": disk["size_gib"]},
        )
        for number, disk in enumerate(scope.cluster["controller"]["data_disks"])
    ]


def _placement(scope: Scope, entry: Mapping[str, t.Any]) -> list[Resource]:
    """Return the availability set of a set of nodes with InfiniBand; racks of NVLink get none."""
    record = records.find(entry["vm_size"])
    if not record["infiniband"]["hcas"] or records.machines_of_nvlink(record) > 1:
        return []
    name = f"{scope.name}-{entry['name']}"
    properties = {"platformFaultDomainCount": 2, "platformUpdateDomainCount": 20}
    return [scope.resource(_PLACEMENT, name, sku={"name": "Aligned"}, properties=properties)]
