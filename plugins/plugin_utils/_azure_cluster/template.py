# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""One variable and the names of the machines that exist in, one literal template out."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import machines, network, rights

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

_SCHEMAS = "https://schema.management.azure.com/schemas"
_NVME_ONLY = re.compile(r"_v([6-9]|[1-9][0-9]+)$", re.IGNORECASE)
_GROUPS, _DEPLOYMENTS = "2021-04-01", "2025-04-01"


def resources(scope: Scope, existing: Collection[str], manager: str) -> list[Resource]:
    """Return all resources inside the resource group."""
    return [*network.resources(scope), *rights.resources(scope, manager), *machines.resources(scope, existing)]


def template(scope: Scope, inner: list[Resource]) -> Resource:
    """Return the template of the subscription: the resource group, and what is in it."""
    group = {
        "type": "Microsoft.Resources/resourceGroups",
        "apiVersion": _GROUPS,
        "name": scope.cluster["resource_group"],
        "location": scope.cluster["location"],
        "tags": scope.tags(),
    }
    content = {
        "$schema": f"{_SCHEMAS}/2019-04-01/deploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "resources": inner,
    }
    deployment = {
        "type": "Microsoft.Resources/deployments",
        "apiVersion": _DEPLOYMENTS,
        "name": f"{scope.name}-resources",
        "resourceGroup": scope.cluster["resource_group"],
        "dependsOn": [scope.group_id],
        "properties": {
            "mode": "Incremental",
            "expressionEvaluationOptions": {"scope": "inner"},
            "template": content,
        },
    }
    return {
        "$schema": f"{_SCHEMAS}/2018-05-01/subscriptionDeploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "resources": [group, deployment],
    }


def digest(whole: Resource) -> str:
    """Return a digest of a template, which the stack keeps as a tag: what-if does not see every property."""
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:24]


def summary(scope: Scope) -> Iterator[str]:
    """Yield what a person needs after azure_up: how to log in, what comes next, when it ends."""
    cluster, name = scope.cluster, network.entrance(scope)
    user, group = cluster["admin"]["name"], cluster["resource_group"]
    if cluster["access"]["type"] == "public":
        yield f"login: ssh {user}@$(az network public-ip show -g {group} -n {name} --query ipAddress -o tsv)"
    elif cluster["access"]["type"] == "none":
        yield f"login: ssh {user}@{name}, from the virtual network or one of its peers"
    else:
        target = scope.id(machines.MACHINE, name)
        host = f"--name {scope.name}-bastion --resource-group {group} --target-resource-id {target}"
        yield (
            f"login: az network bastion ssh {host} --auth-type ssh-key --username {user} --ssh-key ~/.ssh/id_ed25519"
        )
        yield f"tunnel for Ansible: az network bastion tunnel {host} --resource-port 22 --port 50022"
    own = network.subnets(scope)
    yield f"group_vars: gpucluster_networks: {{cluster: [{own['head']}, {own['nodes']}]}}"
    # "About Azure-VM-Utils", https://learn.microsoft.com/azure/virtual-machines/linux/azure-virtual-machine-utilities.
    link = "data/by-lun/" if _NVME_ONLY.search(cluster["controller"]["vm_size"]) else "scsi1/lun"
    links = [f"/dev/disk/azure/{link}{lun}" for lun, _disk in enumerate(cluster["controller"]["data_disks"])]
    if links:
        # A disk on /home would hide the home of the user of Ansible.
        yield f"group_vars: nfs_volumes: [{{name: shared, path: /shared, devices: [{', '.join(links)}]}}]"
        yield "group_vars: users_home_base: /shared/home"
    else:
        yield "homes are on the system disk of the controller: controller.data_disks is empty"
    down = f"ansible-playbook -i inventories/azure/control_node.yml playbooks/azure_down.yml -e azure_down={scope.name}"
    yield f"end: {cluster['expires'] or down}"
