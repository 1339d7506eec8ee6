# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The one writer of files on managed nodes. Content is never in a file with another owner or mode than wanted."""

from __future__ import annotations

import contextlib
import os
import typing as t

if t.TYPE_CHECKING:
    Owner = tuple[int, int]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def replace(path: str, content: bytes, mode: int, owner: Owner | None = None) -> None:
    """
    Replace a file atomically; after a crash it has the old or the new content. A link is replaced, not followed.

    I(owner) is a UID and a GID; None means this process. Raise OSError and leave nothing behind.
    """
    directory, name = os.path.split(path)
    # Programs that read a directory of drop-in files ignore names with a dot. Nobody can guess the name.
    fresh = os.path.join(directory, f".{name}.{os.urandom(8).hex()}")  # noqa: PTH118 (a Path costs start time)
    handle = os.open(fresh, _NEW, 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            _settle(handle, mode, owner)
            stream.write(content)
            stream.flush()
            os.fsync(handle)
        os.replace(fresh, path)  # noqa: PTH105
        sync_name(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh)  # noqa: PTH108
        raise


def sync_name(path: str) -> None:
    """Write the name of a file to its disk, so that a power cut does not bring back what it replaced."""
    handle = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # noqa: PTH120
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def rewrite(path: str, content: bytes, mode: int, owner: Owner) -> None:
    """Write a file in place, which cannot be replaced because it is a mount point."""
    handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(handle, "wb") as stream:
        correct(path, mode, owner)
        stream.truncate()
        stream.write(content)
        stream.flush()
        os.fsync(handle)


def correct(path: str, mode: int, owner: Owner) -> None:
    """Set the owner and the mode of a regular file. Nobody gets a right meanwhile that is not wanted."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        os.fchmod(handle, mode & os.fstat(handle).st_mode)
        _settle(handle, mode, owner)
    finally:
        os.close(handle)


def _settle(handle: int, mode: int, owner: Owner | None) -> None:
    """Set the owner first: a change of it would remove set-user-ID bits."""
    if owner is not None:
        os.fchown(handle, *owner)
    os.fchmod(handle, mode)
