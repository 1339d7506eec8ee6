# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Identities of the machines and the least role for each.

Every user of a machine can ask it for the token of its identity. So the identity of the nodes has no role at all. That
of the controller may read the resource group, from which the inventory comes, or change it if the
cluster deletes itself or has an elastic set.
"""

from __future__ import annotations

import typing as t
import uuid

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import VERSIONS

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Resource, Scope

_IDENTITY = "Microsoft.ManagedIdentity/userAssignedIdentities"
_ASSIGNMENT = "Microsoft.Authorization/roleAssignments"
# azure-docs, articles/role-based-access-control/built-in-roles.md.
ROLES = {
    "reader": "acdd72a7-3385-48ef-bd42-f606fba81ae7",
    "contributor": "b24988ac-6180-42a0-ab88-20f7382dd24c",
}


def identity_id(scope: Scope, part: str) -> str:
    """Return the id of the identity of C(controller) or C(nodes)."""
    return scope.id(_IDENTITY, f"{scope.name}-{part}")


def attached(scope: Scope, part: str) -> Resource:
    """Return the identity of a machine or a scale set."""
    return {"type": "UserAssigned", "userAssignedIdentities": {identity_id(scope, part): {}}}


def controller_role(scope: Scope) -> str:
    """Return the role of the controller: enough for what it does."""
    given = scope.cluster["identity"]["controller_role"]
    changes = scope.cluster["delete_after"] or any(entry["elastic"] for entry in scope.cluster["gpu_sets"])
    return str(given or ("contributor" if changes else "reader"))


def resources(scope: Scope) -> list[Resource]:
    """Return both identities, and the role of the controller on the resource group."""
    found = [scope.resource(_IDENTITY, f"{scope.name}-{part}") for part in ("controller", "nodes")]
    role = controller_role(scope)
    return found if role == "none" else [*found, _assignment(scope, role)]


def _assignment(scope: Scope, role: str) -> Resource:
    """Return the assignment of a role; its name is the same in each run, and another one for another role."""
    identity = identity_id(scope, "controller")
    definition = f"/subscriptions/{scope.cluster['subscription_id']}/providers/Microsoft.Authorization/roleDefinitions"
    version = VERSIONS["Microsoft.ManagedIdentity"]
    return scope.child(
        _ASSIGNMENT,
        str(uuid.uuid5(uuid.NAMESPACE_URL, f"{scope.group_id}/{identity}/{role}".lower())),
        [identity],
        properties={
            "roleDefinitionId": f"{definition}/{ROLES[role]}",
            # The only expression: Azure makes the id of the identity.
            "principalId": f"[reference('{identity}', '{version}').principalId]",
            "principalType": "ServicePrincipal",
        },
    )
