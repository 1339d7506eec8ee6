# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Represent Slurm's accounting as data: the wanted entries, the present entries, and the faults of the wanted ones.

Every QOS, account and association is a mapping from names of settings to comparable values. The names are those of
sacctmgr. A value is a string, an integer, a set of names, or a limit.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import limits

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Settings = dict[str, t.Any]
    Entry = Mapping[str, t.Any]

# User, account and partition of an association. An empty partition means all partitions.
Key = t.Tuple[str, str, str]  # noqa: UP006 (evaluated on Python 3.9, read by mypy as an alias)

# Slurm creates these entries and needs them.
ROOT = "root"
KEPT_QOS = "normal"
ADMIN_LEVELS = {"none": "None", "operator": "Operator", "administrator": "Administrator"}

_ASSOCIATION: dict[str, dict[str, t.Any]] = {
    "fairshare": {"type": "str"},
    "qos": {"type": "list", "elements": "str"},
    "default_qos": {"type": "str"},
    "limits": {"type": "dict"},
}
_STATE = {"type": "str", "choices": ["present", "absent"], "default": "present"}
OPTIONS: dict[str, dict[str, t.Any]] = {
    "qos": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "description": {"type": "str"},
            "priority": {"type": "int"},
            "flags": {"type": "list", "elements": "str"},
            "preempt": {"type": "list", "elements": "str"},
            "preempt_mode": {"type": "str", "choices": ["cluster", "cancel", "gang", "requeue", "suspend"]},
            "limits": {"type": "dict"},
            "state": _STATE,
        },
    },
    "accounts": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "description": {"type": "str"},
            "organization": {"type": "str"},
            "parent": {"type": "str"},
            **_ASSOCIATION,
            "state": _STATE,
        },
    },
    "users": {
        "type": "list",
        "elements": "dict",
        "default": [],
        "options": {
            "name": {"type": "str", "required": True},
            "account": {"type": "str"},
            "default_account": {"type": "str"},
            "admin_level": {"type": "str", "choices": sorted(ADMIN_LEVELS)},
            **_ASSOCIATION,
            "associations": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "account": {"type": "str", "required": True},
                    "partition": {"type": "str", "default": ""},
                    **_ASSOCIATION,
                },
            },
            "state": _STATE,
        },
    },
}

_NAME = re.compile(r"[a-z0-9_.@-]+\Z")
_FAIRSHARE = re.compile(r"(?:\d+|parent)\Z")


@dataclasses.dataclass
class Accounting:
    """QOS, accounts, users and their associations, by name."""

    qos: dict[str, Settings] = dataclasses.field(default_factory=dict)
    accounts: dict[str, Settings] = dataclasses.field(default_factory=dict)
    users: dict[str, Settings] = dataclasses.field(default_factory=dict)
    associations: dict[Key, Settings] = dataclasses.field(default_factory=dict)
    tres: frozenset[str] = frozenset()
    # Accounts that have a name and a description in the database but do not belong to the cluster (any more).
    elsewhere: dict[str, Settings] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Wanted(Accounting):
    """The wanted entries, and the names of the entries to remove."""

    absent_qos: list[str] = dataclasses.field(default_factory=list)
    absent_accounts: list[str] = dataclasses.field(default_factory=list)
    absent_users: list[str] = dataclasses.field(default_factory=list)
    problems: list[str] = dataclasses.field(default_factory=list)


def wanted(qos: Iterable[Entry], accounts: Iterable[Entry], users: Iterable[Entry], exclusive: bool = False) -> Wanted:
    """Return the wanted entries, with a message for each value that Slurm would refuse or misread."""
    result = Wanted()
    for entry in _named(qos, "qos", result.absent_qos, result):
        result.qos[entry["name"]] = _qos(entry, exclusive, result)
    for entry in _named(accounts, "accounts", result.absent_accounts, result):
        result.accounts[entry["name"]] = _account(entry, exclusive, result)
    for entry in _named(users, "users", result.absent_users, result):
        _add_user(entry, exclusive, result)
    result.problems.extend(_kept(result))
    result.problems.extend(_parent_problems(result))
    return result


def _named(entries: Iterable[Entry], kind: str, absent: list[str], result: Wanted) -> list[Entry]:
    """Check the names of the entries, return the present ones, and record the absent ones."""
    present: list[Entry] = []
    seen: set[str] = set()
    for entry in entries:
        name = entry["name"]
        if not _NAME.match(name):
            result.problems.append(
                f"{kind}: {name!r} is no name for Slurm's accounting, which keeps lower case only; "
                "expected a-z, 0-9, _ . @ -"
            )
        if name in seen:
            result.problems.append(f"{kind}: {name!r} is listed twice")
        seen.add(name)
        if entry.get("state") == "absent":
            absent.append(name)
        else:
            present.append(entry)
    return present


def _kept(result: Wanted) -> list[str]:
    """Return a message for each entry to remove that Slurm needs."""
    found = [f"accounts: {ROOT!r} cannot be removed"] if ROOT in result.absent_accounts else []
    found += [f"users: {ROOT!r} cannot be removed"] if ROOT in result.absent_users else []
    return found + ([f"qos: {KEPT_QOS!r} cannot be removed"] if KEPT_QOS in result.absent_qos else [])


def _qos(entry: Entry, exclusive: bool, result: Wanted) -> Settings:
    """Return the settings of a QOS."""
    settings = _given(entry, {"Description": "description", "PreemptMode": "preempt_mode"})
    if entry.get("priority") is not None:
        settings["Priority"] = str(entry["priority"])
    for name, option in (("Flags", "flags"), ("Preempt", "preempt")):
        if entry.get(option) is not None:
            settings[name] = frozenset(entry[option])
    settings.update(_limits(entry, limits.QOS, f"qos {entry['name']}", exclusive, result))
    return settings


def _account(entry: Entry, exclusive: bool, result: Wanted) -> Settings:
    """Return the settings of an account."""
    settings = _given(entry, {"Description": "description", "Organization": "organization", "Parent": "parent"})
    if entry["name"] == ROOT and settings.pop("Parent", ""):
        result.problems.append(f"accounts: {ROOT!r} has no parent")
    return {**settings, **_association(entry, f"account {entry['name']}", exclusive, result)}


def _add_user(entry: Entry, exclusive: bool, result: Wanted) -> None:
    """Add a user and the associations of that user to the result."""
    name = entry["name"]
    associations = [*(entry.get("associations") or [])]
    if entry.get("account"):
        associations.insert(0, {**entry, "partition": ""})
    elif any(entry.get(option) is not None for option in _ASSOCIATION):
        options = ", ".join(_ASSOCIATION)
        result.problems.append(f"users: {name!r} has some of {options} without account; put them into associations")
    for association in associations:
        key = (name, association["account"], association.get("partition") or "")
        if key in result.associations:
            result.problems.append(f"users: {name!r} is twice in account {key[1]!r}")
        where = f"user {name} in account {key[1]}"
        result.associations[key] = _association(association, where, exclusive, result)
    accounts = [association["account"] for association in associations]
    if not accounts:
        result.problems.append(f"users: {name!r} is in no account; set account or associations")
        return
    default = entry.get("default_account")
    if default and default not in accounts:
        result.problems.append(f"users: {name!r} has the default account {default!r} and is not in it")
    result.users[name] = {"DefaultAccount": default} if default else {}
    if entry.get("admin_level"):
        result.users[name]["AdminLevel"] = ADMIN_LEVELS[entry["admin_level"]]


def _association(entry: Entry, where: str, exclusive: bool, result: Wanted) -> Settings:
    """Return the settings of an account or of a user in an account."""
    settings = _given(entry, {"Fairshare": "fairshare", "DefaultQOS": "default_qos"})
    if not _FAIRSHARE.match(settings.get("Fairshare", "1")):
        result.problems.append(f"{where}: fairshare is {settings['Fairshare']!r}, expected a whole number or 'parent'")
    if entry.get("qos") is not None:
        settings["QOS"] = frozenset(entry["qos"])
        default = settings.get("DefaultQOS")
        if default and settings["QOS"] and default not in settings["QOS"]:
            result.problems.append(f"{where}: default_qos is {default!r}, which is not one of its qos")
    return {**settings, **_limits(entry, limits.ASSOCIATION, where, exclusive, result)}


def _given(entry: Entry, names: Mapping[str, str]) -> Settings:
    """Return the settings whose options an entry sets."""
    return {name: str(entry[option]) for name, option in names.items() if entry.get(option) is not None}


def _limits(entry: Entry, table: Mapping[str, limits.Limit], where: str, exclusive: bool, result: Wanted) -> Settings:
    """Return the limits of an entry. With exclusive, unset all other limits."""
    settings: Settings = {limit.name: limits.parse(limit, None) for limit in limits.limits(table)} if exclusive else {}
    for name, value in (entry.get("limits") or {}).items():
        try:
            limit = limits.find(table, str(name))
            settings[limit.name] = limits.parse(limit, value)
        except limits.LimitError as exc:
            result.problems.append(f"{where}: {exc}")
    return settings


def _parent_problems(result: Wanted) -> list[str]:
    """Return a message for each account that is its own ancestor, and for each use of an account to remove."""
    found = []
    for name in result.accounts:
        seen = [name]
        while (parent := result.accounts.get(seen[-1], {}).get("Parent")) is not None:
            if parent in seen:
                found.append(f"accounts: {name!r} is below itself by way of parent {parent!r}")
                break
            seen.append(parent)
    gone = set(result.absent_accounts)
    found.extend(
        f"accounts: {name!r} has the parent {settings['Parent']!r}, which shall be absent"
        for name, settings in result.accounts.items()
        if settings.get("Parent") in gone
    )
    found.extend(
        f"users: {user!r} is in account {account!r}, which shall be absent"
        for user, account in sorted({key[:2] for key in result.associations if key[1] in gone})
    )
    return found
