"""The machines behind what was written: instances of scale sets, interfaces and addresses of virtual machines."""

from __future__ import annotations

import typing as t
import uuid

from . import fleet

if t.TYPE_CHECKING:
    from .store import Store

Item = dict[str, t.Any]

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
POWER = {
    "start": "running",
    "restart": "running",
    "reimage": "running",
    "redeploy": "running",
    "poweroff": "stopped",
    "deallocate": "deallocated",
}


def resize(store: Store, scale_set: Item, count: int) -> None:
    """Add instances, or delete the newest, until a set has as many as it should."""
    key = scale_set["id"].lower()
    rows = store.own.instances.setdefault(key, [])
    store.own.instance_nics.setdefault(key, [])
    store.own.instance_addresses.setdefault(key, [])
    number = max((int(one["instanceId"]) for one in rows), default=-1) + 1
    while len(rows) < count:
        _add(store, scale_set, number)
        number += 1
    if len(rows) > count:
        delete(store, scale_set, [one["instanceId"] for one in rows[count:]])
    scale_set["sku"]["capacity"] = count


def delete(store: Store, scale_set: Item, wanted: list[str]) -> None:
    """Delete instances by their number, and lower the capacity of the set."""
    key = scale_set["id"].lower()
    gone = {str(one) for one in wanted}
    rows = store.own.instances.get(key, [])
    rows[:] = [one for one in rows if one["instanceId"] not in gone]
    nics = store.own.instance_nics.get(key, [])
    nics[:] = [one for one in nics if one["id"].split("/")[-3] not in gone]
    scale_set["sku"]["capacity"] = len(rows)


def missing(store: Store, scale_set: Item, wanted: list[str]) -> list[str]:
    """Return the numbers that no instance has."""
    known = {one["instanceId"] for one in store.own.instances.get(scale_set["id"].lower(), [])}
    return [str(one) for one in wanted if str(one) not in known]


def power(store: Store, scale_set: Item, wanted: list[str] | None, action: str) -> None:
    """Start, stop, deallocate, reimage or redeploy instances; None means all."""
    for one in store.own.instances.get(scale_set["id"].lower(), []):
        if wanted is None or one["instanceId"] in wanted:
            set_power(one, POWER[action])


def set_power(machine: Item, state: str) -> None:
    """Set the power state in the instance view."""
    statuses = machine["properties"]["instanceView"]["statuses"]
    shown = {"code": f"PowerState/{state}", "level": "Info", "displayStatus": f"VM {state}"}
    statuses[:] = [*(one for one in statuses if not one["code"].startswith("PowerState/")), shown]


def computer_name(prefix: str, number: int) -> str:
    """Return the host name of an instance: the prefix and six digits to the base of 36."""
    digits = ""
    for _place in range(6):
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
    return prefix + digits


def _add(store: Store, scale_set: Item, number: int) -> None:
    name = scale_set["name"]
    profile = scale_set["properties"].get("virtualMachineProfile") or {}
    prefix = (profile.get("osProfile") or {}).get("computerNamePrefix") or name
    size = scale_set["sku"]["name"]
    machine_id = f"{scale_set['id']}/virtualMachines/{number}"
    nic_id = f"{machine_id}/networkInterfaces/nic"
    properties = fleet._properties(f"{name}_{number}", nic_id, size, 0)
    properties["osProfile"]["computerName"] = computer_name(prefix, number)
    properties["instanceView"]["computerName"] = computer_name(prefix, number)
    group = uuid.uuid5(uuid.NAMESPACE_URL, f"{scale_set['id']}{number // 100}")
    properties["instanceView"]["placementGroupId"] = str(group)
    properties["priority"] = profile.get("priority") or "Regular"
    store.own.instances[scale_set["id"].lower()].append(
        {
            "name": f"{name}_{number}",
            "id": machine_id,
            "instanceId": str(number),
            "type": "Microsoft.Compute/virtualMachineScaleSets/virtualMachines",
            "location": scale_set.get("location"),
            "tags": dict(scale_set.get("tags") or {}),
            "sku": {"name": size, "tier": "Standard"},
            "zones": scale_set.get("zones"),
            "properties": properties,
        }
    )
    nic = fleet._nic("nic", nic_id, machine_id, next(store.address), "")
    store.own.instance_nics[scale_set["id"].lower()].append(
        {key: value for key, value in nic.items() if key not in ("type", "location")}
    )


def attach(store: Store, machine: Item) -> None:
    """Give a virtual machine its identity, its power, and the addresses of its interfaces."""
    name = machine["name"]
    references = (machine["properties"].get("networkProfile") or {}).get("networkInterfaces") or []
    shown = fleet._properties(name, "", "", 0)
    computer = (machine["properties"].get("osProfile") or {}).get("computerName") or name
    shown["instanceView"]["computerName"] = computer
    machine["properties"].setdefault("vmId", shown["vmId"])
    machine["properties"].setdefault("instanceView", shown["instanceView"])
    for reference in references:
        nic = store.find(reference["id"])
        if nic:
            _connect(store, nic, machine["id"])


def _connect(store: Store, nic: Item, machine_id: str) -> None:
    number = next(store.address)
    nic["properties"]["virtualMachine"] = {"id": machine_id}
    nic["properties"]["macAddress"] = f"00-0D-3A-{number // 65536:02X}-{number // 256 % 256:02X}-{number % 256:02X}"
    for one in nic["properties"].get("ipConfigurations") or []:
        inner = one.setdefault("properties", {})
        inner.setdefault("privateIPAddress", f"10.{number // 65536}.{number // 256 % 256}.{number % 256}")
        address = store.find((inner.get("publicIPAddress") or {}).get("id", ""))
        if address:
            address["properties"].setdefault("ipAddress", f"203.0.{number // 256 % 256}.{number % 256}")
