# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
The files of checkpoints, without PyTorch: where they are written, when they get their name, and which one is whole.

A checkpoint is a directory C(step-00000120). It has another name until it is complete, and the file C(latest) names the
last complete one. So a job that dies while it writes, or a full disk, leaves the checkpoint before. C(sizes.json) in it
says which files it has, so that one that was damaged later is found, and the one before is used.

Nothing is read that another user can write.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import shutil
import typing as t
from pathlib import Path

from . import trust

KEEP = 2
SIZES = "sizes.json"
_PART = ".part"
_LATEST = "latest"
_METADATA = ".metadata"
_NAME = re.compile("step-[0-9]{8}")
_BLOCK = 16 << 20
Sizes = dict[str, int]  # of files by name


class CheckpointError(Exception):
    """A checkpoint cannot be written or read; the message names the cause."""


class Found(t.NamedTuple):
    """The checkpoint to go on from, and why newer ones are not used."""

    step: int
    passed: list[str]


def name(step: int) -> str:
    """Return the name of a complete checkpoint."""
    return f"step-{step:08d}"


def tidy(directory: Path) -> None:
    """Make the directory, refuse one that others can write, and remove what an interrupted run left incomplete."""
    trust.check_above(str(directory), trust.trusted_above())
    directory.mkdir(parents=True, exist_ok=True)
    trust.check(str(directory), trust.trusted(), trust.trusted_above())
    for part in directory.glob(f"step-*{_PART}"):
        shutil.rmtree(part, ignore_errors=True)


def local(above: Path, directory: Path, rank: int) -> Path:
    """
    Return an empty directory on a local drive for one rank of the run whose checkpoints go to O(directory).

    What an earlier start of this run left there is removed, and nothing there is ever read but what this start wrote.
    """
    text = os.path.expandvars(above)
    if "$" in text:
        raise CheckpointError(f"{text}: the job has no such variable")
    run = hashlib.sha256(str(directory).encode()).hexdigest()[:12]
    own = Path(text).absolute() / f"checkpoints-{run}" / f"rank-{rank:05d}"
    trust.check_above(str(own), trust.trusted_above())
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    trust.check(str(own), {os.getuid()}, trust.trusted_above())
    for left in own.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()
    return own


def room(directory: Path, needed: int, what: str) -> None:
    """Refuse a checkpoint that does not fit on the file system."""
    space = shutil.disk_usage(directory).free
    if space < needed:
        raise CheckpointError(f"No space left on device: {what} needs {needed} bytes, {space} are free in {directory}")


def begin(directory: Path, step: int) -> Path:
    """
    Make the directory of a checkpoint that is not complete.

    No two starts of a run use the same one: a rank of an earlier start may come back with its node, and write on.
    """
    part = directory / f"{name(step)}.{secrets.token_hex(4)}{_PART}"
    part.mkdir()
    return part


def copy(source: Path, part: Path) -> Sizes:
    """Copy what this rank wrote on a local drive, and return the sizes. No file is written over."""
    found = Sizes()
    for file in sorted(source.iterdir()):
        with file.open("rb") as read, (part / file.name).open("xb") as write:
            shutil.copyfileobj(read, write, _BLOCK)
            write.flush()
            os.fsync(write.fileno())
            found[file.name] = write.tell()
    return found


def publish(directory: Path, part: Path, step: int, reported: t.Iterable[Sizes] = ()) -> int:
    """Give a checkpoint its name if all files that the ranks reported are there, point to it; return its bytes."""
    sizes = {file.name: _size(file) for file in sorted(part.iterdir())}
    for file, size in (item for one in reported for item in one.items()):
        if sizes.get(file) != size:
            raise CheckpointError(f"{file} has {sizes.get(file, 0)} bytes of {size}")
    if _METADATA not in sizes:
        raise CheckpointError(f"{_METADATA} is missing")
    _write(part / SIZES, json.dumps({"files": sizes}))
    _sync(part)
    whole = directory / name(step)
    shutil.rmtree(whole, ignore_errors=True)
    part.rename(whole)
    _sync(directory)
    pointer = directory / f"{_LATEST}{_PART}"
    _write(pointer, f"{whole.name}\n")
    pointer.rename(directory / _LATEST)
    _sync(directory)
    prune(directory, step)
    return sum(sizes.values())


def prune(directory: Path, step: int) -> None:
    """Keep a checkpoint and the one before. Those of later steps are of a past that a run did not go on from."""
    names = sorted(path.name for path in directory.glob("step-*") if _NAME.fullmatch(path.name))
    kept = [one for one in names if one <= name(step)][-KEEP:]
    for one in names:
        if one not in kept:
            shutil.rmtree(directory / one, ignore_errors=True)


def latest(directory: Path) -> Found | None:
    """Return the last complete checkpoint that is whole; nothing if none was ever complete."""
    try:
        pointer = (directory / _LATEST).read_text(encoding="utf-8", errors="replace").strip()
    except FileNotFoundError:
        return None
    if not _NAME.fullmatch(pointer):
        raise CheckpointError(f"{directory / _LATEST} names {pointer}, but that is no complete checkpoint")
    older = [path.name for path in directory.glob("step-*") if _NAME.fullmatch(path.name) and path.name < pointer]
    passed = list[str]()
    for one in [pointer, *sorted(older, reverse=True)]:
        fault = damage(directory / one)
        if not fault:
            return Found(int(one.rpartition("-")[2]), passed)
        passed.append(f"{one} is damaged: {fault}")
    raise CheckpointError(f"no checkpoint in {directory} is whole: {'; '.join(passed)}")


def damage(whole: Path) -> str:
    """Return what is missing of a checkpoint, by the sizes at its publication; one of an older release has none."""
    if not whole.exists():
        return "it is missing"
    trust.check(str(whole), trust.trusted(), trust.trusted_above())
    trust.check_content(str(whole), trust.trusted())
    try:
        sizes = json.loads((whole / SIZES).read_text(encoding="utf-8"))["files"]
        wanted = {str(file): int(size) for file, size in sizes.items()}
    except FileNotFoundError:
        return "" if (whole / _METADATA).is_file() else f"{_METADATA} is missing"
    except (LookupError, TypeError, ValueError, AttributeError):
        return f"{SIZES} cannot be read"
    for file, size in wanted.items():
        try:
            found = (whole / file).stat().st_size
        except FileNotFoundError:
            return f"{file} is missing"
        if found != size:
            return f"{file} has {found} bytes of {size}"
    return ""


def _size(file: Path) -> int:
    """Return the bytes of a file. Only to open one tells NFS to ask the server again."""
    with file.open("rb") as stream:
        return os.fstat(stream.fileno()).st_size


def _write(file: Path, text: str) -> None:
    with file.open("w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())


def _sync(directory: Path) -> None:
    """Write the names in a directory to the disk; some file systems cannot."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(number)
    finally:
        os.close(number)
