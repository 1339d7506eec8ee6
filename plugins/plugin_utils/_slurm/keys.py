# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the keys of the configuration files of Slurm from keys.yml."""

from __future__ import annotations

import functools
import typing as t
from pathlib import Path

import yaml

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import release

# The first key of lines that have several keys; each kind of line has its own table.
LINE_KEYS = ("NodeName", "NodeSet", "PartitionName", "DownNodes", "PowerAction")

_TABLE = Path(__file__).with_name("keys.yml")


class Key(t.NamedTuple):
    """One key that Slurm reads."""

    name: str
    type: str
    since: str = ""
    until: str = ""
    defunct: str = ""
    choices: tuple[str, ...] = ()

    def unread(self, version: str) -> str:
        """Return why a version does not use the key; empty if it does."""
        series = release.parse(version).series
        if self.since and series < release.parse(self.since).series:
            return f"Slurm reads it from {self.since} on"
        if self.until and series > release.parse(self.until).series:
            return f"Slurm read it up to {self.until}"
        if self.defunct and series >= release.parse(self.defunct).series:
            return f"Slurm ignores it from {self.defunct} on"
        return ""


@functools.cache
def tables() -> dict[str, dict[str, Key]]:
    """Return the keys by table and by name in lower case, because Slurm ignores case."""
    loaded = yaml.load(_TABLE.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    return {table: {name.lower(): _key(name, entry) for name, entry in keys.items()} for table, keys in loaded.items()}


def table(file: str, line_key: str = "") -> dict[str, Key]:
    """Return the keys of a file, or of one kind of line in it; empty if the file is not listed."""
    return tables().get(f"{file} {line_key}" if line_key else file, {})


def line_key(name: str) -> str:
    """Return the spelling in slurm.conf of a key that starts a line with several keys; empty for any other key."""
    return {key.lower(): key for key in LINE_KEYS}.get(name.lower(), "")


def _key(name: str, entry: t.Any) -> Key:
    """Return one entry of the table."""
    if isinstance(entry, str):
        return Key(name, entry)
    return Key(name, **{**entry, "choices": tuple(entry.get("choices", ()))})
