# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Names of the licences of packages, wheels and collections, as their own files give them."""

from __future__ import annotations

import json
import re
import tarfile
import typing as t
import zipfile

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

UNKNOWN = "not stated in a machine-readable form"
_FIELD = re.compile(r"^([A-Za-z0-9-]+):[ \t]*(.*)$", re.MULTILINE)
_CLASSIFIER = re.compile(r"^Classifier: License ::(?: OSI Approved ::)? (.+)$", re.MULTILINE)


def of_tree(directory: Path, known: Mapping[str, str]) -> dict[str, str]:
    """
    Return the licences of files of a bundle by path.

    The packages of an apt repository have their copyright files in the directory copyright next to it. A known licence
    belongs to all files below a path.
    """
    found: dict[str, str] = {}
    for path in sorted(file for file in directory.rglob("*") if file.is_file()):
        name = path.relative_to(directory).as_posix()
        below = next((licence for start, licence in known.items() if name.startswith(start)), "")
        licence = below or _of_file(path)
        if licence:
            found[name] = licence
    for index in directory.rglob("Packages"):
        found.update(dict(_of_packages(index, directory)))
    return found


def of_copyright(text: str) -> str:
    """Return the licences in a copyright file of Debian, in the order of their names."""
    if "copyright-format/1.0" not in text[:400].replace("\n", " "):
        return UNKNOWN
    names = {value.strip() for key, value in _FIELD.findall(text) if key == "License" and value.strip()}
    return ", ".join(sorted(names)) or UNKNOWN


def of_wheel(metadata: str) -> str:
    """Return the licence in the metadata of a wheel."""
    head = metadata.partition("\n\n")[0]
    fields = dict(reversed(_FIELD.findall(head)))
    stated = fields.get("License-Expression") or ", ".join(_CLASSIFIER.findall(head)) or fields.get("License", "")
    return stated.strip() or UNKNOWN


def packages(index: str) -> list[dict[str, str]]:
    """Return the fields of each package of an index of apt."""
    return [dict(_FIELD.findall(entry)) for entry in index.split("\n\n") if entry.strip()]


def _of_packages(index: Path, top: Path) -> Iterator[tuple[str, str]]:
    copyrights = index.parent.parent / "copyright"
    entries = packages(index.read_text(encoding="utf-8"))
    by_source: dict[str, str] = {}
    own: dict[str, str] = {}
    for entry in entries:
        file = copyrights / entry["Package"]
        if file.is_file() and file.stat().st_size:
            own[entry["Package"]] = of_copyright(file.read_text(encoding="utf-8", errors="replace"))
            by_source.setdefault(_source(entry), own[entry["Package"]])
    for entry in entries:
        # A package without a copyright file of its own links to the one of another package of its source.
        licence = own.get(entry["Package"]) or by_source.get(_source(entry), UNKNOWN)
        yield (index.parent / entry["Filename"]).relative_to(top).as_posix(), licence


def _source(entry: Mapping[str, str]) -> str:
    return entry.get("Source", entry["Package"]).partition(" ")[0]


def _of_file(path: Path) -> str:
    """Return the licence of a wheel or of the archive of a collection, or an empty string."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            name = next((name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")), "")
            return of_wheel(wheel.read(name).decode("utf-8", "replace")) if name else UNKNOWN
    if path.parent.name == "collections" and path.name.endswith(".tar.gz"):
        return _of_collection(path)
    return ""


def _of_collection(path: Path) -> str:
    with tarfile.open(path) as archive:
        stream = archive.extractfile("MANIFEST.json")
        info = json.loads(stream.read())["collection_info"] if stream else {}
    return (
        ", ".join(info.get("license") or [])
        or (info.get("license_file") and "see its " + info["license_file"])
        or UNKNOWN
    )
