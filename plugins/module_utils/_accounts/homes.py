# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Manage home directories and the files in ~/.ssh, with the permissions of their owner."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.authorized_keys import (
    authorized_keys,
    key_lines,
    key_problem,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import fstab
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import User

PRIVATE, PUBLIC = "id_ed25519", "id_ed25519.pub"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_LARGEST = 1 << 20


class KeyPair(t.NamedTuple):
    """A private and a public key as ssh-keygen writes them."""

    private: str
    public: str


def is_mounted(path: str, mountinfo: str) -> bool:
    """Return whether a file system is mounted at a path, or will be mounted on first access."""
    return path in fstab.mounted(mountinfo) or path in fstab.waiting(mountinfo)


@contextlib.contextmanager
def rights_of(name: str, uid: int, gid: int) -> Iterator[None]:
    """Run the block with the permissions of a user, which limits symbolic links and works on NFS with root squash."""
    before = os.geteuid(), os.getegid(), os.getgroups()
    os.setgroups(os.getgrouplist(name, gid))
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(before[0])
        os.setegid(before[1])
        os.setgroups(before[2])


class Homes:
    """The home directories of users on one machine."""

    def __init__(
        self,
        check: bool,
        exclusive: bool,
        mode: int = 0o700,
        skeleton: Path = Path("/etc/skel"),
        rights: Callable[[str, int, int], contextlib.AbstractContextManager[None]] = rights_of,
    ) -> None:
        """Set the mode and content of new homes, and the context manager that assumes the permissions of a user."""
        self._check = check
        self._exclusive = exclusive
        self._mode = mode
        self._skeleton = skeleton
        self._rights = rights
        self.warnings: list[str] = []

    def settle(self, user: User, gid: int, pair: KeyPair | None) -> list[str]:
        """Create the home of a user and write its keys. Return the actions, which check mode only reports."""
        home = Path(user.home)
        try:
            made = self._make(home, user.uid, gid)
            with self._rights(user.name, user.uid, gid):
                return made + self._keys(home, user, pair)
        except OSError as exc:
            self.warnings.append(f"user {user.name}: the keys in {home} are not up to date: {exc}")
            return []

    def _make(self, home: Path, uid: int, gid: int) -> list[str]:
        """Create a home from the skeleton. Rename it last, so that an interrupted run leaves no partial home."""
        if home.exists():
            owner = home.stat().st_uid
            if owner != uid and not self._check:
                self.warnings.append(f"home {home} belongs to uid {owner}, not to {uid}; it was left alone")
            return []
        if not self._check:
            home.parent.mkdir(parents=True, exist_ok=True)
            fresh = home.with_name(f".{home.name}.new")
            shutil.rmtree(fresh, ignore_errors=True)
            fresh.mkdir(mode=0o700)
            if self._skeleton.is_dir():
                shutil.copytree(self._skeleton, fresh, symlinks=True, dirs_exist_ok=True)
            for path in fresh.rglob("*"):
                os.chown(path, uid, gid, follow_symlinks=False)
            fresh.chmod(self._mode)
            os.chown(fresh, uid, gid)
            fresh.rename(home)
        return [f"make home {home}"]

    def _keys(self, home: Path, user: User, pair: KeyPair | None) -> list[str]:
        """Update the files in ~/.ssh as the user."""
        directory = home / ".ssh"
        keys, files = list(user.ssh_keys), {}
        if pair:
            own = self._read(directory / PRIVATE)
            if own in ("", pair.private):
                files = {PRIVATE: (pair.private, 0o600), PUBLIC: (pair.public, 0o644)}
            else:
                # Keep a key that the user created, and authorize it for logins between machines that share the home.
                keys += [line for line in key_lines(self._read(directory / PUBLIC)) if key_problem(line) is None]
            keys += key_lines(pair.public)
        current = self._read(directory / "authorized_keys")
        files["authorized_keys"] = (authorized_keys(current, list(dict.fromkeys(keys)), self._exclusive), 0o600)
        return [action for name, (text, mode) in files.items() for action in self._put(directory / name, text, mode)]

    def _read(self, path: Path) -> str:
        """Return the content of a regular file, or an empty string."""
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except PermissionError:
            if self._check:
                return ""
            raise
        with os.fdopen(handle, "rb") as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                return ""
            data = file.read(_LARGEST + 1)
            if len(data) > _LARGEST:
                raise OSError(f"{path} is larger than {_LARGEST} bytes")
            return data.decode("utf-8", "surrogateescape")

    def _put(self, path: Path, text: str, mode: int) -> list[str]:
        """Replace a file atomically if its content differs or if other users can write to it."""
        try:
            loose = (path.lstat().st_mode | path.parent.stat().st_mode) & _OTHERS_WRITE and not path.is_symlink()
        except OSError:
            loose = False
        if self._read(path) == text and not loose:
            return []
        if not self._check:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            if path.parent.stat().st_mode & _OTHERS_WRITE:
                path.parent.chmod(0o700)
            whole_file.replace(str(path), text.encode("utf-8", "surrogateescape"), mode)
        return [f"write {path}"]
