"""The what-if of a deployment: stored resources compared with a template, in the documented form of the answer."""

from __future__ import annotations

import re
import typing as t

from .defaults import READ_ONLY

if t.TYPE_CHECKING:
    from .store import Store

Item = dict[str, t.Any]

NOT_COMPARED = ("dependsOn", "apiVersion", "comments", "scope", "id", "name", "type", "resources")


def resources_of(template: Item, group_id: str) -> list[tuple[str, str, Item]]:
    """Return id, type and body of each resource of a template at the scope of a resource group."""
    found: list[tuple[str, str, Item]] = []
    for one in template.get("resources", []):
        found += _flat(one, group_id, "", "")
    return found


def _flat(body: Item, group_id: str, above: str, parent: str) -> list[tuple[str, str, Item]]:
    kind = f"{above}/{body['type']}" if above else body["type"]
    name = f"{parent}/{body['name']}" if parent else body["name"]
    provider, *kinds = kind.split("/")
    path = "/".join(f"{one}/{two}" for one, two in zip(kinds, name.split("/")))
    scope = str(body.get("scope") or "").strip("/")
    home = f"/{scope}" if scope.lower().startswith("subscriptions/") else f"{group_id}/providers/{scope}"
    made = [(f"{home.rstrip('/') if scope else group_id}/providers/{provider}/{path}", kind, body)]
    for one in body.get("resources", []):
        made += _flat(one, group_id, kind, name)
    return made


def changes(store: Store, template: Item, group_id: str) -> list[Item]:
    """Return a change for each resource of the template, and Ignore for each other resource of the group."""
    found, named = [], set()
    for resource_id, _kind, body in resources_of(template, group_id):
        named.add(resource_id.lower())
        found.append(_change(store.find(resource_id), resource_id, body))
    home = f"{group_id}/providers/".lower()
    for key, old in store.resources.items():
        if key.startswith(home) and key not in named:
            found.append({"resourceId": old["id"], "changeType": "Ignore", "before": old, "after": old})
    return found


def _change(old: Item | None, resource_id: str, body: Item) -> Item:
    after = {key: value for key, value in body.items() if key not in ("dependsOn", "comments", "scope", "resources")}
    after["id"] = resource_id
    if re.search(r"^\[", str(body["name"])):
        return {
            "resourceId": resource_id,
            "changeType": "Unsupported",
            "unsupportedReason": "The name is an expression.",
        }
    if old is None:
        return {"resourceId": resource_id, "changeType": "Create", "after": after}
    delta: list[Item] = []
    for key in sorted({*old, *body} - {*NOT_COMPARED}):
        delta += _delta(key, old.get(key), body.get(key))
    effective = any(one["propertyChangeType"] != "NoEffect" for one in delta)
    before = {**old, "apiVersion": body.get("apiVersion")}
    return {
        "resourceId": resource_id,
        "changeType": "Modify" if effective else "NoChange",
        "before": before,
        "after": after,
        "delta": delta,
    }


def _delta(path: str, before: t.Any, after: t.Any) -> list[Item]:
    """Return the changes of one property; paths of objects are joined with dots, elements of lists are children."""
    if path.split(".")[-1] in READ_ONLY and after is None:
        return [{"path": path, "propertyChangeType": "NoEffect", "before": before, "after": None}] if before else []
    if isinstance(before, dict) and isinstance(after, dict):
        return [
            one for key in sorted({*before, *after}) for one in _delta(f"{path}.{key}", before.get(key), after.get(key))
        ]
    if isinstance(before, list) and isinstance(after, list):
        children = _children(before, after)
        return [{"path": path, "propertyChangeType": "Array", "children": children}] if children else []
    if before == after:
        return []
    kind = "Create" if before is None else "Delete" if after is None else "Modify"
    return [{"path": path, "propertyChangeType": kind, "before": before, "after": after}]


def _children(before: list[t.Any], after: list[t.Any]) -> list[Item]:
    found: list[Item] = []
    for number in range(max(len(before), len(after))):
        old = before[number] if number < len(before) else None
        new = after[number] if number < len(after) else None
        if isinstance(old, dict) and isinstance(new, dict):
            inner = [one for key in sorted({*old, *new}) for one in _delta(key, old.get(key), new.get(key))]
            if inner:
                found.append({"path": str(number), "propertyChangeType": "Modify", "children": inner})
        else:
            found += _delta(str(number), old, new)
    return found
