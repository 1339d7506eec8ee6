# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Compress host names into hostlist expressions of Slurm, and expand them.

The rules are in slurm.conf(5), section NODE CONFIGURATION: a name can contain several numeric ranges, and must end with
one of them. A name that does not end in a digit is therefore not compressed.
"""

from __future__ import annotations

import itertools
import math
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable

# The most hosts that Slurm accepts in one pair of brackets (MAX_RANGES in its src/common/hostlist.c).
MAX_RANGE = 256 * 1024
# A longer number does not fit the counters of Slurm; it is treated as a string.
MAX_DIGITS = 15
_SHOWN = 80

_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
_LAST_NUMBER = re.compile(r"(?P<prefix>.*?)(?P<number>\d+)(?P<rest>\D*)\Z", re.DOTALL)
_PIECE = re.compile(r"\[([^\[\]]*)\]|([^\[\],]+)")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?\Z")
_DIGITS = re.compile(r"(\d+)")


class HostlistError(ValueError):
    """A name or an expression that is not valid in a hostlist."""


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key that puts gpu2 before gpu10."""
    parts = _DIGITS.split(text)
    return tuple((1, int(part), part) if part.isdigit() else (0, 0, part) for part in parts if part)


def compress(names: Iterable[str]) -> str:
    """Return the hostlist expression of host names, sorted and without duplicates."""
    numbers: dict[str, list[str]] = {}
    alone: set[str] = set()
    for name in {_checked(name) for name in names}:
        prefix, number = _split(name)
        if number:
            numbers.setdefault(prefix, []).append(number)
        else:
            alone.add(name)
    tails = {prefix: _ranges(found) for prefix, found in numbers.items()}
    return ",".join(sorted([*_merged(tails), *alone], key=natural_key))


def expand(expression: str) -> list[str]:
    """Return the host names of a hostlist expression in its order, without duplicates."""
    names: dict[str, None] = {}
    for item in _items(expression):
        names.update(dict.fromkeys(_expand_item(item)))
        if len(names) > MAX_RANGE:
            raise HostlistError(f"{expression[:_SHOWN]!r} names more than {MAX_RANGE} hosts")
    return list(names)


def _checked(name: t.Any) -> str:
    """Return a valid host name, or raise an error."""
    if not isinstance(name, str) or not _NAME.match(name):
        raise HostlistError(f"{name!r} is no host name; expected letters, digits, dots, hyphens and underscores")
    return str(name)


def _split(name: str) -> tuple[str, str]:
    """Split a name into a prefix and its final number, which is empty if there is none."""
    prefix = name.rstrip("0123456789")
    number = name[len(prefix) :]
    return (name, "") if len(number) > MAX_DIGITS else (prefix, number)


def _ranges(numbers: Iterable[str]) -> str:
    """Return the part of a hostlist expression that follows the prefix; numbers keep their leading zeros."""
    numbers = list(numbers)
    padded = {len(number) for number in numbers if number.startswith("0") and number != "0"}
    widths = {number: len(number) if len(number) in padded else 0 for number in numbers}
    runs: list[list[str]] = []
    for number in sorted(widths, key=lambda number: (widths[number], int(number))):
        if runs and len(runs[-1]) < MAX_RANGE and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][0])):
            runs[-1].append(number)
        else:
            runs.append([number])
    if len(runs) == 1 and len(runs[0]) == 1:
        return runs[0][0]
    return "[" + ",".join(run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) + "]"


def _merged(tails: dict[str, str]) -> list[str]:
    """Join prefixes that differ in only one number and have the same ranges: rack[1-2]n[1-8]."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    result = []
    for prefix, tail in tails.items():
        match = _LAST_NUMBER.match(prefix) if tail.startswith("[") else None
        if match and len(match["number"]) <= MAX_DIGITS:
            groups.setdefault((match["prefix"], match["rest"], tail), []).append(match["number"])
        else:
            result.append(prefix + tail)
    result.extend(f"{prefix}{_ranges(numbers)}{rest}{tail}" for (prefix, rest, tail), numbers in groups.items())
    return result


def _items(expression: str) -> list[str]:
    """Split an expression at the commas outside of brackets."""
    items = [""]
    depth = 0
    for character in expression:
        depth += {"[": 1, "]": -1}.get(character, 0)
        if depth not in (0, 1):
            raise HostlistError(f"the brackets of {expression!r} do not match")
        if character == "," and not depth:
            items.append("")
        else:
            items[-1] += character
    if depth:
        raise HostlistError(f"the brackets of {expression!r} do not match")
    return [item.strip() for item in items if item.strip()]


def _expand_item(item: str) -> list[str]:
    """Return the names of one item of an expression."""
    parts = [_bracket(match[1], item) if match[2] is None else [match[2]] for match in _PIECE.finditer(item)]
    if math.prod(len(part) for part in parts) > MAX_RANGE:
        raise HostlistError(f"{item[:_SHOWN]!r} names more than {MAX_RANGE} hosts")
    names = ["".join(combination) for combination in itertools.product(*parts)]
    return [_checked(name) for name in names]


def _bracket(inside: str, item: str) -> list[str]:
    """Return the numbers in a pair of brackets with their leading zeros."""
    numbers: list[str] = []
    for part in inside.split(","):
        match = _RANGE.match(part.strip())
        if not match:
            raise HostlistError(f"{part!r} in {item!r} is neither a number nor a range such as 1-8")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) >= MAX_RANGE:
            raise HostlistError(f"{part!r} in {item!r} has to rise, by no more than {MAX_RANGE} hosts")
        numbers.extend(str(number).zfill(len(first)) for number in range(int(first), int(last) + 1))
    return numbers
