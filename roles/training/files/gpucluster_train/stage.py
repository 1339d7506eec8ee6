# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Copy the files of a corpus to a local drive of this node, before the tasks of a job read them.

Jobs may do so at the same time. A file gets its name when it is complete, so nobody reads a part of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import sys
import time
import typing as t
from pathlib import Path

try:
    from . import trust
except ImportError:  # as a program of its own
    import trust  # type: ignore[no-redef]


class StageError(Exception):
    """A file cannot be copied; the message names the cause."""


def main(argv: t.Sequence[str]) -> int:
    """Copy all files to the directory that comes first; variables of the job such as C($SCRATCH) are expanded."""
    directory, *paths = argv
    begin = time.monotonic()
    try:
        copied = stage(Path(os.path.expandvars(directory)), [Path(path) for path in paths])
    except (StageError, trust.TrustError, OSError) as error:
        print(f"{socket.gethostname()}: cannot copy the data to {directory}: {error}", file=sys.stderr)
        return 1
    seconds = time.monotonic() - begin
    rate = f"{copied / 1e9:.3f} GB in {seconds:.1f} s" if copied else "all of it was there"
    print(f"{socket.gethostname()}: data in {directory}, {rate}")
    return 0


def stage(directory: Path, sources: t.Sequence[Path]) -> int:
    """Copy files that are missing or differ in size or time; return the bytes that were copied."""
    names = [source.name for source in sources]
    if "$" in str(directory):
        raise StageError("the job has no such variable")
    if len(set(names)) < len(names):
        raise StageError(f"two files have the same name: {', '.join(sorted(names))}")
    directory.mkdir(parents=True, exist_ok=True)
    # Else another user could put a link there, and this would write to one of our own files.
    trust.check_above(f"{directory.absolute()}/.", trust.trusted_above())
    return sum(_copy(source, directory / source.name) for source in sources)


def _copy(source: Path, target: Path) -> int:
    if _same(source, target):
        return 0
    with _locked(target.with_name(f".{target.name}.part")) as part:
        # Another job may have copied it meanwhile.
        if _same(source, target):
            part.unlink()
            return 0
        try:
            _room(source, part)
            shutil.copyfile(source, part)
            shutil.copystat(source, part)
            part.rename(target)
        except (OSError, StageError):
            part.unlink()
            raise
    return target.stat().st_size


def _same(source: Path, target: Path) -> bool:
    """Return whether a copy is complete: the time of a file is set at its end."""
    wanted = source.stat()
    try:
        found = target.stat()
    except FileNotFoundError:
        return False
    return (found.st_size, int(found.st_mtime)) == (wanted.st_size, int(wanted.st_mtime))


def _room(source: Path, part: Path) -> None:
    """Refuse a file that does not fit, instead of filling the drive."""
    needed, free = source.stat().st_size, shutil.disk_usage(part.parent).free
    if needed > free:
        raise StageError(f"no space left: {source.name} needs {needed} bytes, {free} are free")


@contextlib.contextmanager
def _locked(part: Path) -> t.Iterator[Path]:
    """Wait until no other process writes this file; the kernel ends the lock of a process that was killed."""
    while True:
        with open(part, "ab", opener=_no_link) as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            # Who held the lock may have renamed or removed the file.
            if _inode(part) == os.fstat(stream.fileno()).st_ino:
                yield part
                return


def _no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o600)


def _inode(path: Path) -> int | None:
    """Return the inode of a file in one look, because another job may remove the file at any time."""
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
