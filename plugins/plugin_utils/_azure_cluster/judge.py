# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Judge what a run would do, from the what-if of the deployment stack. Nothing here asks Azure.

Refused are: what would be deleted; every change of a disk and of a machine but its tags and identity; what a change of
the network would take away from it; and what exists although the stack did not make it. What-if compares a template
with what the service returns. A plain value that only Azure has is a default of the service, not a change; an element
of a list or a mapping that only Azure has was put there by somebody. What it cannot tell is unknown: refused for
machines, disks and networks, and said for the rest.
"""

from __future__ import annotations

import json
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    Row = Mapping[str, t.Any]

MACHINES, DISKS = "microsoft.compute/virtualmachines", "microsoft.compute/disks"
INTERFACES = "microsoft.network/networkinterfaces"
_NETWORK, _RIGHTS = "microsoft.network/", "microsoft.authorization/"
_DEPLOYMENTS = "microsoft.resources/deployments"
# Compute never returns custom data, so what-if reports it in every run. Ours never changes.
_NEVER_RETURNED = "properties.osprofile.customdata"
# Of a machine, what changes without any effect on its jobs.
_HARMLESS = re.compile(r"(tags|identity)(\..*)?", re.IGNORECASE)
# Of a network, what identifies an element of a list, and the addresses that machines have.
_IDENTITY = re.compile(r".*\.(name|id|addressPrefix|addressPrefixes(\[\d+\])?)", re.IGNORECASE)


class Known(t.NamedTuple):
    """What the judgement needs beside the what-if; all IDs and names are in lower case."""

    cluster: str
    wanted: Mapping[str, str]  # type by ID of each resource of the template
    managed: Collection[str]  # the IDs that the stack has
    is_new: bool  # there is no stack
    gone: Collection[str]  # IDs of machines and interfaces that Azure no longer has
    allow: Collection[str]  # as TYPE/NAME, such as disks/hpc-data-0, what may be changed or deleted in this run


class Change(t.NamedTuple):
    """One changed property; None is no value."""

    path: str
    kind: str
    before: t.Any
    after: t.Any


class Judgement(t.NamedTuple):
    """The changes as the module returns them, one sentence per refusal, and what nobody can tell."""

    changes: list[dict[str, t.Any]]
    refusals: list[str]
    doubts: list[str]


def judge(answer: Row, known: Known) -> Judgement:
    """Return the judgement of a what-if."""
    properties = answer.get("properties") or {}
    rows = [row for row in (properties.get("changes") or {}).get("resourceChanges") or [] if _type(row) != _DEPLOYMENTS]
    result = Judgement([], [], [])
    for row in rows:
        _judge_row(row, known, result)
    seen = {str(row.get("id")).lower() for row in rows}
    for identity, kind in known.wanted.items():
        if identity not in seen and not known.is_new and kind != _DEPLOYMENTS:
            _unknown(kind, identity, "what-if does not mention it", known, result)
    for identity in sorted({one.lower() for one in known.managed} - seen - set(known.wanted) - set(known.gone)):
        kind = _type({"id": identity})
        if kind != _DEPLOYMENTS:
            _unknown(kind, identity, "it left the template, and what-if does not mention it", known, result)
    for one in properties.get("diagnostics") or []:
        result.doubts.append(f"{one.get('level')}: {one.get('code')}: {one.get('message')}")
    return result


def _type(row: Row) -> str:
    """Return the type of a resource in lower case; it follows from the ID if the row has none."""
    if row.get("type"):
        return str(row["type"]).lower()
    found = str(row.get("id") or "").lower().rpartition("/providers/")[2].split("/")
    return "/".join([found[0], *found[1::2]]) if len(found) > 2 else "microsoft.resources/resourcegroups"


def _judge_row(row: Row, known: Known, result: Judgement) -> None:
    identity, kind, what = str(row.get("id")).lower(), _type(row), str(row.get("changeType")).lower()
    if what == "create":
        result.changes.append(_change(row, "Create", []))
    elif what in ("delete", "detach"):
        if identity not in known.gone:
            result.changes.append(_change(row, what.capitalize(), []))
            _refuse(row, "would be deleted" if what == "delete" else "would leave the stack", known, result)
    elif what in ("modify", "nochange"):
        if not _is_ours(row, kind, known):
            _refuse(row, "exists, and this stack did not make it", known, result)
        if what == "modify":
            _judge_modify(row, kind, known, result)
    else:
        _unknown(kind, identity, str(row.get("unsupportedReason") or f"what-if answers {what}"), known, result)


def _judge_modify(row: Row, kind: str, known: Known, result: Judgement) -> None:
    found, delta = [], list(_flat((row.get("resourceConfigurationChanges") or {}).get("delta"), ""))
    if not delta:
        _unknown(kind, str(row.get("id")).lower(), "what-if does not say what changes", known, result)
    for one in delta:
        if is_expression(one.after):
            result.doubts.append(f"{kind} {_name(row)}: {one.path} is known only after the run")
        elif _is_change(one):
            found.append(one)
    if not found:
        return
    result.changes.append(_change(row, "Modify", found))
    for one in found:
        if is_protected(kind, one):
            change = f"{one.path} would change from {_shown(one.before)} to {_shown(one.after)}"
            _refuse(row, change, known, result)


def is_protected(kind: str, one: Change) -> bool:
    """Return whether a change of a property of an existing resource needs the permission of a person."""
    if kind == DISKS:
        return not one.path.lower().startswith("tags")
    if kind == MACHINES:
        return not _HARMLESS.fullmatch(one.path)
    if not kind.startswith(_NETWORK):
        return False
    if one.kind == "delete" or (one.kind == "modify" and one.after in (None, [], {})):
        return isinstance(one.before, (dict, list)) or bool(_IDENTITY.fullmatch(one.path))
    return one.kind == "modify" and (bool(_IDENTITY.fullmatch(one.path)) or _shrinks(one.before, one.after))


def _shrinks(before: t.Any, after: t.Any) -> bool:
    """Return whether a list of mappings loses one of them, by name or ID."""
    if not isinstance(before, list) or not all(isinstance(one, dict) for one in before):
        return False
    names = {str(one.get("name") or one.get("id")).lower() for one in after or [] if isinstance(one, dict)}
    return any(str(one.get("name") or one.get("id")).lower() not in names for one in before)


def _is_ours(row: Row, kind: str, known: Known) -> bool:
    """Return whether the stack made a resource, or a run that failed before the stack knew it. Rights have no tags."""
    before = (row.get("resourceConfigurationChanges") or {}).get("before") or {}
    tagged = str((before.get("tags") or {}).get("gpucluster_cluster", "")).lower() == known.cluster.lower()
    return str(row.get("id")).lower() in known.managed or tagged or kind.startswith(_RIGHTS)


def _unknown(kind: str, identity: str, reason: str, known: Known, result: Judgement) -> None:
    """Note what nobody can tell; of what people would lose, it is refused."""
    name = _title({"id": identity, "type": kind})
    sentence = f"{name}: unknown, because {reason}"
    lost = kind in (MACHINES, DISKS) or kind.startswith(_NETWORK)
    refused = lost and not known.is_new and name.lower() not in known.allow
    (result.refusals if refused else result.doubts).append(sentence)


def _refuse(row: Row, why: str, known: Known, result: Judgement) -> None:
    if _title(row).lower() not in known.allow:
        result.refusals.append(f"{_title(row)}: {why}")


def _title(row: Row) -> str:
    """Return the last word of the type and the name: a machine, its identity and its interface may have one name."""
    return f"{_type(row).rpartition('/')[2]}/{_name(row)}"


def _name(row: Row) -> str:
    return str(row.get("id")).rpartition("/")[2]


def _change(row: Row, what: str, properties: list[Change]) -> dict[str, t.Any]:
    shown = [{"path": one.path, "before": one.before, "after": one.after} for one in properties]
    return {"resource": row.get("id"), "type": _type(row), "name": _name(row), "change": what, "properties": shown}


def _flat(delta: t.Any, above: str) -> Iterator[Change]:
    """Yield the innermost changes; indices are in brackets."""
    for row in delta if isinstance(delta, list) else []:
        name = re.sub(r"\['(.*?)'\]", r".\1", str(row.get("path"))).lstrip(".")
        path = f"{above}[{name}]" if name.isdigit() else ".".join(filter(None, [above, name]))
        if row.get("children"):
            yield from _flat(row["children"], path)
        else:
            yield Change(path, str(row.get("changeType")).lower(), row.get("before"), row.get("after"))


def _is_change(one: Change) -> bool:
    """Return whether a property really changes."""
    if one.kind == "noeffect" or one.path.lower() == _NEVER_RETURNED:
        return False
    if one.kind == "delete":
        return one.path.endswith("]") or (isinstance(one.before, (dict, list)) and bool(one.before))
    return not same(one.before, one.after, one.path)


def same(before: t.Any, after: t.Any, path: str = "") -> bool:
    """Return whether Azure's value means that of the template; keys that only Azure has are its defaults."""
    if isinstance(after, dict) and isinstance(before, dict):
        known = {str(key).lower(): value for key, value in before.items()}
        return all(same(known.get(str(key).lower()), value, f"{path}.{key}") for key, value in after.items())
    if isinstance(after, list) and isinstance(before, list):
        return len(before) == len(after) and all(same(old, new, path) for old, new in zip(before, after, strict=True))
    if after in (None, "", [], {}) and before in (None, "", [], {}):
        # An identity is a key with an empty mapping.
        return "userassignedidentities" not in path.lower() or before == after
    if isinstance(before, bool) or isinstance(after, bool):
        return str(before).lower() == str(after).lower()
    if isinstance(before, str) and before.lower().startswith("/subscriptions/"):
        return before.lower() == str(after).lower()
    return bool(before == after) or (None not in (before, after) and str(before) == str(after))


def is_expression(value: t.Any) -> bool:
    """Return whether Resource Manager would evaluate a value."""
    return isinstance(value, str) and value.startswith("[") and value.endswith("]") and not value.startswith("[[")


def _shown(value: t.Any) -> str:
    text = "nothing" if value is None else json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def diff(changes: list[dict[str, t.Any]]) -> dict[str, str]:
    """Return the texts before and after for --diff, with a line for each changed property."""
    lines: dict[str, list[str]] = {"before": [], "after": []}
    for one in changes:
        for side, without in (("before", "Create"), ("after", "Delete")):
            if one["change"] != without:
                lines[side].append(f"{one['type']} {one['name']}")
            lines[side] += [f"  {part['path']}: {_shown(part[side])}" for part in one["properties"] if part[side]]
    return {side: "\n".join([*text, ""]) for side, text in lines.items()}
