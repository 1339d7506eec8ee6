# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Find what a template reads, so that two hosts for which all of it is equal can share its result.

The names are too many rather than too few: each word inside of a template counts, also that of a filter or a string.
"""

from __future__ import annotations

import functools
import re
import typing as t
from collections.abc import Mapping

if t.TYPE_CHECKING:
    from collections.abc import Iterator

# What differs between hosts, or can be read under a name that is not written out.
_OWN = frozenset({
    *("inventory_hostname", "inventory_hostname_short", "group_names", "ansible_facts", "hostvars", "vars"),
    *("now", "random", "shuffle", "password_hash", "bcrypt", "include", "import", "extends"),
})  # fmt: skip
_TEMPLATE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.S)
_WORD = re.compile(r"[A-Za-z_]\w*")
# Tests of files of the control node.
_ON_DISK = re.compile(r"\bis\s+(?:not\s+)?(?:[\w.]+\.)?(?:abs|directory|exists|file|link\w*|mount|same_file|is_\w+)\b")
_LOOKUP = re.compile(r"\b(?:lookup|query|q)\s*\(")
# Lookups whose result is the same in the whole run, with the first argument.
_CONSTANT = re.compile(r"\b(?:lookup|query)\s*\(\s*'(?:ansible\.builtin\.)?(template|env|file)'\s*,\s*'([^']*)'")


class Reads(t.NamedTuple):
    """Names and template files that a value reads, and whether only its result can be compared."""

    names: frozenset[str]
    files: frozenset[str]
    own: bool


NOTHING = Reads(frozenset(), frozenset(), own=False)


def of(value: t.Any) -> Reads:
    """Return what the templates in a value read."""
    found = [of_text(str(text)) for text in _texts(value) if "{{" in text or "{%" in text]
    return Reads(
        frozenset().union(*(one.names for one in found)),
        frozenset().union(*(one.files for one in found)),
        any(one.own for one in found),
    )


@functools.lru_cache(maxsize=10_000)
def of_text(text: str) -> Reads:
    """Return what a string or the content of a template file reads."""
    code = " ".join(_TEMPLATE.findall(text))
    names = frozenset(_WORD.findall(code))
    constant = _CONSTANT.findall(code)
    own = bool(names & _OWN) or bool(_ON_DISK.search(code)) or len(_LOOKUP.findall(code)) > len(constant)
    return Reads(names, frozenset(file for kind, file in constant if kind == "template"), own)


def _texts(value: t.Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
