# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Who may do what in Azure by itself: the controller, and the workflow that deletes the cluster at its time.

Each gets a role of its own on the resource group with the actions that it needs, because no built-in role is as small.
Users have a shell on the controller, and only a rule of its kernel keeps them from its identity (role azure_metadata).
So it can start and deallocate machines, and nothing it does can be deleted or made. Nodes have no identity.
"""

from __future__ import annotations

import typing as t
import uuid

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import inputs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import VERSIONS

if t.TYPE_CHECKING:
    import datetime

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"
_WORKFLOW = "Microsoft.Logic/workflows"
_DEFINITION = "Microsoft.Authorization/roleDefinitions"
# What gpucluster-elastic does.
ELASTIC = (
    "Microsoft.Compute/virtualMachines/deallocate/action",
    "Microsoft.Compute/virtualMachines/instanceView/read",
    "Microsoft.Compute/virtualMachines/read",
    "Microsoft.Compute/virtualMachines/start/action",
)
EXPIRY = ("Microsoft.Resources/subscriptions/resourceGroups/delete",)
_SCHEMA = "https://schema.management.azure.com/providers/Microsoft.Logic/schemas/2016-06-01/workflowdefinition.json#"
_GROUPS = "2021-04-01"


def attached(scope: Scope) -> Resource | None:
    """Return the identity of the controller, which only a cluster with elastic sets needs."""
    if not any(entry["elastic"] for entry in scope.cluster["gpu_sets"]):
        return None
    return {"type": "UserAssigned", "userAssignedIdentities": {scope.id(_IDENTITY, f"{scope.name}-controller"): {}}}


def resources(scope: Scope, manager: str) -> list[Resource]:
    """Return the identity of the controller and the workflow, each with its role. I(manager) is Resource Manager."""
    found: list[Resource] = []
    if attached(scope):
        name = f"{scope.name}-controller"
        identity, version = scope.id(_IDENTITY, name), VERSIONS["Microsoft.ManagedIdentity"]
        principal = f"[reference('{identity}', '{version}').principalId]"
        found += [scope.resource(_IDENTITY, name), *_role(scope, name, ELASTIC, identity, principal)]
    if scope.cluster["expires"]:
        workflow, version = scope.id(_WORKFLOW, f"{scope.name}-expiry"), VERSIONS["Microsoft.Logic"]
        principal = f"[reference('{workflow}', '{version}', 'Full').identity.principalId]"
        found += [_workflow(scope, manager), *_role(scope, f"{scope.name}-expiry", EXPIRY, workflow, principal)]
    return found


def _role(scope: Scope, name: str, actions: tuple[str, ...], owner: str, principal: str) -> list[Resource]:
    """Return a role with its assignment. Their names are the same in each run; a title is unique in a tenant."""
    path = f"{scope.group_id}/{name}".lower()
    role = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{path}/role"))
    definition = {
        "roleName": f"gpucluster {name} {role[:8]}",
        "type": "CustomRole",
        "description": f"What {name} does in its resource group",
        "permissions": [{"actions": list(actions), "notActions": []}],
        "assignableScopes": [scope.group_id],
    }
    roles = f"/subscriptions/{scope.cluster['subscription_id']}/providers/{_DEFINITION}"
    assignment = {
        "roleDefinitionId": f"{roles}/{role}",
        # The only expressions of the template: Azure makes the id of an identity.
        "principalId": principal,
        "principalType": "ServicePrincipal",
    }
    depends = [owner, scope.id(_DEFINITION, role)]
    kind = "Microsoft.Authorization/roleAssignments"
    return [
        scope.child(_DEFINITION, role, properties=definition),
        scope.child(kind, str(uuid.uuid5(uuid.NAMESPACE_URL, f"{path}/assignment")), depends, properties=assignment),
    ]


def _workflow(scope: Scope, manager: str) -> Resource:
    """
    Return the Logic App that deletes the resource group at C(expires), and each hour after it until the group is gone.

    It is in the group, so it goes with it, and a new time is a change of its trigger.
    """
    end = t.cast("datetime.datetime", inputs.moment(scope.cluster["expires"]))
    trigger = {
        "type": "Recurrence",
        "recurrence": {"frequency": "Hour", "interval": 1, "startTime": f"{end:%Y-%m-%dT%H:%M:%SZ}"},
    }
    action = {
        "type": "Http",
        "inputs": {
            "method": "DELETE",
            "uri": f"{manager}{scope.group_id}?api-version={_GROUPS}",
            "authentication": {"type": "ManagedServiceIdentity", "audience": f"{manager}/"},
        },
        # Azure accepts the request and works on; waiting would end with the workflow itself.
        "operationOptions": "DisableAsyncPattern",
        "runAfter": {},
    }
    definition = {
        "$schema": _SCHEMA,
        "contentVersion": "1.0.0.0",
        "triggers": {"at_its_time": trigger},
        "actions": {"delete_the_group": action},
    }
    properties = {"state": "Enabled", "definition": definition}
    identity = {"type": "SystemAssigned"}
    return scope.resource(_WORKFLOW, f"{scope.name}-expiry", identity=identity, properties=properties)
