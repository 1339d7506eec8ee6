# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Convert answers of Azure to machines: the lists become flat rows, and rows become records.

A record uses the names of azure_rm for the same values. All values that Azure may omit are optional.
"""

from __future__ import annotations

import hashlib
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Row = dict[str, t.Any]
    Record = dict[str, t.Any]


class Networks(t.NamedTuple):
    """Network interfaces and public addresses by their id in lower case; interfaces also by the id of their machine."""

    nics: dict[str, Row]
    addresses: dict[str, Row]
    of_machine: dict[str, list[Row]]


def networks(nics: Iterable[Row], addresses: Iterable[Row]) -> Networks:
    """Return the rows in the form that record() reads."""
    known = by_id(nics)
    owners: dict[str, list[Row]] = {}
    for nic in known.values():
        owners.setdefault(nic["owner"], []).append(nic)
    return Networks(known, by_id(addresses), owners)


def flat_machine(item: Mapping[str, t.Any]) -> Row:
    """Return a machine of any list as a flat row."""
    p = _mapping(item.get("properties"))
    storage = _mapping(p.get("storageProfile"))
    disk = _mapping(storage.get("osDisk"))
    system = _mapping(p.get("osProfile"))
    return {
        **{key: item.get(key) for key in ("id", "name", "type", "location", "zones", "tags", "plan", "sku")},
        "identityType": _mapping(item.get("identity")).get("type"),
        "instanceId": item.get("instanceId"),
        "vmId": p.get("vmId"),
        "vmSize": _mapping(p.get("hardwareProfile")).get("vmSize"),
        "provisioningState": p.get("provisioningState"),
        "timeCreated": p.get("timeCreated"),
        "licenseType": p.get("licenseType"),
        "priority": p.get("priority"),
        "computerName": system.get("computerName"),
        "isWindows": system.get("windowsConfiguration") is not None,
        "osType": disk.get("osType"),
        "osDiskName": disk.get("name"),
        "osDiskId": _mapping(disk.get("managedDisk")).get("id"),
        "imageReference": storage.get("imageReference"),
        "dataDisks": storage.get("dataDisks"),
        "nics": _mapping(p.get("networkProfile")).get("networkInterfaces"),
        "vmssId": _mapping(p.get("virtualMachineScaleSet")).get("id"),
        "ppgId": _mapping(p.get("proximityPlacementGroup")).get("id"),
        "instanceView": _mapping(p.get("instanceView")),
    }


def flat_nic(item: Mapping[str, t.Any]) -> Row:
    """Return a network interface with the values that host variables need."""
    p = _mapping(item.get("properties"))
    nic_id = str(item.get("id") or "")
    return {
        "id": nic_id,
        "name": item.get("name"),
        "owner": str(_mapping(p.get("virtualMachine")).get("id") or owner_of_nic(nic_id)).lower(),
        "primary": bool(p.get("primary")),
        "mac": p.get("macAddress"),
        "nsg": _mapping(p.get("networkSecurityGroup")).get("id"),
        "accelerated": bool(p.get("enableAcceleratedNetworking")),
        "ips": _primary_first([_flat_ip(_mapping(one)) for one in _list(p.get("ipConfigurations"))]),
    }


def _flat_ip(item: Mapping[str, t.Any]) -> Row:
    p = _mapping(item.get("properties"))
    public = _mapping(p.get("publicIPAddress"))
    return {
        "primary": bool(p.get("primary")),
        "private": p.get("privateIPAddress"),
        "v6": _is_v6(p.get("privateIPAddress"), p.get("privateIPAddressVersion")),
        "subnet": _mapping(p.get("subnet")).get("id"),
        "public": str(public.get("id") or "").lower(),
    }


def flat_address(item: Mapping[str, t.Any]) -> Row:
    """Return a public address."""
    p = _mapping(item.get("properties"))
    return {
        "id": item.get("id"),
        "name": item.get("name"),
        "ip": p.get("ipAddress"),
        "fqdn": _mapping(p.get("dnsSettings")).get("fqdn"),
        "v6": _is_v6(p.get("ipAddress"), p.get("publicIPAddressVersion")),
    }


def _is_v6(address: t.Any, version: t.Any) -> bool:
    """Return whether an address is of IPv6; the lists of scale sets may lack the version."""
    return ":" in address if address else str(version).lower() == "ipv6"


def flat_scale_set(item: Mapping[str, t.Any]) -> Row:
    """Return a scale set; old ones have no orchestration mode and are uniform."""
    p = _mapping(item.get("properties"))
    sku = _mapping(item.get("sku"))
    return {
        "id": item.get("id"),
        "name": item.get("name"),
        "location": item.get("location"),
        "tags": _mapping(item.get("tags")),
        "mode": p.get("orchestrationMode") or "Uniform",
        "capacity": sku.get("capacity"),
        "single": p.get("singlePlacementGroup") is not False,
        "size": sku.get("name"),
    }


def owner_of_nic(nic_id: str) -> str:
    """Return the machine in the id of a network interface of a scale set, or an empty string."""
    head, mark, _rest = nic_id.lower().partition("/networkinterfaces/")
    return head if mark and "/virtualmachines/" in head else ""


def part(resource_id: t.Any, kind: str) -> str:
    """Return the part of a resource id that follows a type, with its original case."""
    parts = str(resource_id or "").split("/")
    for position, name in enumerate(parts[:-1]):
        if name.lower() == kind:
            return parts[position + 1]
    return ""


def last(resource_id: t.Any) -> str | None:
    """Return the name at the end of a resource id."""
    return str(resource_id).rsplit("/", 1)[-1] if resource_id else None


def default_name(name: str, resource_id: str, digits: int = 4) -> str:
    """Return a name that is unique in Azure, from the id in lower case."""
    digest = hashlib.sha1(resource_id.lower().encode(), usedforsecurity=False).hexdigest()
    return f"{name}_{digest[:digits]}"


def record(row: Row, networks: Networks, scale_set: Row | None, inherit_tags: bool = False) -> Record:
    """Return the record of one machine."""
    machine_id = str(row["id"])
    name = str(row.get("name") or last(machine_id))
    view = _mapping(row.get("instanceView"))
    tags = {str(key): "" if value is None else value for key, value in _mapping(row.get("tags")).items()}
    if inherit_tags and scale_set:
        own = {key.lower() for key in tags}
        tags = {**{key: value for key, value in scale_set["tags"].items() if key.lower() not in own}, **tags}
    found: Record = {
        "id": machine_id,
        "name": name,
        "resource_group": part(machine_id, "resourcegroups").lower(),
        "subscription_id": part(machine_id, "subscriptions").lower(),
        "location": row.get("location"),
        "resource_type": row.get("type") or "unknown",
        "tags": tags,
        "default_inventory_hostname": default_name(name, machine_id),
    }
    found.update(_state(row, view))
    found.update(_system(row, view))
    found.update(_hardware(row, scale_set))
    found.update(_storage(row))
    found.update(_membership(row, scale_set, view))
    found.update(_network(row, networks))
    if row.get("stateMissing"):
        found["facts_missing"].append("powerstate")
    return found


def power_state(view: Mapping[str, t.Any]) -> str:
    """Return the power state as one word; C(unknown) until Azure reports it."""
    code = str(_mapping(view.get("powerState")).get("code") or "")
    if not code:
        codes = (str(_mapping(status).get("code") or "") for status in _list(view.get("statuses")))
        code = next((one for one in codes if one.lower().startswith("powerstate/")), "")
    return code.rsplit("/", 1)[-1].lower() or "unknown"


def _state(row: Row, view: Mapping[str, t.Any]) -> Record:
    return {
        "powerstate": power_state(view),
        "provisioning_state": str(row.get("provisioningState") or "unknown").lower(),
        "creation_time": row.get("timeCreated") or None,
        "vmid": row.get("vmId") or None,
    }


def _system(row: Row, view: Mapping[str, t.Any]) -> Record:
    system = "windows" if row.get("isWindows") is True else str(row.get("osType") or "unknown").lower()
    guest, profile = view.get("computerName") or None, row.get("computerName") or None
    return {
        "computer_name": guest or profile,  # a machine may change its own host name, as those of CycleCloud do
        "guest_computer_name": guest,
        "os_computer_name": profile,
        "os_profile": {"system": system},
        "os_name": view.get("osName") or None,
        "os_version": view.get("osVersion") or None,
        "hyper_v_generation": view.get("hyperVGeneration") or None,
        "license_type": row.get("licenseType") or "Unknown",
    }


def _hardware(row: Row, scale_set: Row | None) -> Record:
    size = row.get("vmSize") or _mapping(row.get("sku")).get("name") or (scale_set or {}).get("size")
    return {
        "vm_size": size or None,
        "availability_zone": _list(row.get("zones")) or None,
        "priority": row.get("priority") or "Regular",
        "identity": row.get("identityType") or None,
        "plan": _mapping(row.get("plan")).get("name"),
        "proximity_placement_group": last(row.get("ppgId")),
    }


_IMAGE = (
    "publisher",
    "offer",
    "sku",
    "version",
    "id",
    "sharedGalleryImageId",
    "communityGalleryImageId",
)


def _storage(row: Row) -> Record:
    image = _mapping(row.get("imageReference"))
    return {
        "image": {key: image[key] for key in _IMAGE if image.get(key)},
        "os_disk": {
            "name": row.get("osDiskName") or None,
            "operating_system_type": str(row["osType"]).lower() if row.get("osType") else None,
            "id": row.get("osDiskId") or None,
        },
        "data_disks": [
            {"name": disk.get("name"), "lun": disk.get("lun"), "id": _mapping(disk.get("managedDisk")).get("id")}
            for disk in map(_mapping, _list(row.get("dataDisks")))
        ],
    }


def _membership(row: Row, scale_set: Row | None, view: Mapping[str, t.Any]) -> Record:
    machine_id = str(row["id"])
    uniform = "/virtualmachinescalesets/" in machine_id.lower()
    set_id = machine_id[: machine_id.lower().rindex("/virtualmachines/")] if uniform else row.get("vmssId")
    instance = str(row.get("instanceId") or last(machine_id)) if uniform else None
    mode = (scale_set or {}).get("mode") or ("Uniform" if uniform else "Flexible")
    vmss = {"id": set_id, "name": (scale_set or {}).get("name") or last(set_id), "mode": mode} if set_id else {}
    if vmss and instance:
        vmss["instance_id"] = instance
    return {
        "vmss": vmss,
        "instance_id": instance,
        "placement_group_id": view.get("placementGroupId") or None,
        "single_placement_group": bool((scale_set or {}).get("single", True)) if set_id else None,
    }


def _network(row: Row, networks: Networks) -> Record:
    """Return the network variables: the primary interface first, then the order of the machine's list."""
    found: Record = {name: [] for name in _NETWORK_LISTS}
    references = _primary_first(nics_of(row), _reference_is_primary)
    if references:
        nics = [networks.nics.get(str(reference.get("id") or "").lower()) for reference in references]
    else:
        nics = [*_primary_first(networks.of_machine.get(str(row["id"]).lower(), []))]
    for nic in nics:
        if nic is not None:
            _add_nic(found, nic, networks)
    found["accelerated_networking"] = any(nic["accelerated"] for nic in nics if nic)
    complete = all(nic and all(ip["public"] in networks.addresses for ip in nic["ips"] if ip["public"]) for nic in nics)
    found["facts_missing"] = [] if complete else ["network"]
    return found


_NETWORK_LISTS = (
    "network_interface",
    "network_interface_id",
    "mac_address",
    "security_group",
    "security_group_id",
    "subnet",
    "private_ipv4_addresses",
    "private_ipv6_addresses",
    "public_ipv4_address",
    "public_ipv6_address",
    "public_ip_address",
    "public_dns_hostnames",
)


def _add_nic(found: Record, nic: Row, networks: Networks) -> None:
    found["network_interface"].append(nic["name"])
    found["network_interface_id"].append(nic["id"])
    if nic["mac"]:
        found["mac_address"].append(nic["mac"])
    if nic["nsg"]:
        found["security_group"].append(last(nic["nsg"]))
        found["security_group_id"].append(nic["nsg"])
    for ip in nic["ips"]:
        if ip["private"]:
            found["private_ipv6_addresses" if ip["v6"] else "private_ipv4_addresses"].append(ip["private"])
        if ip["subnet"]:
            found["subnet"].append({"id": ip["subnet"]})
        if ip["public"] in networks.addresses:
            _add_address(found, networks.addresses[ip["public"]])


def _add_address(found: Record, address: Row) -> None:
    found["public_ip_address"].append({"id": address["id"], "name": address["name"], "ipv4_address": address["ip"]})
    if address["ip"]:
        found["public_ipv6_address" if address["v6"] else "public_ipv4_address"].append(address["ip"])
    if address["fqdn"]:
        found["public_dns_hostnames"].append(address["fqdn"])


def _reference_is_primary(reference: Mapping[str, t.Any]) -> bool:
    return bool(_mapping(reference.get("properties")).get("primary"))


def _primary_first(items: list[t.Any], is_primary: t.Any = lambda item: item["primary"]) -> list[t.Any]:
    return sorted(items, key=lambda item: not is_primary(item)) if len(items) > 1 else items


def nics_of(row: Row) -> list[Row]:
    """Return the interfaces that a machine names."""
    return [_mapping(nic) for nic in _list(row.get("nics"))]


def by_id(items: Iterable[Row]) -> dict[str, Row]:
    """Return rows by their id in lower case."""
    return {str(item["id"]).lower(): item for item in items}


def _mapping(value: t.Any) -> dict[str, t.Any]:
    return value if isinstance(value, dict) else {}


def _list(value: t.Any) -> Sequence[t.Any]:
    return value if isinstance(value, list) else []
