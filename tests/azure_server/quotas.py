"""Quotas of vCPUs and sizes that a location lacks, which services check before and while they make machines."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from .store import Store

Item = dict[str, t.Any]

# By size in lower case: the name of the quota of its family, and the vCPUs of one machine.
FAMILIES = {
    "standard_nd96isr_h100_v5": ("standardNDSH100v5Family", 96),
    "standard_nd96isr_h200_v5": ("standardNDISRH200V5Family", 96),
    "standard_nd96amsr_a100_v4": ("standardNDAMSv4_A100Family", 96),
    "standard_nd96asr_v4": ("standardNDASv4_A100Family", 96),
    "standard_nd40rs_v2": ("standardNDSv2Family", 40),
    "standard_nc24ads_a100_v4": ("standardNCADSA100v4Family", 24),
}


def family(size: str) -> tuple[str, int]:
    """Return the name of the quota and the vCPUs of one machine."""
    return FAMILIES.get(size.lower(), ("standardDSv5Family", 4))


def in_use(store: Store) -> dict[str, int]:
    """Return the vCPUs of each family that the machines of a subscription use."""
    used: dict[str, int] = {}
    sizes = [(one["properties"].get("hardwareProfile") or {}).get("vmSize", "") for one in store.own.machines]
    sizes += [one["sku"]["name"] for rows in store.own.instances.values() for one in rows]
    for size in sizes:
        name, cores = family(str(size))
        used[name] = used.get(name, 0) + cores
    return used


def exceeded(store: Store, limits: dict[str, int], location: str, wanted: list[tuple[str, int]]) -> list[Item]:
    """Return the errors of Compute for machines (size and number) beyond the quota of their family."""
    asked: dict[str, int] = {}
    for size, number in wanted:
        name, cores = family(size)
        asked[name] = asked.get(name, 0) + cores * number
    used = in_use(store)
    return [
        _error(name, location, limits[name], used.get(name, 0), cores)
        for name, cores in asked.items()
        if name in limits and used.get(name, 0) + cores > limits[name] and cores > 0
    ]


def _error(name: str, location: str, limit: int, used: int, more: int) -> Item:
    return {
        "code": "QuotaExceeded",
        "message": (
            f"Operation could not be completed as it results in exceeding approved {name} Cores quota. Additional "
            f"details - Deployment Model: Resource Manager, Location: {location}, Current Limit: {limit}, Current "
            f"Usage: {used}, Additional Required: {more}, (Minimum) New Limit Required: {used + more}. Submit a "
            "request for Quota increase at https://aka.ms/ProdportalCRP/ by specifying parameters listed in the "
            "'Details' section for deployment to succeed."
        ),
    }


def listed(store: Store, limits: dict[str, int]) -> list[Item]:
    """Return the usages of a location."""
    used = in_use(store)
    return [
        {
            "limit": limit,
            "currentValue": used.get(name, 0),
            "unit": "Count",
            "name": {"value": name, "localizedValue": f"{name} vCPUs"},
        }
        for name, limit in limits.items()
    ]
