# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The network of a cluster: subnets, NAT, and security groups that admit only what is used.

The security groups are on the interfaces, so that they also apply in an existing network, and on the subnets, because
landing zones refuse subnets without one (policy Deny-Subnet-Without-Nsg of Azure/Enterprise-Scale). Those of machines
end with a rule that refuses everything else, because the default rules of Azure admit the whole virtual network and its
peers. Those of services keep the default rules.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import subnets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import group_id, resource_id

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

# Ports by who listens: sshd; slurmctld and slurmd (SlurmctldPort, SlurmdPort of slurm.conf); slurmdbd (DbdPort); NFS 4
# (role nfs without version 3); srun and salloc, with SrunPortRange of inventories/azure.
SSH, SLURMCTLD, SLURMD, SLURMDBD, NFS, SRUN = "22", "6817", "6818", "6819", "2049", "60001-63000"
# node exporter, DCGM's exporter and gpucluster-logs: "Ports and secrets" of docs/monitoring.md.
EXPORTERS, LOGS = ["9100", "9400"], "19532"
# Servers and clients of Lustre connect to each other. Source: "Azure Managed Lustre file system prerequisites",
# https://learn.microsoft.com/azure/azure-managed-lustre/amlfs-prerequisites.
LUSTRE = ["988", "1019-1023"]
_VNET = "Microsoft.Network/virtualNetworks"
_GROUP = "Microsoft.Network/networkSecurityGroups"
_ADDRESS = "Microsoft.Network/publicIPAddresses"
_NAT = "Microsoft.Network/natGateways"
# Azure's range of priorities is 100 to 4096.
_FIRST, _LAST = 100, 4096


# What Bastion needs in its group: name, direction, source, destination, ports. Source: "Configure NSG rules for Azure
# Bastion", https://learn.microsoft.com/azure/bastion/bastion-nsg.
_BASTION = (
    ("https", "Inbound", "Internet", "*", ["443"]),
    ("control-plane", "Inbound", "GatewayManager", "*", ["443"]),
    ("load-balancer", "Inbound", "AzureLoadBalancer", "*", ["443"]),
    ("hosts", "Inbound", "VirtualNetwork", "VirtualNetwork", ["8080", "5701"]),
    ("machines", "Outbound", "*", "VirtualNetwork", ["22", "3389"]),
    ("azure", "Outbound", "*", "AzureCloud", ["443"]),
    ("hosts-outbound", "Outbound", "VirtualNetwork", "VirtualNetwork", ["8080", "5701"]),
    ("sessions", "Outbound", "*", "Internet", ["80"]),
)


def network_id(scope: Scope) -> str:
    """Return the id of the virtual network."""
    network = scope.cluster["network"]
    if network["type"] == "existing":
        group = group_id(scope.cluster["subscription_id"], network["resource_group"])
        return resource_id(group, _VNET, network["name"])
    return scope.id(_VNET, scope.name)


def subnet_id(scope: Scope, name: str) -> str:
    """Return the id of a subnet by its name in C(subnets.NAMES)."""
    own = {"head": "head_subnet", "nodes": "node_subnet", "anf": "anf_subnet", "amlfs": "amlfs_subnet"}
    return f"{network_id(scope)}/subnets/{scope.cluster['network'].get(own.get(name)) or subnets.NAMES[name]}"


def security_group_id(scope: Scope, part: str) -> str:
    """Return the id of the security group of a subnet."""
    return scope.id(_GROUP, f"{scope.name}-{part}")


def depends(scope: Scope) -> list[str]:
    """Return what must exist before an interface: the network, if it is new."""
    return [network_id(scope)] if scope.cluster["network"]["type"] == "new" else []


def public_address(scope: Scope, name: str) -> Resource:
    """Return a static public address."""
    return scope.resource(
        _ADDRESS,
        name,
        sku={"name": "Standard", "tier": "Regional"},
        properties={"publicIPAllocationMethod": "Static", "publicIPAddressVersion": "IPv4"},
    )


def public_address_id(scope: Scope, name: str) -> str:
    """Return the id of a public address."""
    return scope.id(_ADDRESS, name)


def resources(scope: Scope) -> list[Resource]:
    """Return the security groups, and the network with its NAT gateway if it is new."""
    groups = [_security_group(scope, "head", _head_rules(scope)), _security_group(scope, "nodes", _node_rules(scope))]
    if scope.cluster["network"]["type"] == "existing":
        return groups
    groups += [_group(scope, name, _bastion_rules(name)) for name in subnets.wanted(scope.cluster)[2:]]
    return [*groups, *_nat(scope), _network(scope)]


def _security_group(scope: Scope, part: str, rules: list[Resource]) -> Resource:
    return _group(scope, part, [*rules, *_monitoring(scope, part), *_lustre(scope), _refusal()])


def _group(scope: Scope, part: str, rules: list[Resource]) -> Resource:
    return scope.resource(_GROUP, f"{scope.name}-{part}", properties={"securityRules": rules})


def _bastion_rules(subnet: str) -> list[Resource]:
    rules = []
    for number, (name, direction, source, target, ports) in enumerate(_BASTION if subnet == "bastion" else ()):
        rule = _rule(number, name, [source], "Tcp" if ports == ["443"] else "*", ports)
        rule["properties"].update(direction=direction, destinationAddressPrefix=target)
        rules.append(rule)
    return rules


def _monitoring(scope: Scope, part: str) -> list[Resource]:
    """Return the rules for the server of the monitoring, which is a controller or a login machine."""
    kind, own = scope.cluster["monitoring"], subnets.addresses(scope.cluster)
    exporters = [] if kind == "none" else [_rule(7, "monitoring", [own["head"]], "Tcp", EXPORTERS)]
    if kind != "logs" or part != "head":
        return exporters
    return [*exporters, _rule(8, "logs", [own["head"], own["nodes"]], "Tcp", [LOGS])]


def _lustre(scope: Scope) -> list[Resource]:
    """Return the rule for the servers of AMLFS; the addresses of its subnet in an existing network are not known."""
    if not any(storage["type"] == "amlfs" for storage in scope.cluster["storage"]):
        return []
    servers = subnets.addresses(scope.cluster).get("amlfs", "VirtualNetwork")
    return [_rule(9, "lustre", [servers], "Tcp", LUSTRE)]


def _rule(number: int, name: str, sources: list[str], protocol: str, ports: list[str]) -> Resource:
    """Return a rule that admits I(sources); one source and one port have their own keys in Azure."""
    source = {"sourceAddressPrefix": sources[0]} if len(sources) == 1 else {"sourceAddressPrefixes": sources}
    port = {"destinationPortRange": ports[0]} if len(ports) == 1 else {"destinationPortRanges": ports}
    properties = {
        "priority": _FIRST + 10 * number,
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
    rule["properties"].update(priority=_LAST, access="Deny")
    return rule


def _head_rules(scope: Scope) -> list[Resource]:
    """Return what the controller and the login machines admit."""
    ours = [subnets.addresses(scope.cluster)[name] for name in ("head", "nodes")]
    rules = [
        _rule(0, "ssh", _ssh_sources(scope), "Tcp", [SSH]),
        _rule(1, "ssh-between-heads", ours[:1], "Tcp", [SSH]),
        _rule(2, "slurm", ours, "Tcp", [SLURMCTLD, SLURMDBD, SRUN]),
        _rule(3, "ping", ours, "Icmp", ["*"]),
    ]
    served = any(part["type"] == "head" for part in scope.cluster["storage"])
    return [*rules, _rule(4, "nfs", ours, "Tcp", [NFS])] if served else rules


def _node_rules(scope: Scope) -> list[Resource]:
    """Return what the nodes admit: everything among each other, because MPI and NCCL listen on any port."""
    own = subnets.addresses(scope.cluster)
    return [
        _rule(0, "jobs", [own["nodes"]], "*", ["*"]),
        _rule(1, "ssh-and-slurmd", [own["head"]], "Tcp", [SSH, SLURMD]),
        _rule(2, "ping", [own["head"]], "Icmp", ["*"]),
    ]


def _ssh_sources(scope: Scope) -> list[str]:
    """Return from where people log in: Bastion, the allowed networks, or the virtual network and its peers."""
    access = scope.cluster["access"]
    if access["type"] == "public":
        return list(access["allowed_from"])
    bastion = subnets.addresses(scope.cluster).get("bastion") if access["type"] == "bastion" else None
    return [bastion or "VirtualNetwork"]


def _nat(scope: Scope) -> list[Resource]:
    """Return the NAT gateway, the only way out of the nodes."""
    name = f"{scope.name}-nat"
    address = public_address_id(scope, name)
    gateway = scope.resource(
        _NAT,
        name,
        [address],
        sku={"name": "Standard"},
        properties={"idleTimeoutInMinutes": 10, "publicIpAddresses": [{"id": address}]},
    )
    return [public_address(scope, name), gateway]


def _network(scope: Scope) -> Resource:
    nat = scope.id(_NAT, f"{scope.name}-nat")
    own = subnets.addresses(scope.cluster)
    return scope.resource(
        _VNET,
        scope.name,
        [nat, *(security_group_id(scope, name) for name in own)],
        properties={
            "addressSpace": {"addressPrefixes": [scope.cluster["network"]["address_space"]]},
            "subnets": [_subnet(scope, name, own[name], nat) for name in own],
        },
    )


def _subnet(scope: Scope, name: str, addresses: str, nat: str) -> Resource:
    kinds = {storage["type"] for storage in scope.cluster["storage"]}
    properties: Resource = {
        "addressPrefix": addresses,
        "networkSecurityGroup": {"id": security_group_id(scope, name)},
    }
    if name in ("head", "nodes"):
        # Azure's default way out ended in 2025; NAT is the only one here.
        properties.update(defaultOutboundAccess=False, natGateway={"id": nat})
    if name in ("head", "nodes") and "azure_files" in kinds:
        properties["serviceEndpoints"] = [{"service": "Microsoft.Storage"}]
    if name == "anf":
        properties["delegations"] = [{"name": "anf", "properties": {"serviceName": "Microsoft.NetApp/volumes"}}]
    return {"name": subnets.NAMES[name], "properties": properties}
