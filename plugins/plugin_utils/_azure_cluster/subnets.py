# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Subnets of the cluster: their addresses in a new network, and their names in an existing one."""

from __future__ import annotations

import ipaddress
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import values
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.values import wrong

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Network = ipaddress.IPv4Network
# The name that Azure requires for the subnet of Bastion; the others are ours.
NAMES = {"head": "head", "nodes": "nodes", "bastion": "AzureBastionSubnet", "anf": "anf", "amlfs": "amlfs"}
# The largest prefix length: Bastion needs /26 (azure-docs, articles/bastion/configuration-settings.md), the delegated
# subnet of ANF /28 (azure-netapp-files-network-topologies.md). Azure keeps five addresses of each subnet.
_LONGEST = {"head": 28, "nodes": 27, "bastion": 26, "anf": 28}
# AMLFS by the most TiB: "Azure Managed Lustre file system prerequisites", network size requirements,
# https://learn.microsoft.com/azure/azure-managed-lustre/amlfs-prerequisites.
_LUSTRE = {40: 26, 92: 25, 196: 24}
_LARGEST_LUSTRE = 23
_RESERVED = 5
# The parts of a new network: nodes have its upper half, the others a /26 each at its beginning, AMLFS more.
_SMALL = 26


def parsed(text: str) -> Network | None:
    """Return a network of IPv4, or nothing if the string is none or has bits beside its mask."""
    try:
        return ipaddress.IPv4Network(text, strict=True) if "/" in text else None
    except ValueError:
        return None


def wanted(cluster: Mapping[str, t.Any]) -> list[str]:
    """Return the subnets that the cluster needs, in a fixed order."""
    kinds = {storage["type"] for storage in cluster["storage"]}
    return [
        name
        for name in NAMES
        if name in ("head", "nodes")
        or (name == "bastion" and cluster["access"]["type"] == "bastion")
        or (name in ("anf", "amlfs") and name in kinds)
    ]


def addresses(cluster: Mapping[str, t.Any]) -> dict[str, str]:
    """Return the addresses of each wanted subnet of a new network, or of the two known subnets of an existing one."""
    network = cluster["network"]
    if network["type"] == "existing":
        return {"head": network["head_addresses"], "nodes": network["node_addresses"]}
    space = parsed(network["address_space"])
    defaults = _defaults(space, _longest(cluster)["amlfs"]) if space and space.prefixlen <= _SMALL - 3 else {}
    return {name: network["subnets"][name] or str(defaults.get(name, "")) for name in wanted(cluster)}


def _longest(cluster: Mapping[str, t.Any]) -> dict[str, int]:
    """Return the largest prefix length of each subnet."""
    tib = max((storage["size_tib"] for storage in cluster["storage"] if storage["type"] == "amlfs"), default=0)
    return {**_LONGEST, "amlfs": next((length for most, length in _LUSTRE.items() if tib <= most), _LARGEST_LUSTRE)}


def _defaults(space: Network, lustre: int) -> dict[str, Network]:
    """Return the default subnets of an address space, with the prefix length of AMLFS."""
    small = dict(zip(("head", "bastion", "anf"), space.subnets(new_prefix=_SMALL), strict=False))
    behind = (one for one in space.subnets(new_prefix=lustre) if one.network_address > small["anf"].network_address)
    return {**small, **dict(zip(("amlfs",), behind, strict=False)), "nodes": list(space.subnets(prefixlen_diff=1))[1]}


def problems(cluster: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield the faults of the network."""
    if cluster["network"]["type"] == "existing":
        yield from _existing(cluster)
    else:
        yield from _new(cluster)


def _existing(cluster: Mapping[str, t.Any]) -> Iterator[str]:
    network = cluster["network"]
    for name in ("head_addresses", "node_addresses"):
        if parsed(network[name]) is None:
            yield wrong(f"network.{name}", network[name], "the addresses of that subnet, such as 10.1.0.0/24")
    for name in ("anf", "amlfs"):
        if name in wanted(cluster) and not network[f"{name}_subnet"]:
            yield wrong(f"network.{name}_subnet", None, f"the subnet for the storage of type {name}")
    nodes = parsed(network["node_addresses"])
    if nodes:
        yield from _room("network.node_addresses", nodes, cluster)


def _new(cluster: Mapping[str, t.Any]) -> Iterator[str]:
    network = cluster["network"]
    space = parsed(network["address_space"])
    if space is None or not space.is_private or not 8 <= space.prefixlen <= _SMALL - 3:
        allowed = f"a private network of /8 to /{_SMALL - 3}, such as 10.10.0.0/16"
        yield wrong("network.address_space", network["address_space"], allowed)
        return
    parts: dict[str, Network] = {}
    longest = _longest(cluster)
    for name, text in addresses(cluster).items():
        subnet = parsed(text)
        if subnet is None or not subnet.subnet_of(space) or subnet.prefixlen > longest[name]:
            allowed = f"a network of /{longest[name]} or larger inside {space}"
            yield wrong(f"network.subnets.{name}", text, allowed)
            continue
        parts[name] = subnet
    yield from _overlaps(parts)
    if "nodes" in parts:
        yield from _room("network.subnets.nodes", parts["nodes"], cluster)


def _overlaps(parts: Mapping[str, Network]) -> Iterator[str]:
    names = list(parts)
    for index, name in enumerate(names):
        for other in names[:index]:
            if parts[name].overlaps(parts[other]):
                allowed = f"addresses outside {values.ROOT}.network.subnets.{other} ({parts[other]})"
                yield wrong(f"network.subnets.{name}", str(parts[name]), allowed)


def _room(where: str, subnet: Network, cluster: Mapping[str, t.Any]) -> Iterator[str]:
    """Refuse a subnet without an address for each node."""
    need = sum(entry["max_count"] or entry["count"] for entry in cluster["gpu_sets"])
    free = subnet.num_addresses - _RESERVED
    if need > free:
        yield wrong(where, str(subnet), f"a network with {need} addresses for nodes; this one has {free}")
