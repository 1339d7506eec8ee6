# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Shared storage that the template makes: Azure Files over NFS, Azure NetApp Files, Azure Managed Lustre."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import names, network, subnets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import VERSIONS, zones

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

    Storage = Mapping[str, t.Any]

_ACCOUNT = "Microsoft.Storage/storageAccounts"
_ANF = "Microsoft.NetApp/netAppAccounts"
_AMLFS = "Microsoft.StorageCache/amlFilesystems"
_GIB = 2**30


def account(scope: Scope) -> str:
    """Return the name of the storage account."""
    cluster = scope.cluster
    return names.storage_account(scope.name, cluster["subscription_id"], cluster["resource_group"])


def resources(scope: Scope) -> list[Resource]:
    """Return the resources of all storage of the cluster."""
    makers = {"azure_files": _azure_files, "anf": _anf, "amlfs": _amlfs}
    entries = [entry for entry in scope.cluster["storage"] if entry["type"] in makers]
    return [resource for entry in entries for resource in makers[entry["type"]](scope, entry)]


def mounts(scope: Scope) -> list[dict[str, t.Any]]:
    """Return the entries of nfs_mounts whose server is known before the storage exists."""
    found: list[dict[str, t.Any]] = []
    for entry in scope.cluster["storage"]:
        if entry["type"] == "azure_files":
            server = f"{account(scope)}.file.core.windows.net"
            # azure-docs, articles/storage/files/storage-files-how-to-mount-nfs-shares.md.
            source = f"{server}:/{account(scope)}/shared"
            found.append({"path": entry["path"], "source": source, "options": "vers=4.1,sec=sys,nconnect=4"})
        elif entry["type"] == "existing":
            kind = {"type": "lustre"} if entry["filesystem"] == "lustre" else {}
            found.append({"path": entry["path"], "source": entry["source"], **kind})
    return found


def outputs(scope: Scope) -> Resource:
    """Return the outputs of the template: what nfs_mounts needs of storage whose address Azure chooses."""
    cluster, kinds = scope.cluster, {entry["type"] for entry in scope.cluster["storage"]}
    volume = scope.id(f"{_ANF}/capacityPools/volumes", cluster["name"], "shared", "shared")
    lustre = scope.id(_AMLFS, cluster["name"])
    found = {}
    if "anf" in kinds:
        found["address_of_anf"] = _reference(volume, "Microsoft.NetApp", "mountTargets[0].ipAddress")
    if "amlfs" in kinds:
        found["address_of_amlfs"] = _reference(lustre, "Microsoft.StorageCache", "clientInfo.mgsAddress")
    return found


def _reference(resource: str, provider: str, path: str) -> Resource:
    return {"type": "string", "value": f"[reference('{resource}', '{VERSIONS[provider]}').{path}]"}


def _azure_files(scope: Scope, entry: Storage) -> list[Resource]:
    """Return a share that only the subnets of the cluster reach. NFS has no encryption and no login of its own."""
    name = account(scope)
    rules = [{"id": network.subnet_id(scope, part), "action": "Allow"} for part in ("head", "nodes")]
    properties = {
        "accessTier": "Premium",
        "allowBlobPublicAccess": False,
        "allowSharedKeyAccess": False,
        "minimumTlsVersion": "TLS1_2",
        "networkAcls": {"bypass": "None", "defaultAction": "Deny", "virtualNetworkRules": rules},
        # On, it refuses NFS without the TLS tunnel of aznfs: "How encryption in transit for NFS shares works",
        # https://learn.microsoft.com/azure/storage/files/encryption-in-transit-for-nfs-shares.
        "supportsHttpsTrafficOnly": False,
    }
    share = {"enabledProtocols": "NFS", "rootSquash": "NoRootSquash", "shareQuota": entry["size_gib"]}
    sku = {"name": "Premium_LRS"}
    return [
        scope.resource(_ACCOUNT, name, network.depends(scope), sku=sku, kind="FileStorage", properties=properties),
        scope.child(
            f"{_ACCOUNT}/fileServices/shares",
            f"{name}/default/shared",
            [scope.id(_ACCOUNT, name)],
            properties=share,
        ),
    ]


def _anf(scope: Scope, entry: Storage) -> list[Resource]:
    """Return an account, a pool and a volume that take the whole size."""
    name, size = scope.name, entry["size_gib"] * _GIB
    pool, volume = f"{_ANF}/capacityPools", f"{_ANF}/capacityPools/volumes"
    own = subnets.addresses(scope.cluster)
    rule = {
        "ruleIndex": 1,
        "allowedClients": f"{own['head']},{own['nodes']}",
        "nfsv3": False,
        "nfsv41": True,
        "cifs": False,
        "unixReadOnly": False,
        "unixReadWrite": True,
        "hasRootAccess": True,
    }
    properties = {
        "creationToken": f"{name}-shared",
        "serviceLevel": entry["service_level"],
        "usageThreshold": size,
        "protocolTypes": ["NFSv4.1"],
        "networkFeatures": "Standard",
        "subnetId": network.subnet_id(scope, "anf"),
        "exportPolicy": {"rules": [rule]},
        "unixPermissions": "0755",
    }
    level = {"serviceLevel": entry["service_level"], "size": size, "qosType": "Auto"}
    needs = [scope.id(pool, name, "shared"), *network.depends(scope)]
    return [
        scope.resource(_ANF, name, properties={}),
        scope.resource(pool, f"{name}/shared", [scope.id(_ANF, name)], properties=level),
        scope.resource(volume, f"{name}/shared/shared", needs, properties=properties),
    ]


def _amlfs(scope: Scope, entry: Storage) -> list[Resource]:
    properties = {
        "storageCapacityTiB": entry["size_tib"],
        "filesystemSubnet": network.subnet_id(scope, "amlfs"),
        "maintenanceWindow": {"dayOfWeek": "Sunday", "timeOfDayUTC": "03:00"},
    }
    return [
        scope.resource(
            _AMLFS,
            scope.name,
            network.depends(scope),
            sku={"name": entry["sku"]},
            zones=zones(entry["zone"]),
            properties=properties,
        )
    ]
