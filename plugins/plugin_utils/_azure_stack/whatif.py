# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Read the answer of what-if, and drop what is no change.

The noise of what-if is documented by Microsoft: it compares the template with what the service returns, and the
service adds defaults. A property that no template named was never ours, so its loss is no change.
"""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import template as templates

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.template import Resource

    Body = dict[str, t.Any]

_MISSING: t.Any = object()


class Rule(t.NamedTuple):
    """A property that what-if cannot judge, with the reason; type and path are regular expressions."""

    type: str
    path: str
    reason: str


# Azure never returns these, so what-if reports them in every run. A change is found by comparing the templates.
WRITE_ONLY = (
    Rule("microsoft.compute/.*", r"(.*\.)?osProfile\.customData", "Compute never returns custom data"),
    Rule("microsoft.compute/.*", r"(.*\.)?userData", "Compute returns user data only with an extra parameter"),
    Rule("microsoft.compute/.*", r"(.*\.)?osProfile\.adminPassword", "Compute never returns passwords"),
    Rule(
        "microsoft.compute/.*",
        r"(.*\.)?protectedSettings(\..*)?",
        "Compute never returns protected settings of extensions",
    ),
)
# What another owner sets, or a service rewrites.
IGNORED = (
    Rule("microsoft.network/networkinterfaces", r"properties\.networkSecurityGroup\.location", "only in the answer"),
    Rule(
        "microsoft.compute/virtualmachinescalesets",
        r"properties\.virtualMachineProfile\.storageProfile\.imageReference\.exactVersion",
        "the version that was installed last",
    ),
    Rule(
        "microsoft.authorization/roleassignments",
        r"properties\.(scope|createdOn|updatedOn|createdBy|updatedBy)",
        "Azure sets them",
    ),
    Rule(
        "microsoft.authorization/roledefinitions",
        r"properties\.(createdOn|updatedOn|createdBy|updatedBy)",
        "Azure sets them",
    ),
)
_CAPACITY = "sku.capacity"
_EMPTY: tuple[t.Any, ...] = (None, "", [], {})
_SECRET = re.compile(r"(?i)(customData|userData|password|protectedSettings|secret|accountKey|token)")
_HIDDEN = "(not shown)"


class Existing(t.NamedTuple):
    """A resource of the template that exists or may exist, as Azure has it; None if what-if does not show it."""

    resource: Resource
    body: Body | None


class Reading(t.NamedTuple):
    """The changes, the capacities of scale sets to keep (by name in lower case), what cannot be judged, what exists."""

    changes: list[Body]
    capacities: dict[str, int]
    doubts: list[str]
    there: list[Existing]


class Templates(t.NamedTuple):
    """The resources of the template and of the one applied last (empty if unknown), and whether they may differ."""

    now: Sequence[Resource]
    last: Sequence[Resource] = ()
    edited: bool = False


def read(answer: Mapping[str, t.Any], known: Templates, keep_capacity: bool = True) -> Reading:
    """Return the changes; a resource that what-if cannot judge is one if the template was edited."""
    rows = _rows(answer.get("properties") or {})
    last = {one.id.lower(): one.body for one in known.last}
    reading = Reading([], {}, [], [])
    for one in known.now:
        row = rows.get(one.id.lower(), {"changeType": "nothing"})
        kind = str(row.get("changeType")).lower()
        if kind == "create":
            reading.changes.append(change(one, "Create", created(one.body)))
            continue
        before = row.get("before")
        reading.there.append(Existing(one, before if isinstance(before, dict) else None))
        if kind in ("modify", "nochange"):
            _read_existing(row, one, last.get(one.id.lower()), keep_capacity, reading)
        else:
            reason = row.get("unsupportedReason") or f"what-if answers {row.get('changeType')}"
            reading.doubts.append(f"{one.type} {one.name}: {reason}")
            if known.edited:
                reading.changes.append(change(one, "Unsupported", []))
    return reading


def _rows(properties: Mapping[str, t.Any]) -> dict[str, Mapping[str, t.Any]]:
    """Return the rows by ID in lower case; what Azure calls potential depends on values that do not exist yet."""
    rows = [*(properties.get("potentialChanges") or []), *(properties.get("changes") or [])]
    return {str(one.get("resourceId")).lower(): one for one in rows}


def _read_existing(
    row: Mapping[str, t.Any], resource: Resource, last: Body | None, keep_capacity: bool, reading: Reading
) -> None:
    there = row.get("before") if isinstance(row.get("before"), dict) else {}
    found = list(_properties(row.get("delta") or [], resource, last, there))
    sku = (there or {}).get("sku")
    if _is_set(resource) and keep_capacity and isinstance(sku, dict) and isinstance(sku.get("capacity"), int):
        reading.capacities[resource.name.lower()] = sku["capacity"]
        found = [entry for entry in found if entry["path"] != _CAPACITY]
    if found:
        reading.changes.append(change(resource, "Modify", found))


def _is_set(resource: Resource) -> bool:
    return templates.is_scale_set(resource.type)


def change(resource: Resource, kind: str, properties: list[Body]) -> Body:
    """Return a change as the module returns it."""
    short = {"resource": resource.id, "type": resource.type, "name": resource.name}
    return {**short, "change": kind, "properties": properties}


def created(body: Body) -> list[Body]:
    """Return the values of a new resource."""
    skipped = ("type", "name", "apiVersion", "dependsOn", "resources", "scope", "comments")
    rest = {key: value for key, value in body.items() if key not in skipped}
    return [{"path": path, "before": None, "after": _shown(path, value)} for path, value in _leaves(rest, "")]


def _leaves(value: t.Any, path: str) -> Iterator[tuple[str, t.Any]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _leaves(one, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and any(isinstance(one, (dict, list)) for one in value):
        for number, one in enumerate(value):
            yield from _leaves(one, f"{path}[{number}]")
    else:
        yield path, value


def _properties(delta: t.Any, resource: Resource, last: Body | None, there: t.Any) -> Iterator[Body]:
    """Yield the changes of the properties of one resource; there is the resource in Azure."""
    kind = resource.type.lower()
    for path, row, now in _flat(delta, "", resource.body):
        if _matches(IGNORED, kind, path):
            continue
        if _matches(WRITE_ONLY, kind, path):
            if last is not None and find(last, path) != find(resource.body, path):
                yield {"path": path, "before": _shown(path, find(last, path)), "after": _shown(path, now)}
        elif _is_change(row, path, _Values(now, find(last, path), find(there, path))):
            yield {
                "path": path,
                "before": _shown(path, row.get("before")),
                "after": _shown(path, row.get("after")),
            }


def _flat(delta: t.Any, above: str, body: t.Any) -> Iterator[tuple[str, Mapping[str, t.Any], t.Any]]:
    """Yield path, row and the value of the template of each innermost row; indices are in brackets."""
    for row in delta if isinstance(delta, list) else []:
        name = re.sub(r"\['(.*?)'\]", r".\1", str(row.get("path"))).lstrip(".")
        inner = find(body, name)
        path = f"{above}[{name}]" if name.isdigit() else ".".join(filter(None, [above, name]))
        if row.get("children"):
            yield from _flat(row["children"], path, inner)
        else:
            yield path, row, inner


class _Values(t.NamedTuple):
    """The values at a path of the template, of the template applied last, and of the resource; each may be missing."""

    now: t.Any
    last: t.Any
    there: t.Any


def _is_change(row: Mapping[str, t.Any], path: str, values: _Values) -> bool:
    kind = str(row.get("propertyChangeType")).lower()
    before, after = row.get("before"), row.get("after")
    if kind == "noeffect":
        return False
    if kind == "delete":
        if values.now is not _MISSING:
            return not same(before, values.now, path)  # a key that Azure writes in other letters
        # The end of a list that the template names is a change: Azure removes that element.
        return path.endswith("]") or values.last is not _MISSING
    if kind == "create":
        return not same(None if values.there is _MISSING else values.there, after, path)
    return not same(before, after, path)


def same(before: t.Any, after: t.Any, path: str = "") -> bool:
    """Return whether Azure's value means that of the template; keys that only Azure has are its defaults."""
    if isinstance(after, dict) and isinstance(before, dict):
        known = {str(key).lower(): value for key, value in before.items()}
        return all(same(known.get(str(key).lower()), value, f"{path}.{key}") for key, value in after.items())
    if isinstance(after, list) and isinstance(before, list):
        return len(before) == len(after) and all(same(old, new, path) for old, new in zip(before, after))
    if templates.is_expression(after):
        return True
    if after in _EMPTY and before in _EMPTY:
        # An identity is a key with an empty mapping.
        return "userassignedidentities" not in path.lower() or before == after
    if isinstance(before, str) and isinstance(after, str):
        return _normal(before, path) == _normal(after, path)
    if isinstance(before, bool) or isinstance(after, bool):
        return str(before).lower() == str(after).lower()
    return bool(before == after) or (before is not None and after is not None and str(before) == str(after))


def _normal(text: str, path: str) -> str:
    """Return an ID in lower case and a location without blanks, as Azure compares them."""
    if text.lower().startswith("/subscriptions/"):
        return text.lower()
    return text.replace(" ", "").lower() if path.split(".")[-1] == "location" else text


def find(value: t.Any, path: str) -> t.Any:
    """Return the value at a path of what-if, such as tags.a.b or properties.subnets[0]; names ignore case."""
    if value is None:
        return _MISSING
    if not path:
        return value
    step = re.match(r"\[?(\d+)\]?\.?", path)
    if isinstance(value, list):
        inside = step and int(step[1]) < len(value)
        return find(value[int(step[1])], path[step.end() :]) if step and inside else _MISSING
    return _below(value, path) if isinstance(value, dict) else _MISSING


def _below(value: Body, path: str) -> t.Any:
    """Return the value below a mapping; a key may itself contain dots, so the longest one that fits is tried first."""
    for key in sorted(value, key=len, reverse=True):
        name = str(key).lower()
        if path.lower().startswith(name) and path[len(name) : len(name) + 1] in ("", ".", "["):
            return find(value[key], path[len(name) :].removeprefix("."))
    return _MISSING


def _matches(rules: Iterable[Rule], kind: str, path: str) -> bool:
    plain = re.sub(r"\[\d+\]", "[]", path)
    return any(re.fullmatch(one.type, kind) and re.fullmatch(one.path, plain) for one in rules)


def _shown(path: str, value: t.Any) -> t.Any:
    """Return a value for a report; a digest stands for what may hold a secret or is long."""
    if value is _MISSING or value is None:
        return None
    if not _SECRET.search(path):
        return value
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return f"{_HIDDEN} {hashlib.sha256(text.encode()).hexdigest()[:8]}"


def diff(changes: Sequence[Body]) -> dict[str, str]:
    """Return the texts before and after, with a line for each changed property."""
    before, after = [], []
    for one in changes:
        title = f"{one['type']} {one['name']}"
        if one["change"] != "Create":
            before.append(title)
        if one["change"] != "Delete":
            after.append(title)
        for entry in one["properties"]:
            for lines, value in ((before, entry["before"]), (after, entry["after"])):
                if value is not None:
                    lines.append(f"  {entry['path']}: {value if isinstance(value, str) else json.dumps(value)}")
    return {"before": _text(before), "after": _text(after)}


def _text(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
