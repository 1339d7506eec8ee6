# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Write, read and check the file nccl.conf by NCCL's strict grammar.

A whole line is NAME=value, without export, spaces around the equals sign, quotes, or a comment at the end. NCCL uses
the value literally, so a quote or a carriage return becomes a part of it.
"""

from __future__ import annotations

import re
import typing as t

_NAME = re.compile(r"NCCL_[A-Z0-9_]+")
_VALUE = re.compile(r"[!-\"$-~]*")  # printable, neither a space nor a hash sign
_QUOTES = "\"'"


def problems(settings: t.Any) -> list[str]:
    """Return the settings that nccl.conf cannot contain, each with its correction."""
    if not hasattr(settings, "items"):
        return [f"the settings of NCCL must be a mapping, not {type(settings).__name__}"]
    return [text for name, value in settings.items() for text in _setting(str(name), value)]


def render(settings: dict[str, t.Any]) -> str:
    """Return the lines of nccl.conf. Raise ValueError for a setting that the file cannot contain."""
    wrong = problems(settings)
    if wrong:
        raise ValueError("; ".join(wrong))
    return "".join(f"{name}={value}\n" for name, value in sorted(settings.items()))


def read(text: str) -> dict[str, str]:
    """Return the settings of a file. NCCL takes the first line of a name."""
    lines = [line.partition("=") for line in text.split("\n") if "=" in line and not line.startswith("#")]
    return {name: value for name, _equals, value in reversed(lines)}


def _setting(name: str, value: t.Any) -> list[str]:
    if not _NAME.fullmatch(name):
        return [f"{name!r} is no name of a variable of NCCL, such as NCCL_DEBUG, from the first column on"]
    if isinstance(value, bool):
        return [f"{name} is {value}, NCCL wants a number: write {int(value)}"]
    if not isinstance(value, (str, int, float)):
        return [f"{name} is {value!r}, it must be a text or a number"]
    if not _VALUE.fullmatch(str(value)):
        return [f"{name} is {value!r}: a value has no blanks, no '#', no line ends and plain characters only"]
    if set(_QUOTES) & set(str(value)):
        return [f"{name} is {value!r}: NCCL takes the quotes for a part of the value, remove them"]
    return []
