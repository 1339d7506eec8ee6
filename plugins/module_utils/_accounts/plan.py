# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Plan the changes to the account files of a machine: find problems, then choose the commands of the shadow tools."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import LOWEST, NOWHERE, unknown_groups
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.database import Account, Database
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import (
        Accounts,
        Defaults,
        Group,
        Removed,
        User,
    )


class Step(t.NamedTuple):
    """One command and its description."""

    text: str
    argv: tuple[str, ...]


class Plan:
    """The steps from the current to the wanted state of a machine."""

    def __init__(self) -> None:
        """Start with an empty plan."""
        self.removals: list[Step] = []
        self.homes: list[Step] = []
        self.groups: list[Step] = []
        self.users: list[Step] = []
        self.hashes: dict[str, str] = {}
        self.late: list[Step] = []
        self.warnings: list[str] = []
        self.before: dict[str, dict[str, t.Any]] = {}
        self.after: dict[str, dict[str, t.Any]] = {}

    def note(self, key: str, before: dict[str, t.Any], after: dict[str, t.Any]) -> None:
        """Record a difference for diff mode."""
        self.before.setdefault(key, {}).update(before)
        self.after.setdefault(key, {}).update(after)

    @property
    def actions(self) -> list[str]:
        """Return the description of each step."""
        texts = [step.text for step in (*self.removals, *self.homes, *self.groups, *self.users, *self.late)]
        return texts + [f"set the password field of {name}" for name in self.hashes]


def machine_problems(
    accounts: Accounts,
    database: Database,
    defaults: Defaults,
    exists: Callable[[str], bool],
    processes: Callable[[int], list[int]],
) -> list[str]:
    """Return the reasons why the lists cannot be applied to this machine."""
    rest = database.without(user.name for user in accounts.removed)
    uids = _holders((other.uid, other.name) for other in rest.users.values())
    gids = _holders((other.gid, other.name) for other in rest.groups.values())
    problems = unknown_groups(accounts, rest.groups, defaults, " or one of this machine")
    for user in accounts.users:
        where = f"{defaults.users} ({user.name})"
        problems += [f"{where}: {text}" for text in _user_problems(user, rest, uids, exists, processes)]
    for group in accounts.groups:
        where = f"{defaults.groups} ({group.name})"
        problems += [f"{where}: {text}" for text in _group_problems(group, rest, gids, accounts)]
    for removed in accounts.removed:
        where = f"{defaults.removed} ({removed.name})"
        problems += [f"{where}: {text}" for text in _removal_problems(removed, database, processes)]
    return problems


def _busy(uid: int, processes: Callable[[int], list[int]]) -> str:
    """Return a description of the processes of a user, or an empty string."""
    found = processes(uid)
    return f"processes {words.listed(found, 3)} run on this machine" if found else ""


def _holders(pairs: Iterable[tuple[int, str]]) -> dict[int, list[str]]:
    """Return the names for each UID or GID. On some machines several names share one."""
    found: dict[int, list[str]] = {}
    for number, name in pairs:
        found.setdefault(number, []).append(name)
    return found


def _user_problems(
    user: User,
    rest: Database,
    uids: dict[int, list[str]],
    exists: Callable[[str], bool],
    processes: Callable[[int], list[int]],
) -> Iterator[str]:
    holders = [name for name in uids.get(user.uid, []) if name != user.name]
    if holders:
        yield f"uid is {user.uid}, which {holders[0]!r} has on this machine; allowed: a free uid"
    if not exists(user.shell):
        yield f"shell is {user.shell!r}, which is not on this machine; allowed: the path of a program"
    current = rest.users.get(user.name)
    if current is None or current.uid == user.uid:
        return
    if current.uid < LOWEST and not user.system:
        yield f"this machine has a system account of that name with uid {current.uid}; allowed: another name"
    busy = _busy(current.uid, processes)
    if busy:
        yield f"uid is {current.uid} and cannot become {user.uid} while {busy}; end them first"


def _group_problems(group: Group, rest: Database, gids: dict[int, list[str]], accounts: Accounts) -> Iterator[str]:
    current = rest.groups.get(group.name)
    if not group.present:
        yield from _absent_group_problems(group, rest, accounts)
        return
    holders = [name for name in gids.get(group.gid or -1, []) if name != group.name]
    if holders:
        yield f"gid is {group.gid}, which {holders[0]!r} has on this machine; allowed: a free gid"
    moves = current is not None and group.gid not in (None, current.gid)
    if current and moves and current.gid < LOWEST and not group.system:
        yield f"this machine has a system group of that name with gid {current.gid}; allowed: another name"


def _absent_group_problems(group: Group, rest: Database, accounts: Accounts) -> Iterator[str]:
    current = rest.groups.get(group.name)
    if current is None:
        return
    if current.gid < LOWEST and not group.system:
        yield f"gid {current.gid} belongs to the system; allowed: removal with system: true"
    leaving = {user.name for user in accounts.users}
    owners = [user.name for user in rest.users.values() if user.gid == current.gid and user.name not in leaving]
    if owners:
        yield f"it is the primary group of {owners[0]!r} and cannot be removed"


def _removal_problems(removed: Removed, database: Database, processes: Callable[[int], list[int]]) -> Iterator[str]:
    current = database.users.get(removed.name)
    if current is None:
        return
    if current.uid < LOWEST and not removed.system:
        yield f"uid {current.uid} belongs to the system; allowed: removal with system: true"
    busy = _busy(current.uid, processes)
    if busy and not removed.force:
        yield f"{busy}; end them, or allow it with force: true"
    inside = [
        other.name
        for other in database.users.values()
        if other.name != removed.name and f"{other.home}/".startswith(f"{current.home.rstrip('/')}/")
    ]
    if removed.remove_home and current.home != NOWHERE and inside:
        yield f"home {current.home!r} also holds the home of {inside[0]!r}; allowed: remove_home: false"


def plan(accounts: Accounts, database: Database, homes: bool) -> Plan:
    """Return the steps. The argument homes allows this machine to remove home directories."""
    result = Plan()
    for removed in accounts.removed:
        _plan_removal(result, removed, database, homes)
    rest = database.without(user.name for user in accounts.removed)
    gids = {name: group.gid for name, group in rest.groups.items()}
    members = rest.memberships()
    moved: dict[int, int] = {}
    for group in accounts.groups:
        _plan_group(result, group, gids, moved)
    for user in accounts.users:
        current = rest.users.get(user.name)
        if current is None:
            _plan_new_user(result, user)
        else:
            if current.gid in moved:
                _plan_home(result, current, moved[current.gid], homes)
                current = current._replace(gid=moved[current.gid])
            _plan_user(result, user, current, members.get(user.name, set()), gids)
        _plan_hash(result, user, rest)
    return result


def _plan_removal(result: Plan, removed: Removed, database: Database, homes: bool) -> None:
    current = database.users.get(removed.name)
    if current is None:
        return
    purge = removed.remove_home and homes and current.home != NOWHERE
    text = f"remove user {removed.name} (uid {current.uid})" + (f" and {current.home}" if purge else "")
    options = ("--remove",) if purge else ()
    result.removals.append(Step(text, ("userdel", *options, removed.name)))
    result.note(f"user {removed.name}", {"state": "present", "uid": current.uid}, {"state": "absent"})


def _plan_group(result: Plan, group: Group, gids: dict[str, int], moved: dict[int, int]) -> None:
    key, current = f"group {group.name}", gids.get(group.name)
    number = () if group.gid is None else ("--gid", str(group.gid))
    if not group.present:
        if current is not None:
            result.late.append(Step(f"remove {key} (gid {current})", ("groupdel", group.name)))
            result.note(key, {"state": "present", "gid": current}, {"state": "absent"})
        return
    if current is None:
        system = ("--system",) if group.system else ()
        result.groups.append(Step(f"create {key} (gid {group.gid})", ("groupadd", *system, *number, group.name)))
        result.note(key, {"state": "absent"}, {"state": "present", "gid": group.gid})
        gids[group.name] = -1 if group.gid is None else group.gid
    elif group.gid is not None and group.gid != current:
        result.groups.append(Step(f"change the gid of {key} to {group.gid}", ("groupmod", *number, group.name)))
        result.note(key, {"gid": current}, {"gid": group.gid})
        result.warnings.append(
            f"{key}: gid {current} became {group.gid}; files outside of its homes keep the old number"
        )
        gids[group.name] = moved[current] = group.gid


def _plan_home(result: Plan, current: Account, gid: int, homes: bool) -> None:
    """Plan the change of the group of a home, which usermod does only for a user that gets another group."""
    if not homes or current.home == NOWHERE:
        return
    text = f"change the group of what gid {current.gid} has in {current.home} to {gid}"
    options = ("--recursive", "--no-dereference", f"--from=:{current.gid}", f":{gid}")
    result.homes.append(Step(text, ("chown", *options, "--", current.home)))


def _plan_new_user(result: Plan, user: User) -> None:
    system = ("--system",) if user.system else ()
    groups = ("--groups", ",".join(user.groups)) if user.groups else ()
    argv = (
        *("useradd", "--no-create-home", "--no-user-group", *system, "--uid", str(user.uid), "--gid", user.group),
        *(*groups, "--home-dir", user.home, "--shell", user.shell, "--comment", user.gecos, user.name),
    )
    result.users.append(Step(f"create user {user.name} (uid {user.uid})", argv))
    wanted = {"uid": user.uid, "group": user.group, "groups": sorted(user.groups), "home": user.home}
    result.note(
        f"user {user.name}",
        {"state": "absent"},
        {"state": "present", **wanted, "shell": user.shell, "gecos": user.gecos},
    )


def _plan_user(result: Plan, user: User, current: Account, memberships: set[str], gids: dict[str, int]) -> None:
    groups = set(user.groups) | (memberships - {user.group} if user.append else set())
    before = {
        "uid": current.uid,
        "group": user.group if gids.get(user.group) == current.gid else _group_name(current.gid, gids),
        "groups": sorted(memberships),
        "home": current.home,
        "shell": current.shell,
        "gecos": current.gecos,
    }
    after = {
        "uid": user.uid,
        "group": user.group,
        "groups": sorted(groups),
        "home": user.home,
        "shell": user.shell,
        "gecos": user.gecos,
    }
    different = [field for field in after if before[field] != after[field]]
    if not different:
        return
    key = f"user {user.name}"
    argv = [f"--{_OPTIONS[field]}={_text(after[field])}" for field in different]
    result.users.append(Step(f"change {', '.join(different)} of {key}", ("usermod", *argv, user.name)))
    result.note(key, {field: before[field] for field in different}, {field: after[field] for field in different})
    if "home" in different:
        result.warnings.append(f"{key}: home {current.home} became {user.home}; what is in {current.home} stays there")
    if "uid" in different:
        result.warnings.append(
            f"{key}: uid {current.uid} became {user.uid}; files outside of the home keep the old number"
        )


def _group_name(gid: int, gids: dict[str, int]) -> str:
    return next((name for name, number in gids.items() if number == gid), str(gid))


_OPTIONS = {"uid": "uid", "group": "gid", "groups": "groups", "home": "home", "shell": "shell", "gecos": "comment"}


def _text(value: t.Any) -> str:
    return ",".join(value) if isinstance(value, list) else str(value)


def _plan_hash(result: Plan, user: User, rest: Database) -> None:
    """Plan the password field. A `!` before the hash locks the password, and remains unless the option lock is set."""
    current = rest.hashes.get(user.name, "!")
    asked = user.password is not None and (user.update_password or user.name not in rest.users)
    value = str(user.password) if asked else current.lstrip("!") if "$" in current else current
    locked = current.startswith("!$") if user.lock is None else user.lock
    wanted = f"!{value}" if locked and not value.startswith("!") else value
    if wanted == current:
        return
    result.hashes[user.name] = wanted
    result.note(f"user {user.name}", {"password": _state(current)}, {"password": f"{_state(wanted)}, changed"})


def _state(field: str) -> str:
    """Return the state of a password field without its content."""
    if "$" not in field:
        return "none"
    return "locked" if field.startswith("!") else "set"
