# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Compare a set of small files with their wanted state. Injected functions read the files."""

from __future__ import annotations

import posixpath
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


# Directories of the collection, which go with the last file in them.
OWN = ("/etc/gpucluster", "/var/lib/gpucluster")


_MOST_ROUNDS = 10  # of replacements; each is one more name in a line


class Found(t.NamedTuple):
    """The current state of a file."""

    content: str
    mode: int
    uid: int
    gid: int


class Wanted(t.NamedTuple):
    """The wanted state of a file. If content is None, the file must be absent."""

    path: str
    content: str | None
    mode: int
    uid: int
    gid: int


class Change(t.NamedTuple):
    """The change to one file."""

    wanted: Wanted
    found: Found | None
    action: str  # write, attributes or remove


def plan(wanted: Sequence[Wanted], look: Callable[[str], Found | None]) -> list[Change]:
    """Return the required changes. I(look) returns the current state of a file, or None."""
    changes = []
    for one in wanted:
        found = look(one.path)
        action = _action(one, found)
        if action:
            changes.append(Change(one, found, action))
    return changes


def replaced(text: str, rules: Sequence[Mapping[str, str]]) -> str:
    """Return a text after rules with C(regexp) and C(by), which are repeated until they change nothing."""
    for _round in range(_MOST_ROUNDS):
        before = text
        for rule in rules:
            text = re.sub(rule["regexp"], rule["by"], text, flags=re.MULTILINE)
        if text == before:
            break
    return text


def with_block(text: str, block: str, marker: str) -> str:
    """
    Return a text whose lines between two marks are those of the block.

    C({mark}) in the marker becomes BEGIN and END. A new block comes last. An empty block removes the marks as well.
    """
    begin, end = (marker.replace("{mark}", word) for word in ("BEGIN", "END"))
    lines = text[:-1].split("\n") if text.endswith("\n") else text.split("\n") if text else []
    new = [begin, *block.rstrip("\n").split("\n"), end] if block.strip() else []
    if begin in lines and end in lines[lines.index(begin) :]:
        first = lines.index(begin)
        lines[first : lines.index(end, first) + 1] = new
    elif new:
        lines += new
    else:
        return text
    return "".join(f"{line}\n" for line in lines)


def _action(one: Wanted, found: Found | None) -> str:
    if one.content is None:
        return "remove" if found else ""
    if found is None or found.content != one.content:
        return "write"
    return "" if found[1:] == (one.mode, one.uid, one.gid) else "attributes"


def diff(changes: Sequence[Change]) -> list[dict[str, str]]:
    """Return the differences for the diff mode of Ansible."""
    return [
        {
            "before_header": change.wanted.path,
            "after_header": change.wanted.path,
            "before": _shown(change.found.content, change.found.mode) if change.found else "",
            "after": "" if change.wanted.content is None else _shown(change.wanted.content, change.wanted.mode),
        }
        for change in changes
    ]


def normal(path: str) -> str:
    """Return an absolute path in its shortest form: with a slash at its end, a link would stand for its target."""
    return "/" + posixpath.normpath(path).strip("/")


def removals(kinds: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the differences for paths that are removed, with the kind of file of each, but without its content."""
    return [
        {"before_header": path, "after_header": path, "before": f"({kind})\n", "after": ""}
        for path, kind in kinds.items()
    ]


def _shown(content: str, mode: int) -> str:
    # A file to remove may contain any bytes. Ansible rejects a result that is not valid text.
    shown = content if content.isascii() or not any("\udc80" <= char <= "\udcff" for char in content) else "(no text)\n"
    return f"# mode {mode:04o}\n{shown}"


def problems(files: Sequence[Mapping[str, t.Any]], absent: Sequence[str] = ()) -> list[str]:
    """Return the problems of the input; an empty list if it is valid."""
    removed = [normal(path) for path in absent]
    found = [f"absent must have absolute paths, not {path!r}" for path in absent if not path.startswith("/")]
    found += ["absent must not have the root directory"] if "/" in removed else []
    found += [f"path {one['path']!r} is in files and in absent" for one in files if one["path"] in removed]
    seen = set()
    for one in files:
        path = one["path"]
        if not path.startswith("/") or path.endswith("/"):
            found.append(f"path must be absolute and name a file, not {path!r}")
        if path in seen:
            found.append(f"path {path!r} is given twice")
        seen.add(path)
        if one["state"] == "present" and one["content"] is None:
            found.append(f"{path}: content is required when state is present")
        if one.get("marker") and "{mark}" not in one["marker"]:
            found.append(f"{path}: marker must contain {{mark}}, not {one['marker']!r}")
        if not _is_mode(one["mode"]):
            found.append(f"{path}: mode must be four octal digits such as '0644', not {one['mode']!r}")
    return found


def _is_mode(text: str) -> bool:
    return len(text) == 4 and all(digit in "01234567" for digit in text)
