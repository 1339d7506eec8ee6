# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""How people reach the cluster: Bastion, a public address of one machine, or only the virtual network."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import network

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

_BASTION = "Microsoft.Network/bastionHosts"


def entrance(scope: Scope) -> str:
    """Return the name of the machine to which people log in: the first login machine, or the controller."""
    return f"{scope.name}-login-1" if scope.cluster["login"]["count"] else f"{scope.name}-controller"


def resources(scope: Scope) -> list[Resource]:
    """Return Bastion with its address, or the public address of the entrance."""
    kind = scope.cluster["access"]["type"]
    if kind == "public":
        return [network.public_address(scope, entrance(scope))]
    return _bastion(scope) if kind == "bastion" else []


def _bastion(scope: Scope) -> list[Resource]:
    name = f"{scope.name}-bastion"
    address = network.public_address_id(scope, name)
    ip = {
        "name": "bastion",
        "properties": {
            "privateIPAllocationMethod": "Dynamic",
            "publicIPAddress": {"id": address},
            "subnet": {"id": network.subnet_id(scope, "bastion")},
        },
    }
    bastion = scope.resource(
        _BASTION,
        name,
        [address, *network.depends(scope)],
        sku={"name": scope.cluster["access"]["sku"]},
        # az network bastion ssh and tunnel need it (azure-docs, articles/bastion/native-client.md).
        properties={"enableTunneling": True, "ipConfigurations": [ip]},
    )
    return [network.public_address(scope, name), bastion]
