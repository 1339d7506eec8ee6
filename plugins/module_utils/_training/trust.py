# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Find who else can change a file, before something in it is run.

A checkpoint of PyTorch contains pickles, which are programs.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
import typing as t

_USER_NAMESPACE = "/proc/self/uid_map"
_OVERFLOW = "/proc/sys/kernel/overflowuid"


class TrustError(Exception):
    """Somebody else can change what would be run; the message names the path and what to do."""


def user_name(uid: int) -> str:
    """Return the name of a user, or the number of one who is not known here."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """Return the name of a group, or the number of one that is not known here."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def trusted() -> set[int]:
    """Return the users whose files this process may run: its own, and root."""
    return {0, os.getuid()}


def trusted_above() -> set[int]:
    """
    Return the users who may own the directories above.

    In a container of an ordinary user, root of the machine has no number: the kernel shows another one for it.
    """
    users = trusted()
    try:
        with open(_USER_NAMESPACE, encoding="ascii") as lines:  # noqa: PTH123
            if not any(line.split()[1] == "0" for line in lines):
                with open(_OVERFLOW, encoding="ascii") as number:  # noqa: PTH123
                    users.add(int(number.read()))
    except (OSError, ValueError, IndexError):
        pass
    return users


def check(path: str, owners: t.Collection[int], above: t.Collection[int] = ()) -> None:
    """Refuse a path that others can write or replace. Users of O(above), too, may own the directories above it."""
    check_above(path, {*owners, *above})
    _own(path, owners, look(path))


def check_content(directory: str, owners: t.Collection[int]) -> None:
    """Refuse a directory that contains anything but regular files which others cannot write."""
    for entry in sorted(os.listdir(directory)):  # noqa: PTH208
        path = os.path.join(directory, entry)  # noqa: PTH118
        found = os.lstat(path)
        if not stat.S_ISREG(found.st_mode):
            raise TrustError(f"{path} is no regular file. Remove it")
        _own(path, owners, found)


def check_above(path: str, owners: t.Collection[int]) -> None:
    """Refuse a path if others can replace a directory above it. One that is missing is not judged."""
    for part in _parents(path):
        try:
            found = look(part)
        except FileNotFoundError:
            return
        if stat.S_ISLNK(found.st_mode) and found.st_uid == 0:
            check_above(f"{os.path.realpath(part)}/.", owners)
        else:
            _own(part, owners, found, is_above=True)


def look(path: str) -> os.stat_result:
    """Return what a path is. To enter a directory lets systemd mount it; before, only its mount point is seen."""
    found = os.lstat(path)
    return os.lstat(f"{path}/.") if stat.S_ISDIR(found.st_mode) else found


def _parents(path: str) -> list[str]:
    """Return the directories above a path, from the root of the file system down."""
    found = [path.rpartition("/")[0] or "/"]
    while found[-1] != "/":
        found.append(found[-1].rpartition("/")[0] or "/")
    return found[::-1]


def _own(path: str, owners: t.Collection[int], found: os.stat_result, is_above: bool = False) -> None:
    if stat.S_ISLNK(found.st_mode):
        raise TrustError(f"{path} is a link. Name the directory that it leads to, or remove it")
    if found.st_uid not in owners:
        allowed = " or ".join(sorted(user_name(uid) for uid in owners))
        raise TrustError(f"{path} belongs to {user_name(found.st_uid)}; allowed: {allowed}. Use another directory")
    everybody = bool(found.st_mode & stat.S_IWOTH)
    shared = everybody or bool(found.st_mode & stat.S_IWGRP and found.st_gid != 0 and not _private(found))
    # With the sticky bit, others can add entries, but not replace those of the owners.
    if shared and not (is_above and found.st_mode & stat.S_ISVTX):
        who = "everybody" if everybody else f"the group {group_name(found.st_gid)}"
        mode, sticky = f"{stat.S_IMODE(found.st_mode):04o}", " or chmod +t" if is_above else ""
        raise TrustError(f"{path} can be written by {who} (mode {mode}). Its owner runs chmod go-w{sticky} on it")


def _private(found: os.stat_result) -> bool:
    """Return whether the group is the owner's own: it has the same name, and nobody else is in it."""
    try:
        user, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    others = {*group.gr_mem, *(one.pw_name for one in pwd.getpwall() if one.pw_gid == group.gr_gid)} - {user.pw_name}
    return user.pw_gid == group.gr_gid and user.pw_name == group.gr_name and not others
