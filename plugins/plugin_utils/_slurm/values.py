# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check whether Slurm accepts the keys and values of a file."""

from __future__ import annotations

import difflib
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf, hostlist

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm.keys import Key

# Formats of SchedMD's src/common/parse_time.c and src/common/parse_value.c.
_TIME = re.compile(r"(?:\d+(?::\d+){0,2}|\d+-\d+(?::\d+){0,2}|-1|INFINITE|UNLIMITED)\Z", re.IGNORECASE)
_NUMBER = re.compile(r"(?:\d+|0x[0-9a-f]+)k?\Z|(?:INFINITE|UNLIMITED)\Z", re.IGNORECASE)
_BOOLEANS = ("yes", "up", "true", "1", "no", "down", "false", "0")
_TIME_FORMS = "minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]] or INFINITE"
# Debug levels can also be numbers (log_string2num of SchedMD's src/common/log.c).
_LEVELS = 10
_REST_KEY = "Include"
# AccountingStoragePort, DbdPort, SlurmctldPort (also a range) and Port of a node, but not SrunPortRange.
_PORT = re.compile(r"Port\Z")
_LAST_PORT, _RANGE = 65535, 2


def key_problems(values: Mapping[str, t.Any], known: Mapping[str, Key], where: str, version: str) -> list[str]:
    """Return the errors in the keys of a mapping and in their values."""
    problems: list[str] = []
    seen: dict[str, str] = {}
    for name, value in values.items():
        lower = str(name).lower()
        if lower in seen:
            problems.append(f"{where}: {seen[lower]!r} and {name!r} are one key to Slurm; keep one of them")
        seen[lower] = str(name)
        if conf.is_absent(value) or str(name) == _REST_KEY:
            continue
        problems.extend(f"{where}: {problem}" for problem in _entry_problems(str(name), value, known, version))
    return problems


def time_is_valid(text: str) -> bool:
    """Return whether Slurm reads a string as a time span."""
    return bool(_TIME.match(text))


def nearest(name: str, names: list[str]) -> str:
    """Return a question with the most similar known name; empty if none is similar."""
    near = difflib.get_close_matches(name.lower(), [known.lower() for known in names], n=1, cutoff=0.75)
    return next((f"; did you mean {known}?" for known in names if near and known.lower() == near[0]), "")


def _entry_problems(name: str, value: t.Any, known: Mapping[str, Key], version: str) -> list[str]:
    """Return the errors in one key."""
    key = known.get(name.lower())
    if not key:
        return [f"unknown key {name!r}{nearest(name, [entry.name for entry in known.values()])}"]
    unread = key.unread(version)
    if unread:
        return [f"Slurm {version} does not use {key.name}: {unread}"]
    items = value if isinstance(value, (list, tuple)) and key.type == "array" else [value]
    return [problem for item in items for problem in _value_problems(key, item)]


def _value_problems(key: Key, value: t.Any) -> list[str]:
    """Return the errors in one value."""
    if isinstance(value, (dict, list, tuple)) and key.type not in ("string", "array"):
        return [f"{key.name} takes one value, found {value!r}"]
    try:
        text = conf.value_text(key.name, value, key.type)
        conf.render({key.name: text})
    except ValueError as exc:
        return [str(exc)]
    expected = _CHECKS[key.type](text) if key.type in _CHECKS else ""
    expected = expected or ("" if not _PORT.search(key.name) or _is_port(key.name, text) else "a port from 1 to 65535")
    if expected:
        return [f"{key.name} is {value!r}, expected {expected}"]
    return _choice_problems(key, text)


def _is_port(name: str, text: str) -> bool:
    """Return whether a string is a port, a range of ports, or, for the nodes of a line, a hostlist of ports."""
    numbers = text.split("-") if text.count("-") < _RANGE else [""]
    if name == "Port" and re.search(r"[\[,]", text):
        try:
            numbers = hostlist.expand(text)
        except ValueError:
            return False
    return all(number.isdigit() and 1 <= int(number) <= _LAST_PORT for number in numbers)


def _choice_problems(key: Key, text: str) -> list[str]:
    """Return the items of a value that are not among its choices."""
    if not key.choices or (text.isdigit() and len(key.choices) == _LEVELS and int(text) < _LEVELS):
        return []
    choices = {choice.lower() for choice in key.choices}
    wrong = [item for item in text.split(",") if item.strip().lower() not in choices]
    return [f"{key.name} is {item!r}, expected one of {', '.join(key.choices)}" for item in wrong]


def _number(bits: int) -> t.Callable[[str], str]:
    """Return a check for integers with this number of bits."""

    def check(text: str) -> str:
        if not _NUMBER.match(text):
            return "a whole number or INFINITE"
        digits = text.rstrip("kK")
        if digits.isdigit() and int(digits) >= 1 << bits:
            return f"a number below {1 << bits}"
        return ""

    return check


def _float(text: str) -> str:
    """Return the expected type if a string is not a number."""
    try:
        float(text)
    except ValueError:
        return "a number"
    return ""


_CHECKS: dict[str, t.Callable[[str], str]] = {
    "uint16": _number(16),
    "uint32": _number(32),
    "uint64": _number(64),
    "float": _float,
    "double": _float,
    "boolean": lambda text: "" if text.lower() in _BOOLEANS else "YES or NO",
    "time": lambda text: "" if time_is_valid(text) else f"a time ({_TIME_FORMS})",
}
