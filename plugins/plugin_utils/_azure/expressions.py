# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Evaluate common simple expressions directly on a mapping, without Jinja.

Jinja needs about 0.6 ms for each expression, which is minutes for many machines and groups. Jinja evaluates only
missing values, and expressions that do not clearly have one of the forms below.
"""

from __future__ import annotations

import ast
import functools
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Scope = Mapping[str, t.Any]

_STEP = r"(?:\.[A-Za-z_]\w*|\['[^'\\]*'\]|\[\"[^\"\\]*\"\])"
_PATH = rf"(?P<path>[A-Za-z_]\w*{_STEP}*)"
_TEXT = r"(?P<text>'[^'\\]*'|\"[^\"\\]*\")"
_LIST = r"(?P<list>\[(?:\s*(?:'[^'\\]*'|\"[^\"\\]*\")\s*,?)+\])"
_READ = re.compile(rf"\s*{_PATH}\s*(?:\|\s*default\(\s*{_TEXT}\s*(?P<empty>,\s*(?:true|True|boolean=true)\s*)?\)\s*)?")
_EQUAL = re.compile(rf"\s*{_PATH}\s*(?P<operator>==|!=)\s*{_TEXT}\s*")
_AMONG = re.compile(rf"\s*{_PATH}\s+(?P<operator>in|not in)\s+{_LIST}\s*")
_PART = re.compile(rf"\s*{_TEXT}\s+(?P<operator>in|not in)\s+{_PATH}\s*")
_THERE = re.compile(rf"\s*{_PATH}\s+is\s+(?P<operator>defined|not defined|undefined)\s*")
_SPLIT = re.compile(r"\.([A-Za-z_]\w*)|\['([^']*)'\]|\[\"([^\"]*)\"\]")
_WORDS = frozenset({"true", "false", "none", "True", "False", "None", "not", "and", "or", "in", "is", "if", "else"})
_OF_DICT = frozenset(dir(dict))  # Jinja would find the method, not the key


class LeaveToJinjaError(Exception):
    """Jinja must evaluate the expression for these variables."""


class MissingError(Exception):
    """The expression names a variable that is missing."""


@functools.lru_cache(maxsize=512)
def value_of(expression: str) -> Callable[[Scope], t.Any] | None:
    """Return a function for an expression such as C(tags.role | default('none')), or None for any other form."""
    match = _READ.fullmatch(expression)
    parts = _parts(match["path"]) if match else None
    if match is None or parts is None:
        return None
    default = ast.literal_eval(match["text"]) if match["text"] else None
    has_default, replaces_empty = match["text"] is not None, match["empty"] is not None

    def read(scope: Scope) -> t.Any:
        found, value = _walk(parts, scope)
        if found and (value or not replaces_empty):
            return value
        if has_default:
            return default
        raise MissingError(expression)

    return read


@functools.lru_cache(maxsize=512)
def test_of(expression: str) -> Callable[[Scope], bool] | None:
    """Return a function for a condition such as C(powerstate != 'running'), or None for any other form."""
    for pattern, compare in ((_EQUAL, _equal), (_AMONG, _among), (_PART, _part), (_THERE, None)):
        match = pattern.fullmatch(expression)
        if match is None:
            continue
        parts = _parts(match["path"])
        if parts is None:
            return None
        return _defined(parts, match["operator"]) if compare is None else _compare(parts, match, compare)
    return None


def _compare(
    parts: tuple[str, ...], match: re.Match[str], compare: Callable[[t.Any, t.Any], bool]
) -> Callable[[Scope], bool]:
    named = match.groupdict()
    operand = ast.literal_eval(named.get("list") or named["text"])
    wanted = match["operator"] in ("==", "in")

    def test(scope: Scope) -> bool:
        found, value = _walk(parts, scope)
        if not found:
            raise MissingError(match.string)
        return compare(value, operand) is wanted

    return test


def _defined(parts: tuple[str, ...], operator: str) -> Callable[[Scope], bool]:
    wanted = operator == "defined"
    return lambda scope: _walk(parts, scope)[0] is wanted


def _equal(value: t.Any, operand: str) -> bool:
    return bool(value == operand)


def _among(value: t.Any, operand: list[str]) -> bool:
    return value in operand


def _part(value: t.Any, operand: str) -> bool:
    if not isinstance(value, (str, list, dict)):
        raise LeaveToJinjaError
    return operand in value


def _parts(path: str) -> tuple[str, ...] | None:
    """Return the names in a path, or None if Jinja could interpret one of them differently."""
    first = re.split(r"[.\[]", path, maxsplit=1)[0]
    steps = _SPLIT.findall(path[len(first) :])
    if first in _WORDS or any(dotted in _OF_DICT for dotted, _single, _double in steps if dotted):
        return None
    return (first, *("".join(step) for step in steps))


def _walk(parts: tuple[str, ...], scope: Scope) -> tuple[bool, t.Any]:
    """Return whether the value exists, and the value; Jinja handles a path that is missing before its last step."""
    value: t.Any = scope
    for position, name in enumerate(parts):
        if not isinstance(value, dict):
            raise LeaveToJinjaError
        if name not in value:
            if position < len(parts) - 1:
                raise LeaveToJinjaError
            return False, None
        value = value[name]
    return True, value
