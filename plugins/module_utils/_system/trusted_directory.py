# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Directories that only root can change or replace.

A program that acts as root writes into no other directory: somebody else could give it a link in place of a file, or
read what it writes. After the check, paths below the directory are safe, because only root can make or rename them.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_NOBODY = 65534
_ALLOWED = (
    "allowed: a directory that belongs to root, that only root can write, and whose parents are like that or sticky."
    " Correct owner and mode, or name another directory"
)


class UntrustedDirectoryError(OSError):
    """Somebody else than root can change or replace a directory. The message says which one, and what is allowed."""


def trusted(path: str, mode: int = 0o700, squashed: bool = False, sticky: bool = False) -> Path:
    """
    Return a directory that only root can change or replace. Create it and its parents if they are missing.

    Without root's rights, the own user may own directories as well. With C(squashed), nobody may own them, too, as whom
    root writes on a share that squashes root: for files without secrets, because what runs as nobody can change them.
    With C(sticky), others may make entries in it, such as the parent of a directory that root only replaces.
    """
    wanted = Path(path)
    if not wanted.is_absolute() or ".." in wanted.parts:
        raise UntrustedDirectoryError(f"found {path!r}; allowed: the absolute path of a directory, without '..'")
    steps = [*reversed(wanted.parents), wanted]
    handle = os.open("/", _DIRECTORY)
    try:
        for step in steps:
            inner = _entered(step, handle, mode if step == wanted else 0o755)
            os.close(handle)
            handle = inner
            why = fault(os.fstat(handle), sticky=sticky or step != wanted, squashed=squashed)
            if why:
                raise UntrustedDirectoryError(f"{wanted} is no safe place: {step} {why}; {_ALLOWED}")
    finally:
        os.close(handle)
    return wanted


def fault(found: os.stat_result, sticky: bool = False, squashed: bool = False) -> str:
    """
    Return what lets others than root change a directory, or an empty string.

    In a sticky one, which C(sticky) accepts, others can make entries, but cannot replace those of root.
    """
    if found.st_uid not in (0, os.geteuid(), _NOBODY if squashed else 0):
        nobody = ", as root is called on a share that squashes root" if found.st_uid == _NOBODY else ""
        return f"belongs to the user {found.st_uid}{nobody}"
    if found.st_mode & 0o022 and not (sticky and found.st_mode & stat.S_ISVTX):
        return f"has the mode {stat.S_IMODE(found.st_mode):04o}, so that others can write it"
    return ""


def new_file(path: Path) -> None:
    """Create an empty file that only its owner can read. Raise FileExistsError if there is something, also a link."""
    os.close(os.open(path, _NEW, 0o600))


def _entered(step: Path, parent: int, mode: int) -> int:
    """Open a directory by its name in its parent. To open it also lets systemd mount it, which stat would not."""
    name = step.name or "/"
    try:
        try:
            return os.open(name, _DIRECTORY, dir_fd=parent)
        except FileNotFoundError:
            os.mkdir(name, mode, dir_fd=parent)
            return os.open(name, _DIRECTORY, dir_fd=parent)
    except OSError as exc:
        link = "is a symbolic link, and only the path that it leads to can be checked" if step.is_symlink() else ""
        raise UntrustedDirectoryError(f"{step} {link or f'cannot be used: {exc.strerror}'}; {_ALLOWED}") from exc
