# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The network of the cluster, and the one way in.

The head subnet has the controller and the login machines, the other one the nodes. Security groups admit what Slurm,
NFS, ssh and the monitoring need, and end with a rule that refuses everything else: Azure's own default rules admit the
whole virtual network and its peers. Only Bastion, or the entrance with access type public, has a public address beside
the NAT gateway, which is the way out.
"""

from __future__ import annotations

import ipaddress
import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

_VNET = "Microsoft.Network/virtualNetworks"
_GROUP = "Microsoft.Network/networkSecurityGroups"
_ADDRESS = "Microsoft.Network/publicIPAddresses"
_NAT = "Microsoft.Network/natGateways"
_BASTION = "Microsoft.Network/bastionHosts"
# Azure requires this name.
_SUBNETS = {"head": "head", "nodes": "nodes", "bastion": "AzureBastionSubnet"}
# Ports: sshd; slurmctld, slurmd and slurmdbd; NFS 4; srun and salloc with SrunPortRange of inventories/azure; node
# exporter, DCGM's exporter and journals ("Ports and secrets" of docs/monitoring.md).
SSH, SLURMCTLD, SLURMD, SLURMDBD, NFS, SRUN = "22", "6817", "6818", "6819", "2049", "60001-63000"
EXPORTERS, JOURNALS = ["9100", "9400"], "19532"
# What Bastion needs: name, direction, source, destination, ports. Source: "Configure NSG rules for Azure Bastion",
# https://learn.microsoft.com/azure/bastion/bastion-nsg.
_OF_BASTION = (
    ("https", "Inbound", "Internet", "*", ["443"]),
    ("control-plane", "Inbound", "GatewayManager", "*", ["443"]),
    ("load-balancer", "Inbound", "AzureLoadBalancer", "*", ["443"]),
    ("hosts", "Inbound", "VirtualNetwork", "VirtualNetwork", ["8080", "5701"]),
    ("machines", "Outbound", "*", "VirtualNetwork", ["22", "3389"]),
    ("azure", "Outbound", "*", "AzureCloud", ["443"]),
    ("hosts-outbound", "Outbound", "VirtualNetwork", "VirtualNetwork", ["8080", "5701"]),
    ("sessions", "Outbound", "*", "Internet", ["80"]),
)


def subnets(scope: Scope) -> dict[str, str]:
    """Return the addresses of each subnet: the nodes have the upper half, the others a /26 at the beginning."""
    space = ipaddress.IPv4Network(scope.cluster["network"]["address_space"])
    small = space.subnets(new_prefix=26)
    found = {"head": next(small), "nodes": list(space.subnets(prefixlen_diff=1))[1], "bastion": next(small)}
    wanted = ("head", "nodes", "bastion") if scope.cluster["access"]["type"] == "bastion" else ("head", "nodes")
    return {name: str(found[name]) for name in wanted}


def entrance(scope: Scope) -> str:
    """Return the machine to which people log in: the first login machine, or the controller."""
    return f"{scope.name}-login-1" if scope.cluster["login"]["count"] else f"{scope.name}-controller"


def interface(scope: Scope, name: str, subnet: str) -> Resource:
    """Return the interface of a machine; only the entrance can have a public address."""
    network, group = scope.id(_VNET, scope.name), scope.id(_GROUP, f"{scope.name}-{subnet}")
    ip: Resource = {
        "primary": True,
        "privateIPAllocationMethod": "Dynamic",
        "subnet": {"id": f"{network}/subnets/{_SUBNETS[subnet]}"},
    }
    depends = [group, network]
    if scope.cluster["access"]["type"] == "public" and name == entrance(scope):
        ip["publicIPAddress"] = {"id": scope.id(_ADDRESS, name)}
        depends.append(scope.id(_ADDRESS, name))
    properties = {
        "enableAcceleratedNetworking": True,
        "networkSecurityGroup": {"id": group},
        "ipConfigurations": [{"name": "primary", "properties": ip}],
    }
    return scope.resource("Microsoft.Network/networkInterfaces", name, depends, properties=properties)


def resources(scope: Scope) -> list[Resource]:
    """Return the security groups, the NAT gateway, the network, and the way in."""
    rules = {"head": _head_rules, "nodes": _node_rules, "bastion": _bastion_rules}
    groups = [
        scope.resource(_GROUP, f"{scope.name}-{name}", properties={"securityRules": rules[name](scope)})
        for name in subnets(scope)
    ]
    return [*groups, *_nat(scope), _network(scope), *_way_in(scope)]


def _way_in(scope: Scope) -> list[Resource]:
    kind = scope.cluster["access"]["type"]
    if kind == "public":
        return [_address(scope, entrance(scope))]
    return _bastion(scope) if kind == "bastion" else []


def _bastion(scope: Scope) -> list[Resource]:
    name, network = f"{scope.name}-bastion", scope.id(_VNET, scope.name)
    address = scope.id(_ADDRESS, name)
    ip = {
        "privateIPAllocationMethod": "Dynamic",
        "publicIPAddress": {"id": address},
        "subnet": {"id": f"{network}/subnets/{_SUBNETS['bastion']}"},
    }
    # az network bastion ssh and tunnel need tunnels, and those the SKU Standard.
    properties = {"enableTunneling": True, "ipConfigurations": [{"name": "bastion", "properties": ip}]}
    host = scope.resource(_BASTION, name, [address, network], sku={"name": "Standard"}, properties=properties)
    return [_address(scope, name), host]


def _address(scope: Scope, name: str) -> Resource:
    properties = {"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"}
    return scope.resource(_ADDRESS, name, sku={"name": "Standard", "tier": "Regional"}, properties=properties)


def _nat(scope: Scope) -> list[Resource]:
    """Return the NAT gateway: Azure's default way out ended in 2025."""
    name = f"{scope.name}-nat"
    address = scope.id(_ADDRESS, name)
    properties = {"idleTimeoutInMinutes": 10, "publicIpAddresses": [{"id": address}]}
    return [
        _address(scope, name),
        scope.resource(_NAT, name, [address], sku={"name": "Standard"}, properties=properties),
    ]


def _network(scope: Scope) -> Resource:
    own, nat = subnets(scope), scope.id(_NAT, f"{scope.name}-nat")
    parts = []
    for name, addresses in own.items():
        group = scope.id(_GROUP, f"{scope.name}-{name}")
        properties: Resource = {"addressPrefix": addresses, "networkSecurityGroup": {"id": group}}
        if name != "bastion":
            properties.update(defaultOutboundAccess=False, natGateway={"id": nat})
        parts.append({"name": _SUBNETS[name], "properties": properties})
    space = {"addressPrefixes": [scope.cluster["network"]["address_space"]]}
    depends = [nat, *(scope.id(_GROUP, f"{scope.name}-{name}") for name in own)]
    return scope.resource(_VNET, scope.name, depends, properties={"addressSpace": space, "subnets": parts})


def _rule(number: int, name: str, sources: list[str], protocol: str, ports: list[str]) -> Resource:
    """Return a rule that admits I(sources); one source and one port have their own keys in Azure."""
    source = {"sourceAddressPrefix": sources[0]} if len(sources) == 1 else {"sourceAddressPrefixes": sources}
    port = {"destinationPortRange": ports[0]} if len(ports) == 1 else {"destinationPortRanges": ports}
    properties = {
        "priority": 100 + 10 * number,
        "direction": "Inbound",
        "access": "Allow",
        "protocol": protocol,
        "sourcePortRange": "*",
        **source,
        **port,
        "destinationAddressPrefix": "*",
    }
    return {"name": name, "properties": properties}


def _refusal() -> Resource:
    rule = _rule(0, "refuse-everything-else", ["*"], "*", ["*"])
    rule["properties"].update(priority=4096, access="Deny")
    return rule


def _head_rules(scope: Scope) -> list[Resource]:
    """Return what the controller and the login machines admit."""
    ours, access = [subnets(scope)[name] for name in ("head", "nodes")], scope.cluster["access"]
    people = access["allowed_from"] or [subnets(scope).get("bastion", "VirtualNetwork")]
    return [
        _rule(0, "ssh", people, "Tcp", [SSH]),
        _rule(1, "ssh-between-heads", ours[:1], "Tcp", [SSH]),
        _rule(2, "slurm", ours, "Tcp", [SLURMCTLD, SLURMDBD, SRUN]),
        _rule(3, "ping", ours, "Icmp", ["*"]),
        _rule(4, "nfs", ours, "Tcp", [NFS]),
        _rule(5, "monitoring", ours, "Tcp", [*EXPORTERS, JOURNALS]),
        _refusal(),
    ]


def _node_rules(scope: Scope) -> list[Resource]:
    """Return what the nodes admit: everything among each other, because MPI and NCCL listen on any port."""
    own = subnets(scope)
    return [
        _rule(0, "jobs", [own["nodes"]], "*", ["*"]),
        _rule(1, "ssh-and-slurmd", [own["head"]], "Tcp", [SSH, SLURMD]),
        _rule(2, "ping", [own["head"]], "Icmp", ["*"]),
        _rule(3, "monitoring", [own["head"]], "Tcp", EXPORTERS),
        _refusal(),
    ]


def _bastion_rules(_scope: Scope) -> list[Resource]:
    rules = []
    for number, (name, direction, source, target, ports) in enumerate(_OF_BASTION):
        rule = _rule(number, name, [source], "Tcp" if ports == ["443"] else "*", ports)
        rule["properties"].update(direction=direction, destinationAddressPrefix=target)
        rules.append(rule)
    return rules
