# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Find the distinct sets of inputs of many hosts, so that a thousand equal machines are judged once.

Two hosts have the same set if their values are equal as written, including all variables that their templates name.
No template is evaluated. Values of other hosts (C(hostvars)) are the same for all hosts.
"""

from __future__ import annotations

import functools
import json
import typing as t
from collections.abc import Mapping

import jinja2

if t.TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    Variables = Mapping[str, t.Any]

# The same for all hosts.
_COMMON = {"groups", "hostvars", "omit", "playbook_dir"}


class _Value(t.NamedTuple):
    """A value seen before, stored so that no other value gets the same id()."""

    value: t.Any
    # Equal for equal values.
    number: int
    # What its templates read.
    names: frozenset[str]


class Distinct:
    """Groups hosts with equal inputs; a value that many hosts share is inspected once."""

    def __init__(self, wanted: Callable[[str], bool]) -> None:
        """Store the function that decides which names are inputs."""
        self._wanted = functools.cache(wanted)
        self._seen: dict[int, _Value] = {}
        self._numbers: dict[str, int] = {}
        self._sets: dict[frozenset[tuple[str, int]], int] = {}
        self.members: list[list[str]] = []

    def add(self, host: str, variables: Variables) -> bool:
        """Add a host; return whether it is the first of its set."""
        parts: dict[str, int] = {}
        waiting = [name for name in variables if self._wanted(name)]
        while waiting:
            name = waiting.pop()
            if name not in parts and name in variables:
                seen = self._look(variables[name])
                parts[name] = seen.number
                waiting.extend(seen.names)
        number = self._sets.setdefault(frozenset(parts.items()), len(self.members))
        if number == len(self.members):
            self.members.append([])
        self.members[number].append(host)
        return len(self.members[number]) == 1

    def _look(self, value: t.Any) -> _Value:
        seen = self._seen.get(id(value))
        if seen is None:
            text = json.dumps(value, sort_keys=True, default=repr)
            number = self._numbers.setdefault(text, len(self._numbers))
            seen = self._seen[id(value)] = _Value(value, number, frozenset(_names(value)) - _COMMON)
        return seen


@functools.lru_cache(maxsize=10_000)
def _names_of(text: str) -> Collection[str]:
    """Return the names that a template reads."""
    try:
        parsed = jinja2.Environment(autoescape=True).parse(text)
    except jinja2.TemplateError:
        return ()
    return {node.name for node in parsed.find_all(jinja2.nodes.Name)}


def _texts(value: t.Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)


def _names(value: t.Any) -> set[str]:
    return {name for text in _texts(value) if "{" in text for name in _names_of(str(text))}
