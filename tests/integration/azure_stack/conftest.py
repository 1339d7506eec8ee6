# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server for the whole session, and playbooks with azure_stack against it."""

from __future__ import annotations

import copy
import json
import re
import sys
import typing as t
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # a plain checkout is no package

from azure_server.client import SECRET, SUBSCRIPTION, Azure  # type: ignore[import-not-found]

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


class Result(t.NamedTuple):
    """One run: the result of the module, what was printed, and the exit status."""

    rc: int
    module: dict[str, t.Any]
    text: str

    @property
    def message(self) -> str:
        return " ".join(str(self.module.get("msg")).split())

    def named(self) -> list[tuple[str, str]]:
        """Return the changes as kind and name."""
        return [(one["change"], one["name"]) for one in self.module["changes"]]


class Cluster:
    """A cluster at the server."""

    def __init__(self, azure: t.Any, folder: Path) -> None:
        self.azure = azure
        self.folder = folder
        self.template = copy.deepcopy(TEMPLATE)
        self.options: dict[str, t.Any] = {
            "name": "training",
            "cluster": "training",
            "resource_group": "training-rg",
            "location": "southcentralus",
            "tags": {"owner": "research"},
            "retries": 2,
            "request_timeout": 5,
            "timeout": 60,
        }

    def start(self, *faults: t.Any, **spec: t.Any) -> None:
        """Begin with an empty subscription."""
        self.azure.control(subscriptions=[{"id": SUBSCRIPTION}], faults=list(faults), quota=False, **spec)

    def resource(self, kind: str) -> dict[str, t.Any]:
        """Return the resource of the template whose type ends so."""
        return next(one for one in self.template["resources"] if one["type"].endswith(kind))

    def playbook(self, **options: t.Any) -> Path:
        """Write a playbook with one task."""
        given = {**self.options, "template": self.template, **options}
        if given.get("state") == "absent":
            given.pop("template")
        tasks = [
            {"hpcai.gpucluster.azure_stack": given, "register": "found", "ignore_errors": True},
            {"ansible.builtin.copy": {"dest": str(self.folder / "result"), "content": "{{ found | to_json }}"}}
            | {"check_mode": False, "diff": False},
        ]
        path = self.folder / "stack.yml"
        path.write_text(json.dumps([{"hosts": "localhost", "gather_facts": False, "tasks": tasks}]), encoding="utf-8")
        return path

    def run(self, *arguments: str, **options: t.Any) -> Result:
        """Run the task, and look for secrets in all that it printed."""
        (self.folder / "result").unlink(missing_ok=True)
        done = self.azure.run(
            "ansible-playbook", str(self.playbook(**options)), *arguments, environment=self.azure.signed_in()
        )
        text = done.out + done.err
        assert SECRET not in text
        assert not re.search(r"token-[0-9a-f]{8}", text)
        assert "I2Nsb3Vk" not in text.replace(json.dumps(self.template), "")
        found = json.loads((self.folder / "result").read_text(encoding="utf-8")) if done.rc == 0 else {}
        return Result(done.rc, found, text)

    def absent(self, *arguments: str, **options: t.Any) -> Result:
        return self.run(*arguments, state="absent", **options)

    def contents(self) -> list[str]:
        """Return what the subscription holds: groups, then types and names."""
        found = self.azure.contents()
        names = [one.rpartition("/providers/")[2] for one in found["resources"]]
        return [*found["groups"], *names]


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> t.Iterator[t.Any]:
    """Return a running server."""
    server = Azure(tmp_path_factory.mktemp("azure"))
    yield server
    server.close()


@pytest.fixture
def cluster(azure: t.Any, tmp_path: Path) -> Cluster:
    """Return a cluster that is not there yet."""
    made = Cluster(azure, tmp_path)
    made.start()
    return made
