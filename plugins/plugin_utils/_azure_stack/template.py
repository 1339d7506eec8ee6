# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read a literal ARM template: its resources with their IDs, its digest, and what a stack refuses in it."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError

Body = dict[str, t.Any]

_SUBSCRIPTION_SCHEMA = "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#"
GROUPS = "Microsoft.Resources/resourceGroups"
DEPLOYMENTS = "2025-04-01"
GROUP_VERSION = "2021-04-01"
SCALE_SETS = "2025-04-01"
_REFERENCE = re.compile(r"\[reference\(.*\)[\w.\[\]]*\]", re.DOTALL)
_EXTRA = ("copy", "condition")


class Resource(t.NamedTuple):
    """One resource of a template; the name has a slash for each parent."""

    id: str
    type: str
    name: str
    body: Body


def check(template: t.Any) -> None:
    """Refuse a template that is not literal, because what-if cannot compare it before it is evaluated."""
    if not isinstance(template, dict) or not isinstance(template.get("resources"), list):
        raise ConfigError("template must be a mapping with a list resources")
    for name in ("parameters", "variables", "functions"):
        if template.get(name):
            raise ConfigError(f"template has {name}; write their values into the resources")
    for number, body in enumerate(template["resources"]):
        _check_resource(body, f"template.resources[{number}]")
    for path, text in _expressions(template, "template"):
        if not _REFERENCE.fullmatch(text):
            raise ConfigError(f"{path} is the expression {text[:80]}; allowed: values, and [reference(...)]")


def _check_resource(body: t.Any, where: str) -> None:
    if not isinstance(body, dict):
        raise ConfigError(f"{where} must be a mapping")
    for name in ("type", "apiVersion", "name"):
        if not isinstance(body.get(name), str) or not body[name] or body[name].startswith("["):
            raise ConfigError(f"{where}.{name} is {body.get(name)!r}; it must be a literal string")
    for name in _EXTRA:
        if name in body:
            raise ConfigError(f"{where} has {name}; a literal template has none")
    for number, inner in enumerate(body.get("resources") or []):
        _check_resource(inner, f"{where}.resources[{number}]")


def _expressions(value: t.Any, path: str) -> t.Iterator[tuple[str, str]]:
    """Yield the expressions of a template; a string that begins with two brackets is literal."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _expressions(one, f"{path}.{key}")
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _expressions(one, f"{path}[{number}]")
    elif is_expression(value):
        yield path, value


def is_expression(value: t.Any) -> t.TypeGuard[str]:
    """Return whether Resource Manager would evaluate a string."""
    return isinstance(value, str) and value.startswith("[") and value.endswith("]") and not value.startswith("[[")


def resources(template: Body, group_id: str) -> list[Resource]:
    """Return all resources of a template for a resource group, also those inside others."""
    return [one for body in template["resources"] for one in _flat(body, group_id, "", "")]


def _flat(body: Body, group_id: str, kind_above: str, name_above: str) -> t.Iterator[Resource]:
    kind = "/".join(filter(None, [kind_above, body["type"]]))
    name = "/".join(filter(None, [name_above, body["name"]]))
    provider, *kinds = kind.split("/")
    path = "/".join(f"{one}/{two}" for one, two in zip(kinds, name.split("/")))
    yield Resource(f"{_scope(body, group_id)}/providers/{provider}/{path}", kind, name, body)
    for inner in body.get("resources") or []:
        yield from _flat(inner, group_id, kind, name)


def _scope(body: Body, group_id: str) -> str:
    """Return the ID of what an extension such as a role assignment belongs to; the group if it names nothing."""
    scope = str(body.get("scope") or "").strip("/")
    if not scope:
        return group_id
    return f"/{scope}" if scope.lower().startswith("subscriptions/") else f"{group_id}/providers/{scope}"


def digest(template: Body) -> str:
    """Return a short digest of a template, which the stack keeps as a tag; capacities are not part of it."""
    plain = {**template, "resources": [_without_capacity(one) for one in template["resources"]]}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()[:24]


def _without_capacity(body: Body) -> Body:
    if not is_scale_set(body["type"]) or not isinstance(body.get("sku"), dict):
        return body
    return {**body, "sku": {key: value for key, value in body["sku"].items() if key != "capacity"}}


def is_scale_set(kind: str) -> bool:
    """Return whether a type is that of scale sets."""
    return kind.lower() == "microsoft.compute/virtualmachinescalesets"


def with_capacities(template: Body, capacities: t.Mapping[str, int]) -> Body:
    """Return a template with the capacity of some scale sets, by their name in lower case."""
    found = []
    for body in template["resources"]:
        count = capacities.get(str(body["name"]).lower()) if is_scale_set(body["type"]) else None
        found.append(body if count is None else {**body, "sku": {**body["sku"], "capacity": count}})
    return {**template, "resources": found}


def for_subscription(template: Body, group: str, location: str, name: str) -> Body:
    """Return a template of a subscription that makes the group and deploys the template in it, for validation."""
    inner = {
        "type": "Microsoft.Resources/deployments",
        "apiVersion": DEPLOYMENTS,
        "name": name,
        "resourceGroup": group,
        "dependsOn": [f"[resourceId('{GROUPS}', '{group}')]"],
        "properties": {
            "mode": "Incremental",
            "expressionEvaluationOptions": {"scope": "inner"},
            "template": template,
        },
    }
    made = {"type": GROUPS, "apiVersion": GROUP_VERSION, "name": group, "location": location, "properties": {}}
    return {"$schema": _SUBSCRIPTION_SCHEMA, "contentVersion": "1.0.0.0", "resources": [made, inner]}
