# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Make the directories of the trainer, so that no user can change what another one runs, or what root writes."""

from __future__ import annotations

import os
import stat
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import trust

RUNS = "runs"
NAMES = ("trainer", "recipes", "jobs", "bin", "data", RUNS)
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class Account(t.NamedTuple):
    """A user who trains."""

    name: str
    uid: int
    gid: int


class Directories:
    """The directories below one that belongs to root; in check mode, only what would change is found."""

    def __init__(self, root: str, check_mode: bool, owner: int = 0) -> None:
        self.root, self.check_mode, self.owner = root.rstrip("/"), check_mode, owner
        self.changed: list[str] = []

    def settle(self, accounts: t.Iterable[Account], data: t.Iterable[str] = ()) -> None:
        """Make what is missing, and take from others the right to write that older releases gave."""
        trust.check_above(self.root, {0, self.owner})
        if not self.check_mode:
            os.makedirs(os.path.dirname(self.root), mode=0o755, exist_ok=True)  # noqa: PTH103, PTH120
        for path in (self.root, *(f"{self.root}/{name}" for name in NAMES)):
            self._directory(path, Account("root", self.owner, 0), 0o755)
        # From here on, no user can add or replace an entry of these directories.
        for account in accounts:
            self._directory(f"{self.root}/{RUNS}/{account.name}", account, 0o700)
        for name in data:
            self._file(f"{self.root}/data/{name}")

    def _directory(self, path: str, account: Account, mode: int) -> None:
        try:
            found = trust.look(path)
        except FileNotFoundError:
            self._make(path, account, mode)
            return
        if not stat.S_ISDIR(found.st_mode):
            raise trust.TrustError(f"{path} is no directory. Remove it, and run this again")
        if found.st_uid != account.uid:
            raise trust.TrustError(
                f"{path} belongs to {trust.user_name(found.st_uid)}; allowed: {account.name}."
                " Look at what is in it, and move it away"
            )
        have = stat.S_IMODE(found.st_mode)
        # Users may let others read their runs.
        wanted = mode if account.uid == self.owner else have & ~_OTHERS
        if have != wanted:
            self.changed.append(path)
            if not self.check_mode:
                os.chmod(path, wanted)  # noqa: PTH101

    def _make(self, path: str, account: Account, mode: int) -> None:
        self.changed.append(path)
        if not self.check_mode:
            os.mkdir(path, 0o700)  # noqa: PTH102
            os.chown(path, account.uid, account.gid, follow_symlinks=False)
            os.chmod(path, mode)  # noqa: PTH101

    def _file(self, path: str) -> None:
        """Refuse a file that a user has put where root downloads one."""
        try:
            found = os.lstat(path)
        except FileNotFoundError:
            return
        wrong = "" if stat.S_ISREG(found.st_mode) else "no regular file"
        if found.st_uid != self.owner:
            wrong = wrong or f"a file of {trust.user_name(found.st_uid)}"
        if found.st_nlink > 1:
            wrong = wrong or "a file with several names"
        if wrong:
            raise trust.TrustError(f"{path}: found {wrong}; allowed: a file of root. Remove it, and run this again")
