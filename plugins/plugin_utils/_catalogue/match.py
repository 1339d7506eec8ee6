# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Find the VM size of a machine by its hardware. Pure: data in, data out.

A size fits only if everything fits. So a machine that lost a GPU gets no size, and not that of a smaller machine.
"""

from __future__ import annotations

import functools
import re
import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Machine = Mapping[str, t.Any]
    Record = Mapping[str, t.Any]

FILE = Path(__file__).with_name("gpus.yml")
# Sizes of containers, which no hardware has.
_LAB = ("lab", "simulated_h100")


class Match(t.NamedTuple):
    """The VM size that fits a machine; or none, with the nearest one and how the machine differs from it."""

    size: str
    nearest: str
    differences: list[str]

    @property
    def problem(self) -> str:
        """Return why no size fits, or an empty string."""
        return "" if self.size else f"no size fits; the nearest is {self.nearest}, but {', '.join(self.differences)}"


@functools.cache
def gpus() -> dict[str, dict[str, t.Any]]:
    """Return model and memory in MiB by PCI device id."""
    return dict(yaml_load(FILE.read_text(encoding="utf-8")))


def find(machine: Machine, sizes: Mapping[str, Record] | None = None) -> Match:
    """Return the VM size of a machine as C(look.read) describes it."""
    known = records.load() if sizes is None else sizes
    judged = [
        (sum(weight for weight, _text in faults), *_tie(machine, record), [text for _weight, text in faults])
        for name, record in sorted(known.items())
        if name not in _LAB
        for faults in [list(_differences(machine, record))]
    ]
    _weight, _other, name, texts = min(judged)
    return Match("" if texts else str(name), str(name), texts)


def _tie(machine: Machine, record: Record) -> tuple[bool, str]:
    """Return what decides between equally near sizes: the product that the firmware names, and then the name."""
    product, name = (re.sub(r"[^a-z0-9]", "", str(text).lower()) for text in (machine["product"], record["name"]))
    return name not in product, str(record["name"])


def _differences(machine: Machine, record: Record) -> Iterator[tuple[float, str]]:
    """Yield each difference with its weight: the kind of GPU says most about a size."""
    yield from _gpus(machine, record)
    cpus = record["cpus"]
    wanted = cpus["sockets"] * cpus["cores_per_socket"] * cpus["threads_per_core"]
    yield from _number(2, "CPUs", machine["cpus"], wanted)
    yield from _number(1, "NUMA nodes", machine["numa_nodes"], record["numa_nodes"])
    yield from _at_least("NVMe drives", machine["nvme"], record["nvme"]["count"])
    yield from _at_least("RDMA adapters", machine["hcas"], len(record["infiniband"]["hcas"]))
    if machine["architecture"] != cpus["architecture"]:
        yield 4, f"it has {machine['architecture']} instead of {cpus['architecture']}"
    tolerance = record["memory_mib"] * record["memory_tolerance_percent"] / 100
    if abs(machine["memory_mib"] - record["memory_mib"]) > tolerance:
        yield 2, f"it has {machine['memory_mib'] // 1024} GiB of memory instead of {record['memory_mib'] // 1024}"


def _gpus(machine: Machine, record: Record) -> Iterator[tuple[float, str]]:
    wanted, kinds = record["gpus"], machine["gpus"]
    names = {_named(number) for number in kinds}
    expected = (str(wanted.get("model", "")), int(wanted.get("memory_mib", 0)))
    if kinds and names != {expected}:
        related = any(model.partition(" ")[0] == expected[0].partition(" ")[0] for model, _memory in names)
        found = " and ".join(
            sorted(f"{model} with {memory // 1024} GiB" if memory else model for model, memory in names)
        )
        yield 3 if related else 4, f"its GPUs are {found} instead of {expected[0]} with {expected[1] // 1024} GiB"
    count = sum(kinds.values())
    # A number that is nearly right is nearer than another.
    distance = min(abs(count - wanted["count"]), 8) / 8
    yield from _number(2 + distance + (3 if not kinds else 0), "GPUs", count, wanted["count"])


def _named(number: str) -> tuple[str, int]:
    """Return model and memory of a PCI device id; an unknown one is its own name."""
    known = gpus().get(number)
    return (str(known["model"]), int(known["memory_mib"])) if known else (f"10de:{number}, which is unknown", 0)


def _number(weight: float, what: str, found: int, wanted: int) -> Iterator[tuple[float, str]]:
    if found != wanted:
        yield weight, f"it has {found} {what} instead of {wanted}"


def _at_least(what: str, found: int, wanted: int) -> Iterator[tuple[float, str]]:
    """Allow more than a record names: drives of the system and adapters for storage are additional."""
    if found < wanted:
        yield 1, f"it has {found} {what} instead of {wanted}"
