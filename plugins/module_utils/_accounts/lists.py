# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Parse, complete and validate the input lists of users and groups, without access to a machine."""

from __future__ import annotations

import posixpath
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.authorized_keys import key_lines, key_problem

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

# Debian's useradd and sudo also take a dot, as in first.last.
NAME = re.compile(r"[a-z_](?:[a-z0-9_.-]{0,30}[a-z0-9_-])?")
LOWEST, HIGHEST = 1000, 2_147_483_647
NOBODY = (65534, 65535)
# Accounts and groups of the system and of the daemons of the cluster. The module finds others on the machine.
SYSTEM_USERS = ("root", "nobody", "munge", "slurm", "mysql", "sshd", "messagebus", "_apt")
SYSTEM_GROUPS = ("root", "nobody", "nogroup", "munge", "slurm", "mysql", "shadow")
NOWHERE = "/nonexistent"  # the home of Debian accounts that have no home
SUDO_ALL = "ALL=(ALL:ALL) NOPASSWD: ALL"

REMOVED_KEYS = ("name", "username", "remove_home", "remove", "force", "system")
# fmt: off
USER_KEYS = (
    "name", "username", "uid", "gid", "group", "groups", "append", "shell", "home", "gecos", "state", "password",
    "update_password", "lock", "ssh_keys", "ssh_key", "key_pair", "sudo", *REMOVED_KEYS[2:],
)
# fmt: on
GROUP_KEYS = ("name", "gid", "state", "sudo", "system")

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


class Group(t.NamedTuple):
    """A group that must be present or absent. A system group may omit its GID; the machine then assigns it."""

    name: str
    gid: int | None
    sudo: str = ""
    system: bool = False
    present: bool = True


class User(t.NamedTuple):
    """A user that must be present."""

    name: str
    uid: int
    group: str
    groups: tuple[str, ...] = ()
    append: bool = False
    shell: str = "/bin/bash"
    home: str = ""
    gecos: str = ""
    password: str | None = None
    update_password: bool = True
    lock: bool | None = None
    ssh_keys: tuple[str, ...] = ()
    key_pair: bool = True
    sudo: str = ""
    system: bool = False


class Removed(t.NamedTuple):
    """A user that must be absent."""

    name: str
    remove_home: bool = False
    force: bool = False
    system: bool = False


class Accounts(t.NamedTuple):
    """The wanted users and groups of a machine."""

    users: tuple[User, ...] = ()
    groups: tuple[Group, ...] = ()
    removed: tuple[Removed, ...] = ()


class Defaults(t.NamedTuple):
    """Defaults of users, and the names of the three lists in messages."""

    per_user_group: bool = True
    primary_group: str = "users"
    shell: str = "/bin/bash"
    home_base: str = "/home"
    users: str = "users"
    groups: str = "groups"
    removed: str = "removed"


class _Item:
    """One entry of a list. Each method that reads a key checks its type and records a problem."""

    def __init__(self, where: str, raw: Mapping[str, t.Any], allowed: Sequence[str]) -> None:
        """Record unknown keys."""
        name = raw.get("username") or raw.get("name")
        self.where = f"{where} ({name})" if name else where
        self.raw = raw
        self.problems: list[str] = []
        for key in sorted(set(map(str, raw)) - set(allowed)):
            self.wrong(f"key {key!r} is unknown; allowed: {', '.join(allowed)}")

    def wrong(self, text: str) -> None:
        """Record a problem."""
        self.problems.append(f"{self.where}: {text}")

    def first(self, *keys: str) -> t.Any:
        """Return the value of the first key that has one."""
        return next((self.raw[key] for key in keys if self.raw.get(key) is not None), None)

    def text(self, default: str, *keys: str) -> str:
        """Return a string that is valid in a field of /etc/passwd."""
        value = self.first(*keys)
        if value is None:
            return default
        if not isinstance(value, str) or re.search(r"[:\n\r\0]", value):
            self.wrong(f"{keys[0]} is {value!r}; allowed: one line of text without a colon")
            return default
        return value

    def flag(self, default: t.Any, *keys: str) -> t.Any:
        """Return a boolean."""
        value = self.first(*keys)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        if str(value).lower() not in _WORDS:
            self.wrong(f"{keys[0]} is {value!r}; allowed: true or false")
        return _WORDS.get(str(value).lower(), default)

    def choice(self, default: str, key: str, allowed: Sequence[str]) -> str:
        """Return one of the allowed strings."""
        value = self.first(key)
        if value is not None and value not in allowed:
            self.wrong(f"{key} is {value!r}; allowed: {' or '.join(allowed)}")
        return str(value or default)

    def number(self, key: str, system: bool) -> int | None:
        """Return a UID or GID in the allowed range."""
        value = self.first(key)
        lowest = 1 if system else LOWEST
        hint = "" if system else ", or less with system: true"
        allowed = f"{lowest} to {HIGHEST}{hint}, never {NOBODY[0]} and {NOBODY[1]}"
        if isinstance(value, bool) or not re.fullmatch(r"-?[0-9]+", str(value)):
            self.wrong(f"{key} is {'missing' if value is None else repr(value)}; allowed: {allowed}")
            return None
        if not lowest <= int(value) <= HIGHEST or int(value) in NOBODY:
            self.wrong(f"{key} is {int(value)}; allowed: {allowed}")
            return None
        return int(value)

    def name(self, value: t.Any, key: str) -> str:
        """Return a name that useradd accepts."""
        if not isinstance(value, str) or not NAME.fullmatch(value):
            found = "missing" if value is None else repr(value)
            self.wrong(f"{key} is {found}; allowed: {NAME.pattern}, at most 32 characters")
            return ""
        return value

    def path(self, default: str, key: str) -> str:
        """Return a normalized absolute path."""
        value = self.text(default, key)
        if value and (not value.startswith("/") or posixpath.normpath(value) != value.rstrip("/") or value == "/"):
            self.wrong(f"{key} is {value!r}; allowed: an absolute path below /, without . and ..")
        return value.rstrip("/")

    def sudo(self) -> str:
        """Return the part of the sudo rule after the name, or an empty string."""
        value = self.first("sudo")
        if value is None or isinstance(value, bool) or str(value).lower() in _WORDS:
            return SUDO_ALL if self.flag(False, "sudo") else ""
        if not isinstance(value, str) or "=" not in value or re.search(r"[\n\r\0]|\\$", value):
            self.wrong(f"sudo is {value!r}; allowed: true, false or a rule such as {SUDO_ALL!r}")
            return ""
        return value


def group_names(value: t.Any) -> list[str]:
    """Return the names of a list, or of a comma-separated string."""
    names = value.split(",") if isinstance(value, str) else list(value or [])
    return list(dict.fromkeys(str(name).strip() for name in names if str(name).strip()))


def _password(item: _Item) -> str | None:
    value = item.first("password")
    if value is None:
        return None
    # Omit the value from the message, because it may be a password.
    if not isinstance(value, str) or not re.fullmatch(r"\$[a-zA-Z0-9]+\$[^:\s]{8,}", value):
        item.wrong("password is not a crypt hash; allowed: a hash such as mkpasswd prints, which begins with $")
        return None
    return value


def _ssh_keys(item: _Item) -> tuple[str, ...]:
    value = item.first("ssh_keys", "ssh_key")
    if value is not None and not isinstance(value, (str, list, tuple)):
        item.wrong(f"ssh_keys is a {type(value).__name__}; allowed: a list of public keys, or one per line")
        return ()
    keys = key_lines(value)
    for number, key in enumerate(keys):
        problem = key_problem(key)
        if problem:
            item.wrong(f"ssh_keys[{number}] is {key[:40]!r}: {problem}")
    return tuple(keys)


def _primary(item: _Item, name: str, uid: int | None, defaults: Defaults) -> tuple[str, Group | None]:
    """Return the name of the primary group, and the group itself if it is the private group of the user."""
    group = item.text("", "group")
    if group and item.first("gid") is not None:
        item.wrong(f"gid is {item.first('gid')!r} beside group {group!r}; allowed: one of them")
    if group or not defaults.per_user_group:
        return group or defaults.primary_group, None
    system = item.flag(False, "system")
    gid = uid if item.first("gid") is None else item.number("gid", system)
    return name, Group(name, gid, system=system)


def _user(item: _Item, defaults: Defaults) -> tuple[User, Group | None]:
    system = item.flag(False, "system")
    name = _person(item)
    uid = item.number("uid", system)
    primary, own = _primary(item, name, uid, defaults)
    full_name = item.text("", "gecos") or (item.text("", "name") if item.first("username") else "")
    user = User(
        name=name,
        uid=uid or 0,
        group=primary,
        groups=tuple(group for group in group_names(item.first("groups")) if group != primary),
        append=item.flag(False, "append"),
        shell=item.path(defaults.shell, "shell"),
        home=item.path(f"{defaults.home_base}/{name}", "home"),
        gecos=full_name,
        password=_password(item),
        update_password=item.choice("always", "update_password", ("always", "on_create")) == "always",
        lock=item.flag(None, "lock"),
        ssh_keys=_ssh_keys(item),
        key_pair=item.flag(True, "key_pair"),
        sudo=item.sudo(),
        system=system,
    )
    return user, own


def _person(item: _Item) -> str:
    """Return the name of a user that is not a system account."""
    name = item.name(item.first("username", "name"), "name")
    if name in SYSTEM_USERS:
        item.wrong(f"name is {name!r}, an account of the system; allowed: any other name")
    return name


def _removed(item: _Item) -> Removed:
    name = _person(item)
    remove_home = item.flag(False, "remove_home", "remove")
    return Removed(name, remove_home, item.flag(False, "force"), item.flag(False, "system"))


def _group(item: _Item) -> Group:
    system = item.flag(False, "system")
    present = item.choice("present", "state", ("present", "absent")) == "present"
    name = item.name(item.first("name"), "name")
    if name in SYSTEM_GROUPS:
        item.wrong(f"name is {name!r}, a group of the system; allowed: any other name")
    gid = item.number("gid", system) if present and not (system and item.first("gid") is None) else None
    return Group(name, gid, item.sudo(), system, present)


def _items(variable: str, values: t.Any, allowed: Sequence[str], problems: list[str]) -> Iterable[_Item]:
    """Yield the entries of a list. A plain string is an entry that has only a name."""
    if values is not None and not isinstance(values, (list, tuple)):
        problems.append(f"{variable} is a {type(values).__name__}; allowed: a list")
        return
    for number, value in enumerate(values or []):
        raw = {"name": value} if isinstance(value, str) else value
        if hasattr(raw, "items"):
            item = _Item(f"{variable}[{number}]", raw, allowed)
            yield item
            problems.extend(item.problems)
        else:
            problems.append(f"{variable}[{number}] is {value!r}; allowed: a mapping with a name")


def parse(users: t.Any, groups: t.Any, removed: t.Any, defaults: Defaults) -> tuple[Accounts, list[str]]:
    """Return the wanted accounts and every problem that can be found without access to a machine."""
    problems: list[str] = []
    wanted, gone, own = [], [], []
    known = [_group(item) for item in _items(defaults.groups, groups, GROUP_KEYS, problems)]
    for item in _items(defaults.users, users, USER_KEYS, problems):
        if item.choice("present", "state", ("present", "absent")) == "absent":
            gone.append(_removed(item))
            continue
        user, group = _user(item, defaults)
        wanted.append(user)
        own.append(group)
    gone += [_removed(item) for item in _items(defaults.removed, removed, USER_KEYS, problems)]
    listed = {group.name for group in known}
    known += {group.name: group for group in own if group and group.name not in listed}.values()
    accounts = Accounts(tuple(wanted), tuple(known), tuple(dict.fromkeys(gone)))
    return accounts, problems + _conflicts(accounts, defaults)


def _conflicts(accounts: Accounts, defaults: Defaults) -> list[str]:
    """Return the contradictions within the lists."""
    users = [user for user in accounts.users if user.name]
    groups = [group for group in accounts.groups if group.name and group.present]
    homes = [(user.home, user.name) for user in users if user.home and user.home != NOWHERE]
    problems = [
        *_shared(defaults.users, "name", [(user.name, user.name) for user in users]),
        *_shared(defaults.users, "uid", [(user.uid, user.name) for user in users]),
        *_shared(defaults.users, "home", homes),
        *_shared(defaults.removed, "name", [(user.name, user.name) for user in accounts.removed if user.name]),
        *_shared(defaults.groups, "name", [(group.name, group.name) for group in accounts.groups]),
    ]
    if not problems:  # a duplicate UID is also the GID of both private groups; report it once
        gids = [(group.gid, group.name) for group in groups]
        problems += _shared(f"{defaults.groups}, {defaults.users}", "gid", gids)
    gone = {user.name for user in accounts.removed}
    both = [user.name for user in users if user.name in gone]
    problems += [f"{defaults.users}: {name} is also in {defaults.removed}; allowed: one of them" for name in both]
    absent = {group.name for group in accounts.groups if not group.present}
    for user in users:
        for name in sorted({user.group, *user.groups} & absent):
            problems.append(f"{defaults.users} ({user.name}): group {name!r} has state absent in {defaults.groups}")
    return problems


def _shared(variable: str, what: str, pairs: Iterable[tuple[t.Any, str]]) -> list[str]:
    """Return a problem for each value that more than one entry has."""
    owners: dict[t.Any, list[str]] = {}
    for value, name in pairs:
        if value:
            owners.setdefault(value, []).append(name)
    return [
        f"{variable}: {what} {value} belongs to {' and '.join(names)}; allowed: one owner"
        for value, names in owners.items()
        if len(names if what == "name" else set(names)) > 1
    ]


def unknown_groups(accounts: Accounts, machine: Iterable[str], defaults: Defaults, hint: str) -> list[str]:
    """Return a problem for each group that is neither in the lists nor on the machine."""
    known = {group.name for group in accounts.groups if group.present} | set(machine)
    return [
        f"{defaults.users} ({user.name}): group {name!r} is unknown; allowed: a group of {defaults.groups}{hint}"
        for user in accounts.users
        for name in dict.fromkeys((user.group, *user.groups))
        if name not in known
    ]
