# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Container images as one file: names of images, and checks for complete copies."""

from __future__ import annotations

import hashlib
import json
import re
import typing as t

if t.TYPE_CHECKING:
    from pathlib import Path

_USER = r"(?:(?P<user>[A-Za-z0-9_.!~*'()%;:&=+$,-]+)@)?"
_HOST = r"(?P<registry>[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]+)?)"
_NAME = r"(?P<name>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
_TAG = r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
_DIGEST = r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
# enroot writes # between registry and name. Others write /; the registry then has a dot or a port.
_ENROOT = re.compile(rf"(?:{_USER}{_HOST}#)?{_NAME}{_TAG}{_DIGEST}")
_PLAIN = re.compile(rf"(?=[^/]*[.:][^/]*/|localhost/){_HOST}/{_NAME}{_TAG}{_DIGEST}")
_FILE = re.compile(r"/[A-Za-z0-9._/+@:-]+\.(sqsh|squashfs)")
_LIKE_A_FILE = re.compile(r"(?!docker://|/).*\.(sqsh|squashfs)", re.IGNORECASE | re.DOTALL)
_BLOCK = 8 << 20


class ImageError(Exception):
    """An image is invalid. The message says what to change."""


class Image(t.NamedTuple):
    """An image: its source and the name of its file."""

    uri: str
    file: str


class Reference(t.NamedTuple):
    """The reference of an image at a registry."""

    user: str
    registry: str
    name: str
    version: str


class Record(t.NamedTuple):
    """The record that is stored next to an image file."""

    image: str
    sha256: str
    bytes: int

    def text(self) -> str:
        """Return the content of the record file."""
        return json.dumps(self._asdict(), indent=1) + "\n"


def parse(image: t.Any) -> Image:
    """Return the image of a name. Raise ImageError if the name is invalid."""
    text = re.sub("^docker://", "", image) if isinstance(image, str) else image
    if not isinstance(text, str):
        raise ImageError(f"{image!r} is not the name of an image")
    if _FILE.fullmatch(text):
        return Image(text, text.rpartition("/")[2].rpartition(".")[0])
    if _LIKE_A_FILE.fullmatch(image):
        raise ImageError(
            f"{image!r} is neither the name of an image nor the path of a .sqsh file: a file needs a path that begins"
            f" with /, such as /shared/images/{image.rpartition('/')[2]}. An image of this name at a registry begins"
            " with docker://"
        )
    match = _PLAIN.fullmatch(text) or _ENROOT.fullmatch(text)
    if match is None:
        raise ImageError(
            f"{image!r} is neither the name of an image, such as nvcr.io/nvidia/pytorch:25.10-py3,"
            " nor the path of a .sqsh file"
        )
    parts = match.groupdict()
    tail = (f":{parts['tag']}" if parts["tag"] else "") + (f"@{parts['digest']}" if parts["digest"] else "")
    user = f"{parts.get('user')}@" if parts.get("user") else ""
    registry = f"{parts['registry']}#" if parts["registry"] else ""
    kind = parts["tag"] or (parts["digest"] or "latest").replace("sha256:", "sha256-")[:19]
    return Image(f"docker://{user}{registry}{parts['name']}{tail}", f"{parts['name']}+{kind}".replace("/", "+"))


def reference(uri: str) -> Reference:
    """Return the registry reference of a URI from parse. The default registry is Docker Hub."""
    match = _ENROOT.fullmatch(re.sub("^docker://", "", uri))
    if match is None:
        raise ImageError(f"{uri} is not an image of a registry")
    registry, name = match["registry"] or "registry-1.docker.io", match["name"]
    if not match["registry"] and "/" not in name:
        name = f"library/{name}"
    return Reference(match["user"] or "", registry, name, match["digest"] or match["tag"] or "latest")


def record_path(path: Path) -> Path:
    """Return the path of the record of a file."""
    return path.with_name(path.name + ".json")


def record(path: Path) -> Record | None:
    """Return the record of a file, or None if the file is missing or its size differs."""
    try:
        data = json.loads(record_path(path).read_text(encoding="utf-8"))
        found = Record(str(data["image"]), str(data["sha256"]), int(data["bytes"]))
        return found if path.stat().st_size == found.bytes else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sha256(path: Path) -> str:
    """Return the SHA-256 digest of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for block in iter(lambda: stream.read(_BLOCK), b""):
            digest.update(block)
    return digest.hexdigest()


def copy(source: Path, target: Path) -> str:
    """Copy a file to a new one, and return the SHA-256 digest of the data that was read."""
    digest = hashlib.sha256()
    with source.open("rb") as reader, target.open("xb") as writer:
        for block in iter(lambda: reader.read(_BLOCK), b""):
            digest.update(block)
            writer.write(block)
    return digest.hexdigest()


def space_problem(directory: Path, needed: int, reserve: int, free: int) -> str:
    """Return why a directory lacks space, or an empty string."""
    if free >= needed + reserve:
        return ""
    return (
        f"{directory} has {_gib(free)} GiB free, and needs {_gib(needed + reserve)} GiB:"
        f" {_gib(needed)} for the image and {_gib(reserve)} that are to stay free. Nothing was written."
    )


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f}"
