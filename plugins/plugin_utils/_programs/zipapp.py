# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Build a program that runs without Ansible: one file with an entry module of module_utils and all its imports.

The same sources produce the same bytes on every machine: entries are sorted, not compressed, and have no time.
"""

from __future__ import annotations

import io
import re
import typing as t
import zipfile
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2] / "module_utils"
PACKAGE = "ansible_collections.hpcai.gpucluster.plugins.module_utils"
_TYPES_ONLY = re.compile(r"^if t\.TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n)*", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\S+)[ \t]+import[ \t]+(\([^)]*\)|[^(\n]+)|import[ \t]+([^\n#]+))", re.MULTILINE
)
_COMMENT = re.compile(r"#[^\n]*")
_NO_TIME = (1980, 1, 1, 0, 0, 0)
_MAIN = """\
import sys

from {package}.{entry} import main

sys.exit(main())
"""


class BuildError(Exception):
    """The program cannot be built; the message states the reason."""


def build(entry: str, interpreter: str, root: Path = ROOT) -> bytes:
    """Return a program that runs main of a module such as _health.cli with the Python options -I and -S."""
    files = {"__main__.py": _MAIN.format(package=PACKAGE, entry=entry).encode()}
    for source in sorted(sources(entry, root)):
        files[f"{PACKAGE.replace('.', '/')}/{source.relative_to(root)}"] = source.read_bytes()
    for name in list(files):
        for directory in list(Path(name).parents)[:-1]:
            files.setdefault(f"{directory}/__init__.py", b"")
    stream = io.BytesIO()
    stream.write(f"#!{interpreter} -IS\n".encode())
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(files):
            archive.writestr(_entry(name), files[name])
    return stream.getvalue()


def sources(entry: str, root: Path = ROOT) -> set[Path]:
    """Return all files of the package of an entry, which may import them by name, and their imports."""
    start = root / f"{entry.replace('.', '/')}.py"
    if not start.is_file():
        raise BuildError(f"there is no module {PACKAGE}.{entry}")
    found: set[Path] = set()
    waiting = {*start.parent.glob("*.py")}
    while waiting:
        source = waiting.pop()
        found.add(source)
        for name in imports(source.read_text(encoding="utf-8"), list(source.parent.relative_to(root).parts)):
            if name.partition(".")[0] == "ansible":
                raise BuildError(f"{source.relative_to(root)} imports {name}, but a program runs without Ansible")
            if name.startswith(f"{PACKAGE}."):
                waiting |= set(_files(name[len(PACKAGE) + 1 :], root)) - found
    return found


def imports(text: str, package: list[str]) -> set[str]:
    """
    Return the names that a file imports at run time; a name in a from-import may be a module or not.

    Python's parser takes several times as long.
    """
    found: set[str] = set()
    for base, names, plain in _IMPORT.findall(_TYPES_ONLY.sub("", text)):
        if plain:
            found.update(part.split()[0] for part in plain.split(","))
            continue
        dots = len(base) - len(base.lstrip("."))
        above = [*PACKAGE.split("."), *package[: len(package) - dots + 1]] if dots else []
        start = ".".join([*above, *filter(None, [base.lstrip(".")])])
        found.add(start)
        found.update(
            f"{start}.{part.split()[0]}" for part in _COMMENT.sub("", names).strip("() \n").split(",") if part.strip()
        )
    return found


def _files(name: str, root: Path) -> Iterator[Path]:
    """Yield the file of a module and those of its parent packages."""
    path = root / name.replace(".", "/")
    packages = [
        directory / "__init__.py"
        for directory in (path, *path.parents)
        if directory != root and root in directory.parents
    ]
    yield from (file for file in (path.with_name(f"{path.name}.py"), *packages) if file.is_file())


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _NO_TIME)
    entry.create_system = 3  # Unix, even if built on Windows
    entry.external_attr = 0o644 << 16
    return entry
