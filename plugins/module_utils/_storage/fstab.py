# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read /etc/fstab and manage one marked block of lines in it. All other lines remain unchanged."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError


class Line(t.NamedTuple):
    """The first four fields of a line of fstab."""

    source: str
    path: str
    type: str
    options: str

    def text(self) -> str:
        """Return the line for the file, without dump and without a check at boot."""
        if re.search(r"\s", self.type + self.options) or re.search(r"[\n\r]", self.source) or not self.options:
            raise StorageError(f"the mount of {self.path} cannot stand in a line of fstab: {tuple(self)}")
        return f"{self.source} {escape(self.path)} {self.type} {self.options} 0 0"


class Table:
    """A file in fstab format. Ansible manages the lines between two markers."""

    def __init__(self, text: str, name: str) -> None:
        self._begin = f"# BEGIN hpcai.gpucluster {name}"
        self._end = f"# END hpcai.gpucluster {name}"
        self._above, self._own, self._below = self._split(text.splitlines())

    def _split(self, lines: list[str]) -> tuple[list[str], list[str], list[str]]:
        if self._begin not in lines or self._end not in lines:
            return lines, [], []
        first, last = lines.index(self._begin), lines.index(self._end)
        return lines[:first], lines[first + 1 : last], lines[last + 1 :]

    def own(self) -> dict[str, Line]:
        """Return the managed lines by mount point."""
        return {line.path: line for line in map(parse, self._own) if line}

    def others(self) -> dict[str, Line]:
        """Return all other lines by mount point."""
        return {line.path: line for line in map(parse, [*self._above, *self._below]) if line}

    def text(self, own: list[Line], adopted: t.Collection[str] = ()) -> str:
        """Return the file with own as the managed block, and without other lines for the mount points in adopted."""
        above, below = ([line for line in part if not _is_for(line, adopted)] for part in (self._above, self._below))
        block = [self._begin, *(line.text() for line in own), self._end] if own else []
        return "".join(f"{line}\n" for line in [*above, *block, *below])


def _is_for(line: str, paths: t.Collection[str]) -> bool:
    fields = parse(line)
    return fields is not None and fields.path in paths


def parse(line: str) -> Line | None:
    """Return the fields of one line, or None for a comment or an empty line."""
    fields = line.split()
    if len(fields) < 4 or fields[0].startswith("#"):
        return None
    return Line(fields[0], unescape(fields[1]), fields[2], fields[3])


def escape(path: str) -> str:
    """Return a path with the escapes of fstab."""
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")


def unescape(path: str) -> str:
    """Return the path in a field of fstab or mountinfo without its escapes."""
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        path = path.replace(code, letter)
    return path


def unit_name(path: str, suffix: str) -> str:
    """Return the systemd unit name of a mount point: C(/var/data) and C(mount) return C(var-data.mount)."""
    trimmed = path.strip("/")
    if not trimmed:
        return f"-.{suffix}"
    return "".join(_unit_letter(index, letter) for index, letter in enumerate(trimmed)) + f".{suffix}"


def _unit_letter(index: int, letter: str) -> str:
    if letter == "/":
        return "-"
    if (letter.isascii() and letter.isalnum()) or letter in ":_" or (letter == "." and index):
        return letter
    return "".join(f"\\x{byte:02x}" for byte in letter.encode())


class Mounted(t.NamedTuple):
    """A mounted file system."""

    path: str
    source: str
    type: str
    options: tuple[str, ...]


def mounted(mountinfo: str) -> dict[str, Mounted]:
    """Return the topmost file system of each mount point. Skip autofs, which mounts on first access."""
    table: dict[str, Mounted] = {}
    for line in mountinfo.splitlines():
        left, _dash, right = line.partition(" - ")
        fields, kind = left.split(), right.split()
        if len(fields) < 6 or len(kind) < 3 or kind[0] == "autofs":
            continue
        path = unescape(fields[4])
        options = (*fields[5].split(","), *kind[2].split(","))
        table[path] = Mounted(path, unescape(kind[1]), kind[0], options)
    return table


def waiting(mountinfo: str) -> set[str]:
    """Return the mount points that autofs mounts on first access."""
    paths = set()
    for line in mountinfo.splitlines():
        left, _dash, right = line.partition(" - ")
        if right.startswith("autofs "):
            paths.add(unescape(left.split()[4]))
    return paths
