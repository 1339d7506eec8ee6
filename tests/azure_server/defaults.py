"""What a service adds to a resource and what it never shows: the cause of the noise in a real what-if."""

from __future__ import annotations

import copy
import re
import typing as t
import uuid

Item = dict[str, t.Any]

# By type: a path, with [] for each element of a list, and the value that the service sets if the template has none.
_NIC = "properties.virtualMachineProfile.networkProfile.networkInterfaceConfigurations[]"
DEFAULTS: dict[str, dict[str, t.Any]] = {
    "microsoft.compute/virtualmachinescalesets": {
        "sku.tier": "Standard",
        "properties.orchestrationMode": "Uniform",
        "properties.doNotRunExtensionsOnOverprovisionedVMs": False,
        "properties.virtualMachineProfile.priority": "Regular",
        "properties.virtualMachineProfile.storageProfile.osDisk.diskSizeGB": 64,
        "properties.virtualMachineProfile.storageProfile.osDisk.osType": "Linux",
        "properties.virtualMachineProfile.osProfile.allowExtensionOperations": True,
        "properties.virtualMachineProfile.osProfile.requireGuestProvisionSignal": True,
        f"{_NIC}.properties.disableTcpStateTracking": False,
        f"{_NIC}.properties.enableIPForwarding": False,
        f"{_NIC}.properties.dnsSettings": {"dnsServers": []},
        f"{_NIC}.properties.ipConfigurations[].properties.privateIPAddressVersion": "IPv4",
    },
    "microsoft.compute/virtualmachines": {
        "properties.osProfile.allowExtensionOperations": True,
        "properties.osProfile.requireGuestProvisionSignal": True,
        "properties.osProfile.secrets": [],
        "properties.storageProfile.osDisk.osType": "Linux",
        "properties.storageProfile.dataDisks": [],
        "properties.timeCreated": "2026-11-22T10:00:00.0000000+00:00",
    },
    "microsoft.network/virtualnetworks": {
        "properties.enableDdosProtection": False,
        "properties.virtualNetworkPeerings": [],
        "properties.subnets[].properties.delegations": [],
        "properties.subnets[].properties.privateEndpointNetworkPolicies": "Disabled",
        "properties.subnets[].properties.privateLinkServiceNetworkPolicies": "Enabled",
    },
    "microsoft.network/networksecuritygroups": {
        "properties.defaultSecurityRules": [
            {"name": "AllowVnetInBound", "properties": {"priority": 65000, "access": "Allow", "direction": "Inbound"}}
        ],
        "properties.securityRules[].properties.sourcePortRanges": [],
        "properties.securityRules[].properties.destinationPortRanges": [],
    },
    "microsoft.network/publicipaddresses": {
        "sku.tier": "Regional",
        "properties.idleTimeoutInMinutes": 4,
        "properties.ipTags": [],
        "properties.ddosSettings": {"protectionMode": "VirtualNetworkInherited"},
    },
    "microsoft.network/natgateways": {"properties.idleTimeoutInMinutes": 4},
    "microsoft.network/networkinterfaces": {
        "kind": "Regular",
        "properties.dnsSettings": {"dnsServers": [], "appliedDnsServers": []},
        "properties.enableIPForwarding": False,
        "properties.ipConfigurations[].properties.privateIPAddressVersion": "IPv4",
    },
    "microsoft.storage/storageaccounts": {"properties.minimumTlsVersion": "TLS1_0", "sku.tier": "Premium"},
    "microsoft.netapp/netappaccounts/capacitypools/volumes": {"properties.mountTargets": [{"ipAddress": "10.1.0.4"}]},
    "microsoft.storagecache/amlfilesystems": {"properties.clientInfo": {"mgsAddress": "10.1.0.5"}},
    "microsoft.authorization/roleassignments": {"properties.condition": None},
    "microsoft.authorization/roledefinitions": {"properties.createdBy": "44444444-0000-0000-0000-000000000000"},
}
# What a service accepts and never returns.
WRITE_ONLY = ("adminPassword", "customData", "userData")
# What only the service sets.
READ_ONLY = ("provisioningState", "uniqueId", "resourceGuid", "vmId", "principalId", "clientId", "tenantId", "etag")


def stored(kind: str, body: Item, old: Item | None) -> Item:
    """Return a resource as the service keeps it; old is what was there before."""
    made = t.cast("Item", _without(copy.deepcopy(body), WRITE_ONLY))
    for name in ("dependsOn", "apiVersion", "scope", "comments", "condition"):
        made.pop(name, None)
    made.setdefault("properties", {})
    for path, value in DEFAULTS.get(kind.lower(), {}).items():
        _fill(made, path.split("."), value)
    if kind.lower().startswith("microsoft.compute/"):
        made = _shouting(made)
    seed = uuid.uuid5(uuid.NAMESPACE_URL, str(made["id"]).lower())
    properties = made["properties"]
    properties["provisioningState"] = "Succeeded"
    if kind.lower() == "microsoft.managedidentity/userassignedidentities":
        properties.update(
            principalId=str(seed), clientId=str(uuid.uuid5(seed, "client")), tenantId=str(uuid.UUID(int=2))
        )
    elif not kind.lower().startswith("microsoft.authorization/"):
        properties["uniqueId" if "compute" in kind.lower() else "resourceGuid"] = str(seed)
    _carry(properties, (old or {}).get("properties") or {})
    return made


def _carry(properties: Item, old: Item) -> None:
    """Keep what the running machine has, and no template names."""
    for name in ("instanceView", "vmId", "virtualMachine", "macAddress", "ipAddress"):
        if name in old:
            properties.setdefault(name, old[name])
    for new, before in zip(properties.get("ipConfigurations") or [], old.get("ipConfigurations") or []):
        address = (before.get("properties") or {}).get("privateIPAddress")
        if address:
            new["properties"].setdefault("privateIPAddress", address)


def _fill(target: t.Any, path: list[str], value: t.Any) -> None:
    """Set a value if every parent of the path is there and the value is not."""
    name, *rest = path
    if name.endswith("[]"):
        for one in target.get(name[:-2]) or []:
            _fill(one, rest, value)
    elif rest:
        inner = target.setdefault(name, {}) if name == "sku" else target.get(name)
        if isinstance(inner, dict):
            _fill(inner, rest, value)
    else:
        target.setdefault(name, copy.deepcopy(value))


def _without(value: t.Any, names: tuple[str, ...]) -> t.Any:
    if isinstance(value, dict):
        return {key: _without(one, names) for key, one in value.items() if key not in names}
    return [_without(one, names) for one in value] if isinstance(value, list) else value


def _shouting(body: Item) -> Item:
    """Write the resource group of other resources in capitals, as Compute does."""

    def loud(value: t.Any) -> t.Any:
        if isinstance(value, dict):
            return {key: loud(one) for key, one in value.items()}
        if isinstance(value, list):
            return [loud(one) for one in value]
        if isinstance(value, str) and value.startswith("/subscriptions/"):
            return re.sub(r"(/resourceGroups/)([^/]+)", lambda match: match[1] + match[2].upper(), value)
        return value

    return {**loud({key: value for key, value in body.items() if key != "id"}), "id": body["id"]}
