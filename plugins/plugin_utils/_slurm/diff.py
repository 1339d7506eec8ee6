# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Compare two versions of a Slurm file key by key and host by host."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf, hostlist

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm.conf import Line

    Values = dict[str, tuple[str, ...]]

# Lines that describe one object each, such as a partition; NodeName only for its DEFAULT line.
_NAMED_LINES = ("nodename", "nodeset", "partitionname", "downnodes", "poweraction", "name")


class Change(t.NamedTuple):
    """One key that differs: its place, its old value and its new value. None means that the key is missing."""

    key: str
    where: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        """Return the change for a message, without secrets."""
        where = f" of {self.where}" if self.where else ""
        if conf.SECRET_KEYS.search(self.key):
            return f"{self.key}{where} changed"
        if self.before is None:
            return f"{self.key}{where} added: {self.after}"
        if self.after is None:
            return f"{self.key}{where} removed: {self.before}"
        return f"{self.key}{where}: {self.before} became {self.after}"


class Difference(t.NamedTuple):
    """The differences between two versions of one file."""

    changes: list[Change]
    node_changes: list[Change]
    nodes_added: list[str]
    nodes_removed: list[str]
    removed: list[str]


def significant(text: str) -> list[str]:
    """Return the lines of a file that are not comments, without trailing blanks."""
    lines = (re.sub(r"(?:^|\s)#.*", "", line).rstrip() for line in text.splitlines())
    return [line for line in lines if line]


def compare(before: str, after: str) -> Difference:
    """Return the differences between two files of Key=Value lines."""
    old, new = _View(conf.parse(before)), _View(conf.parse(after))
    changes = list(_changed(old.top, new.top, ""))
    for name in [*old.named, *(name for name in new.named if name not in old.named)]:
        changes.extend(_changed(old.named.get(name, {}), new.named.get(name, {}), name))
    return Difference(
        changes,
        _host_changes(old, new),
        _sorted(new.hosts.keys() - old.hosts.keys()),
        _sorted(old.hosts.keys() - new.hosts.keys()),
        [name for name in old.named if name not in new.named],
    )


def _host_changes(old: _View, new: _View) -> list[Change]:
    """Return the differences of hosts that are in both files; each change is listed once for all its hosts."""
    grouped: dict[Change, list[str]] = {}
    for host in old.hosts.keys() & new.hosts.keys():
        if old.hosts[host] != new.hosts[host]:
            for change in _changed(old.host(host), new.host(host), ""):
                grouped.setdefault(change, []).append(host)
    return sorted((change._replace(where=hostlist.compress(hosts)) for change, hosts in grouped.items()), key=str)


class _View:
    """The lines of a file: keys of the whole file, keys of named objects, and keys of hosts."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.top: Values = {}
        self.named: dict[str, Values] = {}
        self.hosts: dict[str, list[dict[str, str]]] = {}
        for line in lines:
            first = line.key.lower()
            if first == "nodename" and line.value.upper() != "DEFAULT":
                for host in hostlist.expand(line.value):
                    self.hosts.setdefault(host, []).append(line.rest)
            elif first in _NAMED_LINES:
                _add_all(self.named.setdefault(f"{line.key}={line.value}", {}), {line.key: line.value, **line.rest})
            else:
                _add_all(self.top, {line.key: line.value, **line.rest})

    def host(self, name: str) -> Values:
        """Return the values of a host from all its lines."""
        values: Values = {}
        for pairs in self.hosts[name]:
            _add_all(values, pairs)
        return values


def _add_all(values: Values, pairs: dict[str, str]) -> None:
    """Add pairs; a key in several lines keeps all its values in their order."""
    for key, value in pairs.items():
        values[key.lower()] = (*values.get(key.lower(), ()), f"{key}={value}")


def _changed(old: Values, new: Values, where: str) -> Iterable[Change]:
    """Return the keys that differ between two mappings."""
    for key in [*old, *(key for key in new if key not in old)]:
        if _text(old, key) != _text(new, key):
            name = (new.get(key) or old[key])[0].partition("=")[0]
            yield Change(name, where, _text(old, key), _text(new, key))


def _text(values: Values, key: str) -> str | None:
    """Return the values of a key, or None if it is missing."""
    return ",".join(value.partition("=")[2] for value in values[key]) if key in values else None


def _sorted(names: Iterable[str]) -> list[str]:
    """Return names in natural order."""
    return sorted(names, key=hostlist.natural_key)
