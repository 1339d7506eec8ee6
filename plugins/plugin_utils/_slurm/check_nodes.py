# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Compare the lines of nodes with the hardware records, as slurmctld compares them with what slurmd reports.

Slurm drains a node that reports less than its line, or GPUs of another type. A line with less than the record is valid.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import conf

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Line = Mapping[str, t.Any]
    Record = dict[str, t.Any]

# gpu:8, gpu:h100:8, gpu:1g.10gb+me:8, gpu:h100:8(S:0-1), gpu. A number alone is a count; before a count, it is a type.
_GRES = re.compile(
    r"(?P<name>[^:,()]+)(?::(?P<type>[^:,()]+?))??(?::(?P<count>\d+)(?P<unit>[KkMmGgTtPp]?))?(?:\(S:[^)]*\))?\Z"
)
_ITEMS = re.compile(r",(?![^(]*\))")
_UNITS = " KMGTP"
# A profile of MIG, such as 1g.10gb, also after a model: h100_1g.10gb.
_SLICE = re.compile(r"(?:^|_)\d+g\.\d+gb")
_NUMBER = re.compile(r"(\d+|0x[0-9a-f]+)(k?)\Z", re.IGNORECASE)
_INFINITE = ("infinite", "unlimited")


class Gres(t.NamedTuple):
    """One item of the value of Gres."""

    text: str
    name: str
    type: str
    number: int


@dataclasses.dataclass
class Offer:
    """What Slurm can give to jobs on the nodes of a line."""

    cpus: int
    memory: int


def gres(value: t.Any) -> Iterator[Gres | str]:
    """Return each item of the value of Gres; an item that Slurm cannot read remains text."""
    for item in filter(None, _ITEMS.split(conf.value_text("Gres", value or ""))):
        match = _GRES.match(item.replace(":no_consume", ""))
        if not match:
            yield item
            continue
        unit = 1024 ** _UNITS.index((match["unit"] or " ").upper())
        yield Gres(item, match["name"], match["type"] or "", int(match["count"] or 1) * unit)


def type_problems(items: list[Gres], record: Record) -> list[str]:
    """Return the GPUs of a line that gres.conf of the collection does not have; Slurm compares types by letter."""
    known = hardware_record.gres_counts(record)
    right = sum(known.values())
    typed = ",".join(f"gpu:{kind}:{count}" for kind, count in known.items())
    found = []
    for item in items:
        if item.name != "gpu" or not item.type or not right or item.type in known:
            continue
        why = (
            "slices (MIG) need gpus.mig in the hardware record, such as {1g.10gb: 56}; docs/gpu.md shows it"
            if _SLICE.search(item.type) and not record["gpus"].get("mig")
            else "Slurm compares letter by letter, and would drain the node"
        )
        found.append(
            f"Gres {item.text!r} has the type {item.type}, gres.conf has {', '.join(known)}: {why}. Allowed:"
            f" gpu:{right}, {typed}"
        )
    if len({bool(item.type) for item in items if item.name == "gpu"}) > 1 and not found:
        found.append(f"Gres has gpu with and without a type, so slurmd would not start. Allowed: {typed}")
    return found or slice_problems(items, record) or count_problems(items, right)


def slice_problems(items: list[Gres], record: Record) -> list[str]:
    """Return the types of slices of which a line has another number than the record."""
    slices = record["gpus"].get("mig") or {}
    typed = [item for item in items if item.name == "gpu" and item.type]
    if not slices or not typed:
        return []
    counts = {kind: sum(item.number for item in typed if item.type == kind) for kind in slices}
    return [
        f"Gres says {counts[kind]} of {kind}, gpus.mig of the hardware record says {count}"
        for kind, count in slices.items()
        if counts[kind] != count
    ]


def count_problems(items: list[Gres], right: int) -> list[str]:
    """Return whether a line has another number of GPUs."""
    count = sum(item.number for item in items if item.name == "gpu")
    return [f"Gres says {count} GPUs, the hardware catalogue says {right}"] if count != right else []


def size_problems(line: Line, record: Record, config: Line) -> list[str]:
    """Return each figure of a line that is more than the machine has. The keys of both mappings are in lower case."""
    if "config_overrides" in _parameters(config, "slurmdparameters"):
        return []
    cpus, cores = hardware_record.cpu_count(record), hardware_record.core_count(record)
    sockets = _sockets(line)
    per_socket, threads = _of(line, "corespersocket", 1), _of(line, "threadspercore", 1)
    memory = int(record["memory_mib"] * 100 / _registered_percent(config))
    product = f"{sockets} sockets with {per_socket} cores"
    return [
        *_above("RealMemory", _of(line, "realmemory"), memory, "MiB"),
        *_above("CPUs", _of(line, "cpus"), cpus, "CPUs"),
        *_above("ThreadsPerCore", threads, int(record["cpus"]["threads_per_core"]), "threads"),
        *_above(f"CoresPerSocket ({product})", sockets * per_socket, cores, "cores"),
        *_reserved(line, "MemSpecLimit", _of(line, "realmemory"), "MiB of RealMemory"),
        *_reserved(line, "CoreSpecCount", sockets * per_socket if sockets * per_socket > 1 else cores, "cores"),
    ]


def offer(line: Line) -> Offer:
    """Return the CPUs and the MiB that jobs can have on a node of a line with keys in lower case."""
    cpus = _sockets(line) * _of(line, "corespersocket", 1) * _of(line, "threadspercore", 1)
    return Offer(_of(line, "cpus", cpus), _of(line, "realmemory", 1) - _of(line, "memspeclimit"))


def number(value: t.Any) -> int | None:
    """Return a number as Slurm reads it; None for infinite, for no value, and for what the check of keys refuses."""
    match = _NUMBER.match(str(value).strip())
    if conf.is_absent(value) or not match:
        return None
    return int(match[1], 0 if match[1].lower().startswith("0x") else 10) * (1024 if match[2] else 1)


def _sockets(line: Line) -> int:
    """Return the sockets of a node. SocketsPerBoard counts for each board."""
    if number(line.get("socketsperboard")) is not None:
        return _of(line, "socketsperboard") * _of(line, "boards", 1)
    return _of(line, "sockets", 1)


def _of(line: Line, key: str, default: int = 0) -> int:
    value = line.get(key)
    if str(value).lower() in _INFINITE:
        return 1 << 63
    found = number(value)
    return default if found is None else found


def _above(what: str, given: int, most: int, unit: str) -> list[str]:
    if given <= most:
        return []
    return [
        f"{what} is {given}, the hardware record has {most} {unit}. Slurm would drain the node. Allowed: up to {most}"
    ]


def _reserved(line: Line, key: str, whole: int, of: str) -> list[str]:
    given = _of(line, key.lower())
    if not given or given < whole:
        return []
    return [f"{key} is {given}, but there are {whole} {of}. Slurm would ignore it. Allowed: less than {whole}"]


def _registered_percent(config: Line) -> float:
    """Return how much of RealMemory a node must have."""
    text = _parameters(config, "slurmctldparameters").get("node_reg_mem_percent", "")
    try:
        return min(max(float(text), 1.0), 100.0)
    except ValueError:
        return 100.0


def _parameters(config: Line, key: str) -> dict[str, str]:
    """Return the parameters of one key by name."""
    items = conf.value_text(key, config.get(key) or "").split(",")
    return {name.strip().lower(): value for name, _sign, value in (item.partition("=") for item in items)}
