# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check the options of the Slurm plugin pyxis for each release, and write them for plugstack.conf."""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

_TABLE = Path(__file__).with_name("pyxis_options.yml")
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)\Z")

Version = tuple[int, ...]


class PyxisError(ValueError):
    """A string that is not a release of pyxis."""


@functools.cache
def _table() -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", yaml_load(_TABLE.read_text(encoding="utf-8")))


def parse_version(text: t.Any) -> Version:
    """Return a release as numbers."""
    match = _VERSION.match(str(text))
    if not match:
        raise PyxisError(f"{text!r} is no release of pyxis; expected one such as '{_table()['newest']}'")
    return tuple(int(part) for part in match.groups())


def arguments(options: t.Mapping[str, t.Any]) -> list[str]:
    """Return the arguments of the plugin in plugstack.conf; options that are null are omitted."""
    return [f"{name}={_word(value)}" for name, value in options.items() if value is not None]


def problems(options: t.Mapping[str, t.Any], version: t.Any) -> list[str]:
    """Return the options that the release would refuse; empty if it accepts all."""
    try:
        release = parse_version(version)
    except PyxisError as exc:
        return [str(exc)]
    oldest = _table()["oldest"]
    if release < parse_version(oldest):
        return [f"pyxis {version} is older than {oldest}, the first release with options"]
    return [
        fault
        for name, value in options.items()
        if value is not None
        for fault in (_unknown(name, version, release) or _wrong(name, value))
    ]


def _known(release: Version) -> list[str]:
    return [
        name
        for name, option in _table()["options"].items()
        if parse_version(option["since"]) <= release <= parse_version(option.get("until", "999.0.0"))
    ]


def _unknown(name: str, version: t.Any, release: Version) -> list[str]:
    """Return a message if a release does not know an option; releases newer than the table may know more."""
    newer = release > parse_version(_table()["newest"]) and name not in _table()["options"]
    if newer or name in _known(release):
        return []
    return [f"{name} is no option of pyxis {version}, which knows {', '.join(_known(release))}"]


def _wrong(name: str, value: t.Any) -> list[str]:
    """Return a message if an option does not accept a value."""
    kind = _table()["options"].get(name, {}).get("type", "word")
    if isinstance(kind, list):
        right, wanted = value in kind, " or ".join(kind)
    elif kind == "bool":
        right, wanted = isinstance(value, bool), "true or false"
    elif kind == "path":
        right, wanted = bool(re.fullmatch(r"/[^\s#]*", str(value))), "an absolute path without blanks"
    else:
        right, wanted = bool(re.fullmatch(r"[^\s#]+", _word(value))), "one word"
    return [] if right else [f"{name} is {value!r}, and has to be {wanted}"]


def _word(value: t.Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)
