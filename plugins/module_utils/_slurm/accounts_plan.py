# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Plan the calls of sacctmgr that change the present accounting to the wanted one, in an order that always works."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import accounts, limits

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm.accounts import (
        Accounting,
        Key,
        Settings,
        Wanted,
    )

_TABLES = {"qos": limits.QOS, "account": limits.ASSOCIATION, "user": limits.ASSOCIATION}
# sacctmgr changes the case of these.
_ANY_CASE = ("Description", "Organization", "PreemptMode")
# A QOS may preempt one that is created after it.
_LATER = ("Preempt",)


@dataclasses.dataclass
class Plan:
    """The arguments of the planned sacctmgr calls, and the changes that they make."""

    cluster: str
    calls: list[list[str]] = dataclasses.field(default_factory=list)
    before: dict[str, t.Any] = dataclasses.field(default_factory=dict)
    after: dict[str, t.Any] = dataclasses.field(default_factory=dict)

    def add(self, kind: str, names: list[str], label: str, settings: Settings) -> None:
        """Plan the creation of an entry."""
        self.calls.append(["add", kind, *names, *_arguments(kind, {}, settings)])
        self._note(label, None, {name: _text(kind, name, value) for name, value in settings.items() if _is_set(value)})

    def modify(self, kind: str, names: list[str], label: str, present: Settings, settings: Settings) -> None:
        """Plan the change of the settings that differ."""
        different = {name: value for name, value in settings.items() if differs(name, present.get(name), value)}
        if not different:
            return
        self.calls.append(["modify", kind, "where", *names, "set", *_arguments(kind, present, different)])
        self._note(
            label,
            {name: _text(kind, name, present.get(name)) for name in different},
            {name: _text(kind, name, value) for name, value in different.items()},
        )

    def delete(self, kind: str, names: list[str], label: str) -> None:
        """Plan the removal of an entry."""
        self.calls.append(["delete", kind, "where", *names])
        self._note(label, {}, None)

    def _note(self, label: str, before: dict[str, str] | None, after: dict[str, str] | None) -> None:
        """Record a change for the diff. None means that the entry does not exist."""
        if before is not None:
            self.before.setdefault(label, {}).update(before)
        if after is not None:
            self.after.setdefault(label, {}).update(after)


def make(present: Accounting, wanted: Wanted, cluster: str, exclusive: bool = False) -> Plan:
    """Return the calls that change the present accounting to the wanted one."""
    plan = Plan(cluster)
    _plan_qos(plan, present, wanted)
    _plan_accounts(plan, present, wanted)
    _plan_users(plan, present, wanted)
    _plan_removals(plan, present, wanted, exclusive)
    return plan


def problems(present: Accounting, wanted: Wanted) -> list[str]:
    """Return a message for each wanted entry that the present accounting does not allow."""
    return [
        *wanted.problems,
        *_unknown_accounts(present, wanted),
        *_unknown_qos(present, wanted),
        *_unknown_tres(present, wanted),
    ]


def differs(name: str, present: t.Any, wanted: t.Any) -> bool:
    """Return whether a setting must be changed."""
    if name in _ANY_CASE:
        return str(present or "").casefold() != str(wanted or "").casefold()
    if isinstance(wanted, frozenset):
        return {str(item).casefold() for item in present or ()} != {str(item).casefold() for item in wanted}
    if name in ("DefaultQOS", "DefaultAccount"):
        return (present or "") != (wanted or "")
    return bool((present or None) != (wanted or None)) if isinstance(wanted, dict) else bool(present != wanted)


def _arguments(kind: str, present: Settings, settings: Settings) -> list[str]:
    """Return settings as arguments of sacctmgr."""
    arguments = []
    for name, value in settings.items():
        limit = _TABLES[kind].get(name.lower())
        if limit:
            if present or _is_set(value):
                arguments.append(limits.settings(limit, present.get(name), value))
        elif isinstance(value, frozenset):
            empty = "-1" if name == "Flags" and present else ""
            arguments.append(f"{name}={','.join(sorted(value)) or empty}")
        else:
            arguments.append(f"{name}={value or ('-1' if name == 'DefaultQOS' else '')}")
    return [argument for argument in arguments if present or not argument.endswith("=")]


def _is_set(value: t.Any) -> bool:
    """Return whether a value is set."""
    return value is not None and value not in ({}, frozenset(), "")


def _text(kind: str, name: str, value: t.Any) -> str:
    """Return a value as the diff shows it."""
    limit = _TABLES[kind].get(name.lower())
    if limit:
        return limits.text(limit, value)
    return ",".join(sorted(value)) if isinstance(value, frozenset) else str(value or "")


def _plan_qos(plan: Plan, present: Accounting, wanted: Wanted) -> None:
    """Create and change QOS. Set their Preempt lists after all QOS exist."""
    for name, settings in wanted.qos.items():
        here = present.qos.get(name)
        now = {key: value for key, value in settings.items() if key not in _LATER}
        if here is None:
            plan.add("qos", [f"name={name}"], f"qos {name}", now)
        else:
            plan.modify("qos", [f"name={name}"], f"qos {name}", here, now)
    for name, settings in wanted.qos.items():
        later = {key: value for key, value in settings.items() if key in _LATER}
        plan.modify("qos", [f"name={name}"], f"qos {name}", present.qos.get(name) or {"Preempt": frozenset()}, later)


def _plan_accounts(plan: Plan, present: Accounting, wanted: Wanted) -> None:
    """Create and change accounts, parents first."""
    for name in _parents_first(wanted):
        where = [f"name={name}", f"cluster={plan.cluster}"]
        settings = wanted.accounts[name]
        if name in present.accounts:
            plan.modify("account", where, f"account {name}", present.accounts[name], settings)
            continue
        words = present.elsewhere.get(name, {})
        plan.add("account", where, f"account {name}", {key: settings[key] for key in settings if key not in words})
        # When a known account joins the cluster, sacctmgr keeps its stored description and organization.
        plan.modify(
            "account", where[:1], f"account {name}", words, {key: settings[key] for key in settings if key in words}
        )


def _parents_first(wanted: Wanted) -> list[str]:
    """Return the wanted accounts, each one after its parent."""
    ordered: dict[str, None] = {}

    def visit(name: str) -> None:
        if name in wanted.accounts and name not in ordered:
            visit(wanted.accounts[name].get("Parent", ""))
            ordered[name] = None

    for name in wanted.accounts:
        visit(name)
    return list(ordered)


def _plan_users(plan: Plan, present: Accounting, wanted: Wanted) -> None:
    """Create and change users and their associations."""
    started = {user for user, _account, _partition in present.associations}
    for key, settings in wanted.associations.items():
        user, account, partition = key
        label = f"user {user} in {account}" + (f" on {partition}" if partition else "")
        if key in present.associations:
            where = [f"name={user}", f"cluster={plan.cluster}", f"account={account}", f"partition={partition}"]
            plan.modify("user", where, label, present.associations[key], settings)
            continue
        names = [f"name={user}", f"cluster={plan.cluster}", f"account={account}"]
        plan.add("user", [*names, f"partition={partition}"] if partition else names, label, settings)
        if user not in started:
            # The first account of a user becomes the default one.
            started.add(user)
            present.users.setdefault(user, {"AdminLevel": "None"})["DefaultAccount"] = account
    for user in wanted.users:
        # One call per setting: sacctmgr changes a user and the default account of a user in different ways.
        for name, value in _user_settings(user, present, wanted).items():
            where = [f"name={user}", f"cluster={plan.cluster}"] if name == "DefaultAccount" else [f"name={user}"]
            plan.modify("user", where, f"user {user}", present.users.get(user, {}), {name: value})


def _user_settings(user: str, present: Accounting, wanted: Wanted) -> Settings:
    """Return the settings of a user, with a default account that is not removed in this run."""
    settings = dict(wanted.users[user])
    own = [account for name, account, _partition in wanted.associations if name == user]
    if "DefaultAccount" not in settings and present.users.get(user, {}).get("DefaultAccount") in wanted.absent_accounts:
        settings["DefaultAccount"] = own[0]
    return settings


def _plan_removals(plan: Plan, present: Accounting, wanted: Wanted, exclusive: bool) -> None:
    """Remove absent entries and, with exclusive, unlisted ones: users, then accounts (children first), then QOS."""
    users = {user for user, _account, _partition in present.associations}
    gone = [user for user in wanted.absent_users if user in users]
    if exclusive:
        gone += sorted(users - wanted.users.keys() - set(gone) - {accounts.ROOT})
        _plan_lost_associations(plan, present, wanted)
    for user in gone:
        plan.delete("user", [f"name={user}", f"cluster={plan.cluster}"], f"user {user}")
    absent = [name for name in wanted.absent_accounts if name in present.accounts]
    if exclusive:
        absent += sorted(present.accounts.keys() - wanted.accounts.keys() - set(absent) - {accounts.ROOT})
    for name in _children_first(absent, present):
        plan.delete("account", [f"name={name}", f"cluster={plan.cluster}"], f"account {name}")
    absent = [name for name in wanted.absent_qos if name in present.qos]
    if exclusive:
        absent += sorted(present.qos.keys() - wanted.qos.keys() - set(absent) - {accounts.KEPT_QOS})
    for name in absent:
        plan.delete("qos", [f"name={name}"], f"qos {name}")


def _plan_lost_associations(plan: Plan, present: Accounting, wanted: Wanted) -> None:
    """Remove unlisted associations of listed users, after a change of the default account where it is affected."""
    lost = [key for key in present.associations if key[0] in wanted.users and key not in wanted.associations]
    kept = {key[:2] for key in wanted.associations}
    for user in dict.fromkeys(key[0] for key in lost):
        default = wanted.users[user].get("DefaultAccount") or present.users.get(user, {}).get("DefaultAccount", "")
        if (user, default) not in kept:
            own = next(account for name, account, _partition in wanted.associations if name == user)
            where = [f"name={user}", f"cluster={plan.cluster}"]
            plan.modify("user", where, f"user {user}", present.users.get(user, {}), {"DefaultAccount": own})
    for user, account, partition in lost:
        where = [f"name={user}", f"cluster={plan.cluster}", f"account={account}", f"partition={partition}"]
        plan.delete("user", where, f"user {user} in {account}" + (f" on {partition}" if partition else ""))


def _children_first(names: Iterable[str], present: Accounting) -> list[str]:
    """Return accounts, each one before its parent."""

    def depth(name: str) -> int:
        steps = 0
        while name and name != accounts.ROOT and steps < len(present.accounts):
            name, steps = present.accounts.get(name, {}).get("Parent", ""), steps + 1
        return steps

    return sorted(names, key=lambda name: (-depth(name), name))


def _unknown_accounts(present: Accounting, wanted: Wanted) -> list[str]:
    """Return a message for each account that is named but will not exist."""
    known = present.accounts.keys() | wanted.accounts.keys() | {accounts.ROOT}
    found = [
        f"accounts: {name!r} has the unknown parent {settings['Parent']!r}"
        for name, settings in wanted.accounts.items()
        if settings.get("Parent", accounts.ROOT) not in known
    ]
    named: set[Key] = {key for key in wanted.associations if key[1] not in known}
    return found + [
        f"users: {user!r} is in the unknown account {account!r}" for user, account, _partition in sorted(named)
    ]


def _unknown_qos(present: Accounting, wanted: Wanted) -> list[str]:
    """Return a message for each QOS that is named but will not exist."""
    known = (present.qos.keys() | wanted.qos.keys()) - set(wanted.absent_qos)
    found = []
    for label, settings in _entries(wanted):
        named = {settings.get("DefaultQOS") or ""} | {str(item).lstrip("+-") for item in settings.get("QOS", ())}
        named |= set(settings.get("Preempt", ()))
        found += [f"{label} names the unknown QOS {name!r}" for name in sorted(named - known - {""})]
    return found


def _unknown_tres(present: Accounting, wanted: Wanted) -> list[str]:
    """Return a message for each TRES that has a limit but is not recorded. sacctmgr would refuse it."""
    found = []
    for label, settings in _entries(wanted):
        named = {tres for value in settings.values() if isinstance(value, dict) for tres in value}
        for tres in sorted(named - present.tres) if present.tres else ():
            found.append(f"{label} limits {tres!r}, which Slurm does not record; add it to AccountingStorageTRES")
    return found


def _entries(wanted: Wanted) -> list[tuple[str, Settings]]:
    """Return the settings of all wanted entries, each with its label."""
    return [
        *((f"qos {name}", settings) for name, settings in wanted.qos.items()),
        *((f"account {name}", settings) for name, settings in wanted.accounts.items()),
        *((f"user {key[0]} in account {key[1]}", settings) for key, settings in wanted.associations.items()),
    ]
