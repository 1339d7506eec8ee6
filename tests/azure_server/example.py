"""A small cluster as a literal template: network, identity, role, controller and a scale set of two instances."""

from __future__ import annotations

import typing as t

from .client import SUBSCRIPTION

GROUP_ID = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/training-rg"
NETWORK = f"{GROUP_ID}/providers/Microsoft.Network"
IDENTITY = f"{GROUP_ID}/providers/Microsoft.ManagedIdentity/userAssignedIdentities/nodes"
OWNED = {"gpucluster_cluster": "training"}
ROLE = "acdd72a7-3385-48ef-bd42-f606fba81ae7"

TEMPLATE: dict[str, t.Any] = {
    "$schema": "https://schema.management.azure.com/schemas/2019-04-01/deploymentTemplate.json#",
    "contentVersion": "1.0.0.0",
    "resources": [
        {
            "type": "Microsoft.Network/networkSecurityGroups",
            "apiVersion": "2025-05-01",
            "name": "nodes",
            "location": "southcentralus",
            "tags": OWNED,
            "properties": {
                "securityRules": [
                    {
                        "name": "ssh",
                        "properties": {
                            "priority": 100,
                            "access": "Allow",
                            "direction": "Inbound",
                            "protocol": "Tcp",
                            "sourceAddressPrefix": "VirtualNetwork",
                            "sourcePortRange": "*",
                            "destinationAddressPrefix": "VirtualNetwork",
                            "destinationPortRange": "22",
                        },
                    }
                ]
            },
        },
        {
            "type": "Microsoft.Network/virtualNetworks",
            "apiVersion": "2025-05-01",
            "name": "cluster",
            "location": "South Central US",
            "tags": OWNED,
            "dependsOn": [f"{NETWORK}/networkSecurityGroups/nodes"],
            "properties": {
                "addressSpace": {"addressPrefixes": ["10.0.0.0/16"]},
                "subnets": [
                    {
                        "name": "nodes",
                        "properties": {
                            "addressPrefix": "10.0.0.0/20",
                            "networkSecurityGroup": {"id": f"{NETWORK}/networkSecurityGroups/nodes"},
                        },
                    }
                ],
            },
        },
        {
            "type": "Microsoft.ManagedIdentity/userAssignedIdentities",
            "apiVersion": "2023-01-31",
            "name": "nodes",
            "location": "southcentralus",
            "tags": OWNED,
        },
        {
            "type": "Microsoft.Authorization/roleAssignments",
            "apiVersion": "2022-04-01",
            "name": "6f1a1f0e-2c1c-5d38-9f3b-3d2f0d2f8a11",
            "dependsOn": [IDENTITY],
            "properties": {
                "principalId": f"[reference('{IDENTITY}', '2023-01-31').principalId]",
                "principalType": "ServicePrincipal",
                "roleDefinitionId": (
                    f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Authorization/roleDefinitions/{ROLE}"
                ),
            },
        },
        {
            "type": "Microsoft.Network/networkInterfaces",
            "apiVersion": "2025-05-01",
            "name": "control-nic",
            "location": "southcentralus",
            "tags": OWNED,
            "dependsOn": [f"{NETWORK}/virtualNetworks/cluster"],
            "properties": {
                "enableAcceleratedNetworking": True,
                "ipConfigurations": [
                    {
                        "name": "ip",
                        "properties": {"subnet": {"id": f"{NETWORK}/virtualNetworks/cluster/subnets/nodes"}},
                    }
                ],
            },
        },
        {
            "type": "Microsoft.Compute/virtualMachines",
            "apiVersion": "2025-04-01",
            "name": "control",
            "location": "southcentralus",
            "tags": {**OWNED, "slurm_role": "controller"},
            "dependsOn": [f"{NETWORK}/networkInterfaces/control-nic"],
            "properties": {
                "hardwareProfile": {"vmSize": "Standard_D8s_v5"},
                "osProfile": {"computerName": "control", "adminUsername": "azureuser", "customData": "I2Nsb3Vk"},
                "storageProfile": {
                    "osDisk": {"createOption": "FromImage", "deleteOption": "Delete", "diskSizeGB": 64},
                    "imageReference": {
                        "publisher": "microsoft-dsvm",
                        "offer": "ubuntu-hpc",
                        "sku": "2204",
                        "version": "1",
                    },
                },
                "networkProfile": {"networkInterfaces": [{"id": f"{NETWORK}/networkInterfaces/control-nic"}]},
            },
        },
        {
            "type": "Microsoft.Compute/virtualMachineScaleSets",
            "apiVersion": "2025-04-01",
            "name": "h100",
            "location": "southcentralus",
            "tags": {**OWNED, "slurm_role": "compute"},
            "sku": {"name": "Standard_ND96isr_H100_v5", "capacity": 2},
            "dependsOn": [f"{NETWORK}/virtualNetworks/cluster"],
            "properties": {
                "orchestrationMode": "Uniform",
                "overprovision": False,
                "singlePlacementGroup": True,
                "upgradePolicy": {"mode": "Manual"},
                "virtualMachineProfile": {
                    "osProfile": {
                        "computerNamePrefix": "h100-",
                        "adminUsername": "azureuser",
                        "customData": "I2Nsb3Vk",
                    },
                    "networkProfile": {
                        "networkInterfaceConfigurations": [
                            {
                                "name": "eth0",
                                "properties": {
                                    "primary": True,
                                    "enableAcceleratedNetworking": True,
                                    "ipConfigurations": [
                                        {
                                            "name": "ip",
                                            "properties": {
                                                "subnet": {"id": f"{NETWORK}/virtualNetworks/cluster/subnets/nodes"}
                                            },
                                        }
                                    ],
                                },
                            }
                        ]
                    },
                },
            },
        },
    ],
    "outputs": {"principal": {"type": "string", "value": f"[reference('{IDENTITY}', '2023-01-31').principalId]"}},
}
