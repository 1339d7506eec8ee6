# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Write configuration files of Slurm from data, and read them back."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist, keys

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Lines = Iterable[Mapping[str, t.Any]]

# Keys whose value is a set of hosts. NodeAddr is not one of them, because its order is that of NodeName.
HOST_KEYS = frozenset({"nodename", "nodes", "downnodes", "suspendexcnodes"})

# Keys whose items are separated by a semicolon.
SEMICOLON_KEYS = frozenset({"pmixenv"})

# Keys whose values must not appear in messages.
SECRET_KEYS = re.compile(r"pass|secret", re.IGNORECASE)

# One Key=Value pair of a line, as SchedMD's src/common/parse_config.c reads it.
_PAIR = re.compile(r"\s*([A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:\"([^\"]*)\"|(\S+))(?=\s|\Z)")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")


class ConfError(ValueError):
    """A value that cannot be written to a Slurm file, or a line that Slurm cannot read."""


class Line(t.NamedTuple):
    """One line of a file: its first key, the value of that key, and the other pairs."""

    key: str
    value: str
    rest: dict[str, str]


def render(config: Mapping[str, t.Any], lines: Iterable[Mapping[str, t.Any]] = (), file: str = "slurm.conf") -> str:
    """Return the content of a file: one line per key, then the lines with several keys."""
    text = [line for key, value in config.items() for line in _lines(key, value, file)]
    text.extend(_joined(line, file) for line in lines)
    return "".join(f"{line}\n" for line in text)


def collect(nodes: Lines, partitions: Lines) -> list[dict[str, t.Any]]:
    """Return the lines of nodes, then those of partitions, as Slurm requires; each starts with its identifying key."""
    kinds = (("NodeName", nodes), ("PartitionName", partitions))
    return [_named(first, line) for first, found in kinds for line in found or ()]


def parse(text: str) -> list[Line]:
    """Return the lines of a file, without comments, with continued lines joined."""
    return [_parse_line(line) for line in _logical_lines(text)]


def is_absent(value: t.Any) -> bool:
    """Return whether a value removes its key from the file: none, omit, or empty."""
    if value is None or type(value).__name__ in ("Omit", "_OmitType", "_Omit"):
        return True
    if isinstance(value, str):
        return not value.strip() or value.startswith("__omit_place_holder__")
    return isinstance(value, (list, tuple, dict)) and not value


def value_text(key: str, value: t.Any, kind: str = "string") -> str:
    """Return a value as Slurm writes it."""
    if isinstance(value, dict):
        return _separator(key).join(_parameters(value))
    if isinstance(value, (list, tuple)):
        return _list_text(key, [value_text(key, item) for item in value if not is_absent(item)])
    if isinstance(value, bool):
        return ("1" if value else "0") if kind.startswith("uint") else ("YES" if value else "NO")
    return str(value).strip()


def _named(first: str, line: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a line that starts with its identifying key."""
    found = next((key for key in line if str(key).lower() == first.lower()), "")
    if not found:
        raise ConfError(f"a {first} line has no {first}: {dict(line)!r}")
    return {first: line[found], **{key: value for key, value in line.items() if key != found}}


def _lines(key: str, value: t.Any, file: str) -> list[str]:
    """Return the lines of one key."""
    if is_absent(value):
        return []
    known = keys.table(file).get(key.lower())
    kind = known.type if known else "string"
    if kind == "array" and isinstance(value, (list, tuple)):
        return [_pair(key, value_text(key, item)) for item in value if not is_absent(item)]
    text = value_text(key, value, kind)
    return [_pair(key, text)] if text else []


def _joined(line: Mapping[str, t.Any], file: str) -> str:
    """Return one line with several keys; the first key identifies the line."""
    first = next(iter(line), "")
    kinds = keys.table(file, keys.line_key(first))
    pairs = []
    for key, value in line.items():
        known = kinds.get(key.lower())
        text = "" if is_absent(value) else value_text(key, value, known.type if known else "string")
        if not text and key == first:
            raise ConfError(f"a line of {file} has no value for {key}: {dict(line)!r}")
        if text:
            pairs.append(_pair(key, text))
    return " ".join(pairs)


def _parameters(value: dict[str, t.Any]) -> list[str]:
    """Return the items of a mapping: the name for true, nothing for false, otherwise name=value."""
    return [
        str(name) if item is True else f"{name}={item}"
        for name, item in value.items()
        if item is not False and not is_absent(item)
    ]


def _separator(key: str) -> str:
    """Return the separator of the items of a value."""
    return ";" if key.lower() in SEMICOLON_KEYS else ","


def _list_text(key: str, items: list[str]) -> str:
    """Return the items of a list; host names become ranges if the key accepts hosts."""
    if key.lower() not in HOST_KEYS:
        return _separator(key).join(items)
    plain = [item for item in items if _PLAIN_NAME.match(item)]
    ranges = [item for item in items if not _PLAIN_NAME.match(item)]
    return ",".join(part for part in (hostlist.compress(plain), *ranges) if part)


def _pair(key: str, text: str) -> str:
    """Return Key=Value with the quotes and escapes that Slurm needs."""
    if not re.match(r"[A-Za-z0-9_.]+\Z", key):
        raise ConfError(f"{key!r} is no key of a Slurm file; expected letters, digits and underscores")
    shown = "" if SECRET_KEYS.search(key) else f": {text!r}"
    if "\n" in text or "\r" in text:
        raise ConfError(f"{key}: the value has more than one line{shown}")
    if text.endswith("\\"):
        raise ConfError(f"{key}: a backslash at the end of the value would swallow the next line{shown}")
    text = re.sub(r"(?<!\\)#", r"\\#", text)
    quoted = len(text) > 1 and text.startswith('"') and text.endswith('"')
    inner = text[1:-1] if quoted else text
    if '"' in inner:
        raise ConfError(f"{key}: Slurm cannot read a quotation mark inside of a value{shown}")
    return f'{key}="{inner}"' if quoted or re.search(r"\s", inner) else f"{key}={inner}"


def _logical_lines(text: str) -> list[str]:
    """Return the lines without comments and blank lines, with continued lines joined."""
    lines: list[str] = []
    held = ""
    for raw in text.splitlines():
        line = re.sub(r"(?<!\\)#.*", "", raw).rstrip()
        if line.endswith("\\"):
            held += line[:-1] + " "
            continue
        line, held = (held + line).replace("\\#", "#").strip(), ""
        if line:
            lines.append(line)
    return [*lines, held.strip()] if held.strip() else lines


def _parse_line(line: str) -> Line:
    """Return one line as pairs."""
    include = re.match(r"(?i)include\s+(\S.*)", line)
    if include:
        return Line("Include", include[1], {})
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(line):
        match = _PAIR.match(line, at)
        if not match:
            if SECRET_KEYS.search(line):
                raise ConfError("Slurm could not read a line with a secret")
            raise ConfError(f"Slurm could not read {line[at:].strip()!r} in the line {line!r}")
        pairs.append((match[1], match[2] if match[2] is not None else match[3]))
        at = match.end()
    return Line(pairs[0][0], pairs[0][1], dict(pairs[1:]))
