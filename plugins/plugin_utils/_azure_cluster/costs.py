# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What a cluster costs per hour, from prices that the user gives. Nothing is looked up."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import sets, sizes

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclasses.dataclass(frozen=True)
class Item:
    """One line of the bill: what, how many, the price of one per hour or none, and the most there can be."""

    what: str
    count: int
    price: float | None
    most: int


def items(cluster: Mapping[str, t.Any], capacities: Mapping[str, int]) -> list[Item]:
    """Return the machines and services of a cluster; disks, addresses and traffic are not counted."""
    return [*_machines(cluster), *_sets(cluster, capacities), *_services(cluster)]


def lines(cluster: Mapping[str, t.Any], capacities: Mapping[str, int]) -> list[str]:
    """Return the costs as lines, or nothing without prices."""
    if not cluster["prices"]["hourly"] and not cluster["prices"]["spot_hourly"]:
        return []
    currency, found = cluster["prices"]["currency"], items(cluster, capacities)
    known = [item for item in found if item.price is not None]
    now = sum(item.count * (item.price or 0) for item in known)
    most = sum(item.most * (item.price or 0) for item in known)
    missing = [item.what for item in found if item.price is None and item.most]
    without = f"; no price for {', '.join(dict.fromkeys(missing))}" if missing else ""
    each = [f"  {item.count} x {item.what}: {item.count * (item.price or 0):.2f} {currency} per hour" for item in known]
    total = f"costs: {now:.2f} {currency} per hour, {most:.2f} with all nodes{without}"
    return [total, *each, "  disks, addresses and traffic are not counted"]


def _machines(cluster: Mapping[str, t.Any]) -> Iterator[Item]:
    for part, count in (("controller", 1), ("login", cluster["login"]["count"])):
        if count:
            size = cluster[part]["vm_size"]
            yield Item(size, count, _price(cluster, "hourly", size), count)


def _sets(cluster: Mapping[str, t.Any], capacities: Mapping[str, int]) -> Iterator[Item]:
    for entry in cluster["gpu_sets"]:
        size = sizes.find(entry["vm_size"]).name
        spot = entry["priority"] == "spot"
        count = sum(group.count for group in sets.groups(cluster, entry, capacities))
        price = _price(cluster, "spot_hourly" if spot else "hourly", size)
        yield Item(f"{size}{' (spot)' if spot else ''}", count, price, sets.most(entry))


def _services(cluster: Mapping[str, t.Any]) -> Iterator[Item]:
    """Yield the services with their keys in C(prices.hourly)."""
    used = [storage["type"] for storage in cluster["storage"] if storage["type"] not in ("head", "existing")]
    names = [*(["nat_gateway"] if cluster["network"]["type"] == "new" else []), *used]
    for name in [*(["bastion"] if cluster["access"]["type"] == "bastion" else []), *names]:
        yield Item(name, 1, _price(cluster, "hourly", name), 1)


def _price(cluster: Mapping[str, t.Any], kind: str, name: str) -> float | None:
    prices = {str(key).lower(): value for key, value in cluster["prices"][kind].items()}
    return float(prices[name.lower()]) if name.lower() in prices else None
