# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find the faults of cluster.yml: those of the schema, and those that need several keys. Pure: data in, faults out."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import machine_names, words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import auto, records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import inventory, lines, ranges, schema
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file.schema import Fault
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import cluster, site_options

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    Data = Mapping[str, t.Any]
    Parts = tuple[t.Callable[[Data], Iterator[Fault]], ...]

_MOST = 40
_SECRET = re.compile(r"(^|_)(password|passphrase|secret|token|munge_key|private_key)$")
_VAULT = "a reference to a vault, such as '{{ vault_NAME }}', or a value with !vault"


def find(data: t.Any) -> list[Fault]:
    """Return all faults of the form, or else those between keys."""
    misshapen = [*schema.faults(data)]
    if isinstance(data, Mapping):
        misshapen += _secrets(data.get("vars"), ("vars",))
    return misshapen or _of(_PARTS, data) or _of(_LATER, data)


def _of(parts: Parts, data: Data) -> list[Fault]:
    return [fault for part in parts for fault in part(data)]


def message(faults: list[Fault], file: str, text: str) -> str:
    """Return the message for a file with faults: one line for each, with its line in the file."""
    node = lines.root(text)
    numbered = sorted((lines.line(node, fault.path), str(fault)) for fault in faults)
    shown = [f"{file}:{number}: {sentence}" for number, sentence in numbered[:_MOST]]
    return "\n".join([*shown, *filter(None, [words.more(numbered, _MOST)])])


def _machines(data: Data) -> Iterator[tuple[tuple[str, str], Data]]:
    """Yield each entry of the machines with its path."""
    for name, machine in (data.get("machines") or {}).items():
        yield ("machines", str(name)), machine


def _names(data: Data) -> Iterator[Fault]:
    """Check the ranges of names, and that no machine is listed twice."""
    entries: dict[str, str] = {}
    for path, _machine in _machines(data):
        try:
            names = ranges.names(path[1])
        except ranges.RangeError as exc:
            yield Fault(path, schema.shown(path[1]), f"a name or a range such as gpu[1-64] ({exc})")
            continue
        wrong = [name for name in names if not machine_names.usable(name, cluster.GROUP_NAMES)]
        if wrong:
            allowed = "names that are neither groups of the playbooks nor words of Ansible or Slurm, such as gpu1"
            yield Fault(path, words.listed(wrong), allowed)
        twice = [name for name in names if name in entries]
        if twice:
            other = entries[twice[0]]
            yield Fault(path, words.listed(twice), f"each machine once; machines.{other} has the same names")
        entries.update(dict.fromkeys(names, path[1]))


def _ranges(data: Data) -> Iterator[Fault]:
    """Check that the ranges of a machine fit its names: one address each, and an equal part for each rack or switch."""
    for path, machine in _machines(data):
        try:
            count = len(ranges.names(path[1]))
            found = {key: len(values) for key, (_name, values) in inventory.ranged(machine).items()}
        except ranges.RangeError as exc:
            yield Fault(path, "a range that is not valid", f"ranges such as 10.0.0.[11-14] ({exc})")
            continue
        for key, values in found.items():
            if values > count or count % values or (key == "address" and values != count):
                parts = "one for each machine" if key == "address" else "a number that divides the machines evenly"
                yield Fault((*path, key), f"{values} values for {count} machines", parts)


def _addresses(data: Data) -> Iterator[Fault]:
    """Check that no two machines have the same address."""
    owners: dict[str, str] = {}
    for path, machine in _machines(data):
        found = ranges.values(machine["address"]) if machine.get("address") else []
        twice = [one for one in found if owners.setdefault(one, path[1]) != path[1]]
        if twice:
            other = owners[twice[0]]
            yield Fault((*path, "address"), words.listed(twice), f"addresses that machines.{other} does not have")


def _no_machines(data: Data) -> Iterator[Fault]:
    """Refuse a file that forgot its machines."""
    if data.get("machines") is None and not data.get("azure"):
        allowed = "one machine or more; {} if other files of the inventory have the machines; or the key azure"
        yield Fault(("machines",), "nothing", allowed)


def _sizes(data: Data) -> Iterator[Fault]:
    places: list[tuple[schema.Path_, t.Any]] = [(("vm_size",), data.get("vm_size"))]
    places += [((*path, "vm_size"), machine.get("vm_size")) for path, machine in _machines(data)]
    for path, size in places:
        known = [auto.AUTO, *records.names()]
        if size and "{{" not in size and size.lower() not in map(str.lower, known):
            yield Fault(path, schema.shown(size), ", ".join(known), schema.nearest(size, known))


def _admins(data: Data) -> Iterator[Fault]:
    users = list(data.get("users") or {})
    for index, name in enumerate(data.get("admins") or ()):
        if name not in users:
            allowed = ", ".join(users) or "a user; the key users has none"
            yield Fault(("admins", index), schema.shown(name), allowed, schema.nearest(name, users))


def _options(data: Data) -> Iterator[Fault]:
    """Refuse a site option that no role has."""
    known = [name.removeprefix("gpucluster_") for name in site_options.ROLES]
    for name in data.get("options") or {}:
        if name not in known:
            yield Fault(("options", str(name)), "an unknown option", ", ".join(known), schema.nearest(name, known))


def _partitions(data: Data) -> Iterator[Fault]:
    """Check the nodes of the partitions, and that at most one is the default."""
    if data.get("machines") is None:
        return
    known = set(inventory.build(data).groups[inventory.GROUPS["compute"]])
    default = ""
    for name, part in (data.get("partitions") or {}).items():
        path = ("partitions", str(name))
        if "nodes" in part:
            yield from _nodes((*path, "nodes"), part["nodes"], known)
        if part.get("default") is True:
            if default:
                yield Fault((*path, "default"), "true", f"one default partition; {default} is one")
            default = default or str(name)


def _nodes(path: tuple[str, ...], given: t.Any, known: set[str]) -> Iterator[Fault]:
    text = ",".join(given) if isinstance(given, list) else given
    if text.upper() == "ALL" or "{{" in text:
        return
    try:
        wrong = [name for name in ranges.names(text) if name not in known]
    except ranges.RangeError as exc:
        yield Fault(path, schema.shown(text), f"nodes such as gpu[1-64], or ALL ({exc})")
        return
    if wrong:
        yield Fault(
            path, words.listed(wrong), "machines with the role compute, or ALL", schema.nearest(wrong[0], known)
        )


def _twice(data: Data) -> Iterator[Fault]:
    """Refuse a variable in I(vars) that a key of the file sets."""
    own = data.get("vars") or {}
    without = {key: value for key, value in data.items() if key != "vars"}
    for name in sorted(set(own) & set(inventory.build(without).variables["all"])):
        yield Fault(("vars", name), "a variable that a key of this file sets, too", "one of the two")


def _secrets(value: t.Any, path: schema.Path_) -> Iterator[Fault]:
    """Refuse a secret in clear text; a template or a vault is no secret."""
    parts = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in parts:
        inner = (*path, key if isinstance(key, int) else str(key))
        if isinstance(item, (str, int, float)) and _SECRET.search(str(key)) and item != "" and "{{" not in str(item):
            yield Fault(inner, "a secret that is not shown here", _VAULT)
        yield from _secrets(item, inner)


def _secrets_of_parts(data: Data) -> Iterator[Fault]:
    """Check for secrets outside of I(vars), such as keys of slurm.conf and variables of machines."""
    for key in ("machines", "slurm", "azure"):
        yield from _secrets(data.get(key), (key,))


_PARTS: Parts = (
    _names,
    _ranges,
    _no_machines,
    _sizes,
    _admins,
    _options,
    _secrets_of_parts,
)
# These need names and addresses without faults.
_LATER: Parts = (_addresses, _partitions, _twice)
