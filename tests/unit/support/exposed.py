# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Looks at a directory before each step of a writer: a secret must never be in a file that others can read."""

from __future__ import annotations

import contextlib
import sys
import typing as t

if t.TYPE_CHECKING:
    from pathlib import Path

# The names that Python gives to the steps after which another user could look: fchmod and replace count among them.
_STEPS = ("open", "os.chmod", "os.chown", "os.rename", "os.remove", "os.link", "os.truncate", "shutil.")
_watches: list[t.Callable[[], None]] = []


def _hook(event: str, _details: tuple[t.Any, ...]) -> None:
    if _watches and event.startswith(_STEPS):
        watches = _watches[:]
        _watches.clear()  # To look is no step.
        try:
            for look in watches:
                look()
        finally:
            _watches.extend(watches)


@contextlib.contextmanager
def watched(directory: Path, secret: bytes, mode: int, owner: int) -> t.Iterator[list[str]]:
    """
    Yield a list that gets each file with the secret and another mode or owner, as it was before a step.

    A new file without the secret counts, too, if it has more rights than O(mode): who opened it reads what comes.
    """
    found: list[str] = []
    before = {path.stat().st_ino for path in directory.iterdir()}

    def look() -> None:
        for path in directory.iterdir():
            status = path.stat()
            rights, inside = status.st_mode & 0o7777, path.is_file() and secret in path.read_bytes()
            wider = path.is_file() and status.st_ino not in before and bool(rights & ~mode & 0o077)
            if wider or (inside and (rights, status.st_uid) != (mode, owner)):
                found.append(f"{path.name} {rights:04o} {status.st_uid}")

    if _hook not in _installed:
        sys.addaudithook(_hook)
        _installed.append(_hook)
    _watches.append(look)
    try:
        yield found
    finally:
        _watches.remove(look)
        look()


_installed: list[t.Any] = []
