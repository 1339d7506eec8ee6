# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Identities of the machines and the least role for each.

The identity of the nodes has no role at all. That of the controller may read the resource group, from which the
inventory comes. If the cluster deletes itself, has elastic nodes or repairs machines, it gets a role of its own with
the actions for that. Contributor is refused: users have a shell on the controller, and only a rule of its kernel keeps
them from the identity (role azure_metadata).
"""

from __future__ import annotations

import typing as t
import uuid

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import VERSIONS

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"
_ASSIGNMENT = "Microsoft.Authorization/roleAssignments"
_DEFINITION = "Microsoft.Authorization/roleDefinitions"
# azure-docs, articles/role-based-access-control/built-in-roles.md.
_READER = "acdd72a7-3385-48ef-bd42-f606fba81ae7"
# The actions of gpucluster-expiry, gpucluster-elastic and gpucluster-repair, beside those of Reader.
_READ = "*/read"
_DELETE_AFTER = ("Microsoft.Resources/subscriptions/resourceGroups/delete", "Microsoft.Resources/tags/write")
_ELASTIC = (
    "Microsoft.Compute/virtualMachineScaleSets/delete/action",
    "Microsoft.Compute/virtualMachineScaleSets/write",
    # Azure may ask for them when a scale set grows, for what it links to.
    "Microsoft.ManagedIdentity/userAssignedIdentities/assign/action",
    "Microsoft.Network/networkSecurityGroups/join/action",
    "Microsoft.Network/virtualNetworks/subnets/join/action",
)
_REPAIR = (
    "Microsoft.Compute/virtualMachineScaleSets/redeploy/action",
    "Microsoft.Compute/virtualMachineScaleSets/reimage/action",
)


def identity_id(scope: Scope, part: str) -> str:
    """Return the id of the identity of C(controller) or C(nodes)."""
    return scope.id(_IDENTITY, f"{scope.name}-{part}")


def attached(scope: Scope, part: str) -> Resource:
    """Return the identity of a machine or a scale set."""
    return {"type": "UserAssigned", "userAssignedIdentities": {identity_id(scope, part): {}}}


def actions(cluster: Mapping[str, t.Any]) -> list[str]:
    """Return what the programs of the controller do in Azure, beside reading."""
    elastic = any(entry["elastic"] for entry in cluster["gpu_sets"])
    wanted = ((cluster["delete_after"], _DELETE_AFTER), (elastic, _ELASTIC), (cluster["identity"]["repair"], _REPAIR))
    return sorted(action for is_used, part in wanted if is_used for action in part)


def controller_role(scope: Scope) -> str:
    """Return the role of the controller: enough for what it does."""
    given = scope.cluster["identity"]["controller_role"]
    return str(given or ("custom" if actions(scope.cluster) else "reader"))


def resources(scope: Scope) -> list[Resource]:
    """Return both identities, and the role of the controller on the resource group."""
    found = [scope.resource(_IDENTITY, f"{scope.name}-{part}") for part in ("controller", "nodes")]
    role = controller_role(scope)
    if role == "none":
        return found
    own = [_definition(scope)] if role == "custom" else []
    return [*found, *own, _assignment(scope, role)]


def _role_id(scope: Scope) -> str:
    """Return the name of the role of the controller, which is the same in each run."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{scope.group_id}/{scope.name}-controller/role".lower()))


def _definition(scope: Scope) -> Resource:
    """Return the role of the controller. Its title must be unique among all roles of a tenant."""
    name = _role_id(scope)
    return scope.child(
        _DEFINITION,
        name,
        properties={
            "roleName": f"gpucluster {scope.name} {name[:8]}",
            "type": "CustomRole",
            "description": f"What the controller of the cluster {scope.name} does in its resource group",
            "permissions": [{"actions": [_READ, *actions(scope.cluster)], "notActions": []}],
            "assignableScopes": [scope.group_id],
        },
    )


def _assignment(scope: Scope, role: str) -> Resource:
    """Return the assignment of a role; its name is the same in each run, and another one for another role."""
    identity = identity_id(scope, "controller")
    definition = f"/subscriptions/{scope.cluster['subscription_id']}/providers/{_DEFINITION}"
    version = VERSIONS["Microsoft.ManagedIdentity"]
    own = [scope.id(_DEFINITION, _role_id(scope))] if role == "custom" else []
    return scope.child(
        _ASSIGNMENT,
        str(uuid.uuid5(uuid.NAMESPACE_URL, f"{scope.group_id}/{identity}/{role}".lower())),
        [identity, *own],
        properties={
            "roleDefinitionId": f"{definition}/{_role_id(scope) if own else _READER}",
            # The only expression: Azure makes the id of the identity.
            "principalId": f"[reference('{identity}', '{version}').principalId]",
            "principalType": "ServicePrincipal",
        },
    )
