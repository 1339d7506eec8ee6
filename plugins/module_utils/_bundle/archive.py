# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
One archive with everything that a cluster needs, and its manifest.

The manifest is the first member, so that it can be read without the rest. It has the size, the SHA-256 checksum and the
licence of each file. The directory node is what managed nodes need; it becomes one file that is copied to them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tarfile
import typing as t
from pathlib import Path, PurePosixPath

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_directory

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MANIFEST = "manifest.json"
# The parts of an unpacked bundle: what managed nodes get, as one file, and the file that shows that it is complete.
NODE, NODE_ARCHIVE, COMPLETE = "node", "node.tar", ".complete"
FORMAT = 1
_BLOCK = 1 << 20


class BundleError(Exception):
    """The archive cannot be made or used. The message says what to do."""


class Bundle(t.NamedTuple):
    """A bundle that was unpacked."""

    changed: bool
    path: Path
    manifest: dict[str, t.Any]


def digest(path: Path) -> str:
    """Return the SHA-256 checksum of a file in hexadecimal digits."""
    found = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(_BLOCK), b""):
            found.update(block)
    return found.hexdigest()


def pack(directory: Path, target: Path, about: Mapping[str, t.Any], licences: Mapping[str, str]) -> dict[str, t.Any]:
    """Write the archive of a directory, which appears when it is complete, and return its manifest."""
    files = {}
    for path in _files(directory):
        name = path.relative_to(directory).as_posix()
        files[name] = {"sha256": digest(path), "bytes": path.stat().st_size, "licence": licences.get(name, "")}
    if not files:
        raise BundleError(f"{directory} has no files")
    manifest = {"format": FORMAT, **about, "files": files}
    (directory / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    partial = target.with_name(f".{target.name}.partial")
    try:
        with tarfile.open(partial, "w") as archive:
            for name in [MANIFEST, *files]:
                archive.add(directory / name, name, recursive=False, filter=_anonymous)
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)
    return manifest


def unpack(source: Path, parent: Path) -> Bundle:
    """
    Unpack an archive into a directory of its own below parent, named after its manifest, unless it is there.

    Every file is compared with the manifest. Raise BundleError if one differs, is missing or is not in the manifest.
    """
    try:
        with tarfile.open(source) as archive:
            text = _manifest_text(archive, source)
            manifest = _parsed(text, source)
            final = parent / hashlib.sha256(text).hexdigest()[:12]
            if (final / COMPLETE).exists():
                return Bundle(False, final, manifest)
            partial = final.with_name(f"{final.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.rmtree(final, ignore_errors=True)
            partial.mkdir(mode=0o755, parents=True)
            _extract(archive, manifest["files"], partial, source)
    except (tarfile.TarError, OSError) as exc:
        raise BundleError(f"{source} cannot be unpacked: {exc}") from exc
    (partial / MANIFEST).write_bytes(text)
    _node_archive(partial)
    (partial / COMPLETE).touch()
    whole_directory.keep(partial, final)
    return Bundle(True, final, manifest)


def _files(directory: Path) -> Iterator[Path]:
    found = sorted(path for path in directory.rglob("*") if path.is_file() and path != directory / MANIFEST)
    links = [path for path in directory.rglob("*") if path.is_symlink()]
    if links:
        raise BundleError(f"{links[0]} is a symbolic link; a bundle has files only")
    return iter(found)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Return a member that belongs to root and that everybody can read."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
    return member


def _manifest_text(archive: tarfile.TarFile, source: Path) -> bytes:
    member = archive.next()
    stream = archive.extractfile(member) if member and member.name == MANIFEST else None
    if stream is None:
        raise BundleError(f"{source} is not a bundle: its first file is not {MANIFEST}")
    return stream.read()


def _parsed(text: bytes, source: Path) -> dict[str, t.Any]:
    try:
        manifest: dict[str, t.Any] = json.loads(text)
        found, files = manifest["format"], manifest["files"]
    except (ValueError, KeyError, TypeError) as exc:
        raise BundleError(f"{source} is not a bundle: {MANIFEST} cannot be read ({exc})") from exc
    if found != FORMAT or not isinstance(files, dict):
        raise BundleError(f"{source} has the format {found!r}; allowed: {FORMAT}. Make it again with this release")
    return manifest


def _extract(archive: tarfile.TarFile, files: Mapping[str, t.Any], target: Path, source: Path) -> None:
    left = dict(files)
    for member in archive:
        if member.name == MANIFEST:
            continue
        entry = left.pop(member.name, None)
        stream = archive.extractfile(member) if member.isfile() else None
        if entry is None or stream is None or not _is_safe(member.name):
            raise BundleError(f"{source}: {member.name} is not in {MANIFEST}")
        path = target / member.name
        path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with path.open("wb") as out:
            shutil.copyfileobj(stream, out, _BLOCK)
        path.chmod(0o755 if member.mode & 0o100 else 0o644)
        if digest(path) != entry["sha256"]:
            raise BundleError(f"{source}: {member.name} is damaged: its checksum is not that of {MANIFEST}")
    if left:
        raise BundleError(f"{source} is incomplete: {next(iter(left))} is missing")


def _is_safe(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _node_archive(directory: Path) -> None:
    """Write what managed nodes need as one file. The last member shows that a copy is complete."""
    node = directory / NODE
    node.mkdir(exist_ok=True)
    (node / COMPLETE).touch()
    paths = sorted(path for path in node.rglob("*") if path.name != COMPLETE)
    with tarfile.open(directory / NODE_ARCHIVE, "w") as archive:
        for path in [*paths, node / COMPLETE]:
            archive.add(path, path.relative_to(node).as_posix(), recursive=False, filter=_anonymous)
