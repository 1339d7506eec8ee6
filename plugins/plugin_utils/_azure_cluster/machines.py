# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The controller and the login machines: one interface and one virtual machine each."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import access, identity, images, network
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import zones

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

    Machine = Mapping[str, t.Any]

_INTERFACE = "Microsoft.Network/networkInterfaces"
_MACHINE = "Microsoft.Compute/virtualMachines"


def roles(scope: Scope) -> dict[str, str]:
    """Return the tag slurm_role of each machine by name: what the inventory plugin makes groups from."""
    serves = any(storage["type"] == "head" for storage in scope.cluster["storage"])
    controller = ["controller", "database", "build", *(["nfs_server"] if serves else [])]
    logins = range(1, scope.cluster["login"]["count"] + 1)
    return {
        f"{scope.name}-controller": ",".join(controller),
        **{f"{scope.name}-login-{number}": "login" for number in logins},
    }


def resources(scope: Scope) -> list[Resource]:
    """Return the interfaces and machines."""
    found = []
    for name, role in roles(scope).items():
        part = "login" if role == "login" else "controller"
        found += [_interface(scope, name), _machine(scope, name, role, scope.cluster[part])]
    return found


def linux(scope: Scope) -> Resource:
    """Return the configuration that all machines share: keys of the administrator, and no passwords."""
    admin = scope.cluster["admin"]
    path = f"/home/{admin['name']}/.ssh/authorized_keys"
    return {
        "disablePasswordAuthentication": True,
        "provisionVMAgent": True,
        "ssh": {"publicKeys": [{"path": path, "keyData": key} for key in admin["ssh_keys"]]},
    }


def _interface(scope: Scope, name: str) -> Resource:
    ip: Resource = {
        "primary": True,
        "privateIPAllocationMethod": "Dynamic",
        "subnet": {"id": network.subnet_id(scope, "head")},
    }
    depends = [network.security_group_id(scope, "head"), *network.depends(scope)]
    if scope.cluster["access"]["type"] == "public" and name == access.entrance(scope):
        address = network.public_address_id(scope, name)
        ip["publicIPAddress"] = {"id": address}
        depends.append(address)
    return scope.resource(
        _INTERFACE,
        name,
        depends,
        properties={
            "enableAcceleratedNetworking": True,
            "networkSecurityGroup": {"id": network.security_group_id(scope, "head")},
            "ipConfigurations": [{"name": "primary", "properties": ip}],
        },
    )


def _machine(scope: Scope, name: str, role: str, machine: Machine) -> Resource:
    part = "nodes" if role == "login" else "controller"
    interface = scope.id(_INTERFACE, name)
    return scope.resource(
        _MACHINE,
        name,
        [interface, identity.identity_id(scope, part)],
        tags=scope.tags(slurm_cluster=scope.name, slurm_role=role),
        zones=zones(machine["zone"]),
        identity=identity.attached(scope, part),
        properties={
            "hardwareProfile": {"vmSize": machine["vm_size"]},
            "storageProfile": _storage(scope, machine),
            "osProfile": _system(scope, name),
            "networkProfile": {"networkInterfaces": [_attached(interface)]},
            "securityProfile": security(scope),
            "diagnosticsProfile": {"bootDiagnostics": {"enabled": True}},
        },
    )


def security(scope: Scope) -> Resource:
    """
    Return the security profile of all machines, always with a type.

    With Compute API 2025-11-01 and newer, no profile can mean Trusted Launch: Secure Boot refuses the OFED modules of
    the HPC images. Source: "SecurityTypes Enum",
    https://learn.microsoft.com/python/api/azure-mgmt-compute/azure.mgmt.compute.models.securitytypes
    """
    return {"securityType": scope.cluster["security_type"]}


def _attached(interface: str) -> Resource:
    return {"id": interface, "properties": {"primary": True, "deleteOption": "Delete"}}


def _system(scope: Scope, name: str) -> Resource:
    return {
        "computerName": name,
        "adminUsername": scope.cluster["admin"]["name"],
        "linuxConfiguration": linux(scope),
    }


def _storage(scope: Scope, machine: Machine) -> Resource:
    disk = machine["os_disk"]
    return {
        "imageReference": images.reference(machine["image"] or scope.cluster["image"]),
        "osDisk": {
            "createOption": "FromImage",
            "caching": "ReadWrite",
            "deleteOption": "Delete",
            "diskSizeGB": disk["size_gib"],
            "managedDisk": {"storageAccountType": disk["sku"]},
        },
        "dataDisks": [_data_disk(number, disk) for number, disk in enumerate(machine.get("data_disks", ()))],
    }


def _data_disk(number: int, disk: Mapping[str, t.Any]) -> Resource:
    """
    Return a data disk, which remains if its machine is deleted, because it may have the homes of all people.

    Source: "Delete a VM and attached resources", https://learn.microsoft.com/azure/virtual-machines/delete
    """
    return {
        "lun": number,
        "createOption": "Empty",
        "caching": "None",
        "deleteOption": "Detach",
        "diskSizeGB": disk["size_gib"],
        "managedDisk": {"storageAccountType": disk["sku"]},
    }
