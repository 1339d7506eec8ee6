"""
The switch-board of faults: C(faults=["quota", ...]) plays them by name.

A fault with C(match) changes the answer to a request. A fault with C(stage) ends the work of a service: C(check) is
validation and what-if, C(create) a resource of a stack, C(scale) the capacity of a set, C(delete) a deletion. All have
C(after) (how many to let pass), C(times) (how many to play) and C(every).
"""

from __future__ import annotations

import re
import typing as t

Item = dict[str, t.Any]

_SETS = "(?i)virtualMachineScaleSets$"
_STACK = "^PUT .*deploymentStacks/"
_SLOW_DOWN = {"error": {"code": "TooManyRequests", "message": "The request is being throttled."}}
_NO_CAPACITY = "Allocation failed. We do not have sufficient capacity for the requested VM size in this region."
_BUSY = {"error": {"code": "ServerTimeout", "message": "The request timed out."}}
_NO_RIGHT = {
    "error": {
        "code": "AuthorizationFailed",
        "message": (
            "The client 'app' with object id '44444444-0000-0000-0000-000000000000' does not have authorization to "
            "perform action 'Microsoft.Resources/deploymentStacks/write' over scope '/subscriptions/s/resourceGroups/g'"
        ),
    }
}

NAMED: dict[str, list[Item]] = {
    # What the way to Azure does.
    "throttled": [{"match": _STACK, "status": 429, "headers": {"Retry-After": "1"}, "body": _SLOW_DOWN, "times": 2}],
    "throttled_for_long": [{"match": _STACK, "status": 429, "headers": {"Retry-After": "4000"}, "body": _SLOW_DOWN}],
    "server_errors": [{"match": "^(PUT|GET|POST) /subscriptions", "status": 503, "body": _BUSY, "every": 3}],
    "gateway_timeout_after_acceptance": [{"match": _STACK, "status": 504, "body": _BUSY, "times": 1, "accept": True}],
    "reset_after_acceptance": [{"match": _STACK, "reset": True, "times": 1, "accept": True}],
    "slow_answers": [{"match": "deploymentStacks", "silence": 0.5}],
    "silent_poll": [{"match": "/operations/", "silence": 30, "times": 1}],
    "malformed_json": [{"match": "^GET .*deploymentStacks/", "text": "{'not json", "times": 2}],
    "html_for_ever": [{"match": "/operationresults/", "text": "<html>gateway</html>"}],
    "half_an_answer": [{"match": "deploymentStacks", "cut": True, "times": 1}],
    # The caller.
    "expired_token": [{"match": "^PUT", "status": 401, "body": {"error": {"code": "ExpiredToken"}}, "times": 1}],
    "revoked_token": [{"match": "^PUT", "status": 401, "body": {"error": {"code": "ExpiredAuthenticationToken"}}}],
    "no_rights": [{"match": "^PUT .*(deploymentStacks|resourcegroups)/", "status": 403, "body": _NO_RIGHT}],
    "no_rights_to_poll": [{"match": "/operations/", "status": 403, "body": _NO_RIGHT}],
    "no_rights_to_delete": [{"match": "^DELETE", "status": 403, "body": _NO_RIGHT}],
    # Operations.
    "lost_poll": [{"match": "/operations/", "status": 404, "body": {"error": {"code": "NotFound"}}}],
    "lost_result": [{"match": "/operationresults/", "status": 404, "body": {"error": {"code": "NotFound"}}}],
    "another_deployment": [
        {
            "match": _STACK,
            "status": 409,
            "times": 1,
            "body": {
                "error": {
                    "code": "DeploymentStackInNonTerminalState",
                    "message": "The deployment stack resource could not be updated as it is currently in a "
                    "non-terminal state 'Deploying'.",
                }
            },
        }
    ],
    # Services.
    "quota": [
        {
            "stage": "check",
            "type": _SETS,
            "code": "QuotaExceeded",
            "message": "Operation could not be completed as it results in exceeding approved standardNDSH100v5Family "
            "Cores quota. Additional details - Deployment Model: Resource Manager, Location: southcentralus, Current "
            "Limit: 96, Current Usage: 0, Additional Required: 192, (Minimum) New Limit Required: 192. Submit a "
            "request for Quota increase at https://aka.ms/ProdportalCRP/",
        }
    ],
    "sku_not_available": [
        {
            "stage": "check",
            "type": _SETS,
            "code": "SkuNotAvailable",
            "message": "The requested VM size for resource 'Following SKUs have failed for Capacity Restrictions: "
            "Standard_ND96isr_H100_v5' is currently not available in location 'southcentralus'. Please try another "
            "size or deploy to a different location or different zone.",
        }
    ],
    "policy": [
        {
            "stage": "check",
            "code": "RequestDisallowedByPolicy",
            "message": "Resource 'vnet' was disallowed by policy. Policy identifiers: '[{\"policyAssignment\":"
            '{"name":"Allowed locations"}}]\'.',
        }
    ],
    "allocation_failed": [
        {
            "stage": "create",
            "type": _SETS,
            "code": "AllocationFailed",
            "message": _NO_CAPACITY,
        },
        {
            "stage": "scale",
            "code": "AllocationFailed",
            "message": _NO_CAPACITY,
        },
    ],
    "overconstrained": [
        {
            "stage": "create",
            "type": _SETS,
            "code": "OverconstrainedAllocationRequest",
            "message": "Allocation failed. VM(s) with the following constraints cannot be allocated, because the "
            "condition is too restrictive. Constraints applied are: - Networking Constraints (such as Accelerated "
            "Networking or IPv6) - VM Size",
        }
    ],
    "half_then_failed": [
        {
            "stage": "create",
            "after": 1,
            "times": 1,
            "code": "InternalServerError",
            "message": "An unexpected error occurred while processing the request.",
        }
    ],
    "delete_fails": [
        {
            "stage": "delete",
            "times": 1,
            "code": "InUseSubnetCannotBeDeleted",
            "message": "Subnet compute is in use and cannot be deleted.",
        }
    ],
    "group_deleted": [{"stage": "create", "after": 1, "effect": "group_deleted"}],
    "principal_not_found": [
        {
            "stage": "create",
            "type": "(?i)roleAssignments$",
            "times": 1,
            "code": "PrincipalNotFound",
            "message": "Principal 55555555 does not exist in the directory 22222222.",
        }
    ],
}


def expanded(wanted: list[t.Any]) -> list[Item]:
    """
    Return the faults of a specification, names replaced by what they mean.

    C({"name": "quota", "for": "rg-1"}) plays a named fault only for what has this in its address.
    """
    found = []
    for entry in wanted:
        name = entry if isinstance(entry, str) else entry.get("name")
        more = {"for": entry["for"]} if isinstance(entry, dict) and "for" in entry else {}
        found += [{**one, **more, "seen": 0} for one in (NAMED[name] if name else [entry])]
    return found


def fits(fault: Item, asked: str) -> bool:
    """Return whether a fault is for a request, or for a stage, a type and an ID."""
    if fault.get("for", "").lower() not in asked.lower():
        return False
    if "stage" not in fault:
        return bool(re.search(fault["match"], asked))
    stage, kind = asked.split(" ")[:2]
    return bool(stage == fault["stage"] and re.search(fault.get("type", ""), kind))
