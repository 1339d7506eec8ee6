# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The account files of one machine: /etc/passwd, /etc/group and /etc/shadow."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Account(t.NamedTuple):
    """A line of /etc/passwd."""

    name: str
    uid: int
    gid: int
    gecos: str
    home: str
    shell: str


class Entry(t.NamedTuple):
    """A line of /etc/group."""

    name: str
    gid: int
    members: tuple[str, ...]


class Database(t.NamedTuple):
    """The local accounts by name. The field hashes contains the second field of /etc/shadow."""

    users: dict[str, Account]
    groups: dict[str, Entry]
    hashes: dict[str, str]

    @classmethod
    def read(cls, read: Callable[[str], str]) -> Database:
        """Read the files with a function that returns the content of a path."""
        users = {
            name: Account(name, int(uid), int(gid), gecos, home, shell)
            for name, _hash, uid, gid, gecos, home, shell in _fields(read("/etc/passwd"), 7, numbers=(2, 3))
        }
        groups = {
            name: Entry(name, int(gid), tuple(filter(None, members.split(","))))
            for name, _hash, gid, members in _fields(read("/etc/group"), 4, numbers=(2,))
        }
        return cls(users, groups, {fields[0]: fields[1] for fields in _fields(read("/etc/shadow"), 9)})

    def memberships(self) -> dict[str, set[str]]:
        """Return the supplementary groups of each user that has any."""
        found: dict[str, set[str]] = {}
        for group in self.groups.values():
            for member in group.members:
                found.setdefault(member, set()).add(group.name)
        return found

    def without(self, names: Iterable[str]) -> Database:
        """Return the database after userdel, which also removes a group of the same name that no other user has."""
        gone = set(names)
        users = {name: user for name, user in self.users.items() if name not in gone}
        groups = {
            name: group._replace(members=tuple(member for member in group.members if member not in gone))
            for name, group in self.groups.items()
        }
        used = {user.gid for user in users.values()}
        for name in gone & set(groups) & set(self.users):
            if not groups[name].members and groups[name].gid not in used:
                del groups[name]
        return Database(users, groups, {name: value for name, value in self.hashes.items() if name not in gone})


def _fields(text: str, count: int, numbers: tuple[int, ...] = ()) -> Iterator[list[str]]:
    """Yield the fields of each line that describes an account. Skip other lines, such as comments and NIS entries."""
    for line in text.splitlines():
        fields = line.split(":")
        if len(fields) == count and fields[0] and all(fields[number].isdigit() for number in numbers):
            yield fields
