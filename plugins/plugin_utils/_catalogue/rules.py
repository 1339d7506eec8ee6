# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Rules between the keys of a hardware record, in addition to the type of each key."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    Record = dict[str, t.Any]

PCI_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Bandwidth of one lane in 10**9 bytes per second, by generation.
_PCIE_GBPS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.97, 5: 3.94, 6: 7.88}
# The name of a MIG profile: 1g.10gb, 1g.10gb+me, 1c.3g.20gb. A GPU has seven parts at most.
_PROFILE = re.compile(r"(?P<compute>\d+c\.)?(?P<slices>[1-7])g\.\d+gb(?:\+[a-z0-9.]+)*")
_MIG_MOST = 7
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def problems(record: Record) -> list[str]:
    """Return the faults of a record that matches its argument spec; an empty list means that it is valid."""
    return [text for rule in _RULES for text in rule(record)]


def _numbers(record: Record) -> Iterator[str]:
    cpus = record["cpus"]
    for name in ("sockets", "cores_per_socket", "threads_per_core"):
        if cpus[name] < 1:
            yield f"cpus.{name} is {cpus[name]}, it must be at least 1"
    for name in ("numa_nodes", "memory_mib"):
        if record[name] < 1:
            yield f"{name} is {record[name]}, it must be at least 1"
    cores = cpus["sockets"] * cpus["cores_per_socket"]
    if record["numa_nodes"] > 0 and cores % record["numa_nodes"]:
        yield f"numa_nodes is {record['numa_nodes']}, which does not divide the {cores} cores of cpus"


def _gpus(record: Record) -> Iterator[str]:
    gpus = record["gpus"]
    if gpus["count"] < 0:
        yield f"gpus.count is {gpus['count']}, it must be 0 or more"
    if gpus["count"] > 0:
        for name in ("model", "memory_mib"):
            if not gpus.get(name):
                yield f"gpus.{name} is missing; only a record with gpus.count 0 may omit it"


def _mig(record: Record) -> Iterator[str]:
    slices, gpus = record["gpus"].get("mig") or {}, record["gpus"]["count"]
    parts = 0
    for profile, count in slices.items():
        match = _PROFILE.fullmatch(str(profile))
        if not match:
            yield f"gpus.mig has {profile!r}, it must be a profile of nvidia-smi mig -lgip, such as 1g.10gb"
        elif isinstance(count, bool) or not isinstance(count, int) or count < 1:
            yield f"gpus.mig.{profile} is {count!r}, it must be the number of these slices on the node, 1 or more"
        else:
            # Compute instances (1c.) share the slices of their GPU instance.
            parts += 0 if match["compute"] else int(match["slices"]) * count
        # Slurm finds the type of a slice by a part of its name.
        yield from (
            f"gpus.mig: Slurm cannot tell {profile} from {one}"
            for one in slices
            if profile != one and str(profile) in str(one)
        )
    if parts > _MIG_MOST * gpus:
        yield f"gpus.mig needs {parts} parts of GPUs, and {gpus} GPUs have {_MIG_MOST * gpus}"


def _topology(record: Record) -> Iterator[str]:
    topology, count = record["topology"], record["gpus"]["count"]
    indexes = [gpu["index"] for gpu in topology]
    if topology and sorted(indexes) != list(range(count)):
        yield f"topology has the GPU indexes {indexes}, with gpus.count {count} it needs each of 0 to {count - 1} once"
    for gpu in topology:
        if not 0 <= gpu["numa_node"] < record["numa_nodes"]:
            yield (
                f"topology: GPU {gpu['index']} has numa_node {gpu['numa_node']}, "
                f"with numa_nodes {record['numa_nodes']} it must be 0 to {record['numa_nodes'] - 1}"
            )


def _addresses(record: Record) -> Iterator[str]:
    seen: dict[str, int] = {}
    for gpu in record["topology"]:
        for key in ("pci", "hca_pci"):
            address = gpu.get(key)
            if address is None:
                continue
            if not PCI_ADDRESS.fullmatch(address):
                yield (
                    f"topology: GPU {gpu['index']} has {key} {address!r}, it must look like '0001:00:00.0': "
                    "four, two, two digits and one, lower case, and in quotes, or YAML reads a number"
                )
            elif address in seen:
                yield f"topology: {address} is used by GPU {seen[address]} and by GPU {gpu['index']}"
            seen[address] = gpu["index"]


def _infiniband(record: Record) -> Iterator[str]:
    rate, hcas = record["infiniband"]["rate_gbps"], record["infiniband"]["hcas"]
    if bool(rate) != bool(hcas):
        yield f"infiniband has rate_gbps {rate} and {len(hcas)} hcas; give both, or leave infiniband out"
    for gpu in record["topology"]:
        if gpu.get("hca") and gpu["hca"] not in hcas:
            yield f"topology: GPU {gpu['index']} has hca {gpu['hca']!r}, which is not one of infiniband.hcas {hcas}"
    if len(hcas) >= record["gpus"]["count"]:
        yield from _shared_adapters(record["topology"])


def _shared_adapters(topology: list[Record]) -> Iterator[str]:
    """Refuse two GPUs on one adapter if each GPU has an adapter: half of the fabric would be idle."""
    seen: dict[str, int] = {}
    for gpu in topology:
        if gpu.get("hca") in seen:
            yield (
                f"topology: GPU {seen[gpu['hca']]} and GPU {gpu['index']} both have hca {gpu['hca']!r}, "
                "there is an adapter for each"
            )
        elif gpu.get("hca"):
            seen[gpu["hca"]] = gpu["index"]


def _nccl(record: Record) -> Iterator[str]:
    without = [gpu["index"] for gpu in record["topology"] if not gpu.get("pci")]
    if record["nccl"]["topology_file"] and (without or not record["topology"]):
        yield "nccl.topology_file is true, so topology needs an entry with pci for every GPU"
    for name in record["nccl"]["environment"]:
        if not str(name).startswith("NCCL_") or not _VARIABLE.fullmatch(str(name)):
            yield f"nccl.environment has {name!r}, it may hold variables of NCCL alone; put others under environment"
    for name in record["environment"]:
        if not _VARIABLE.fullmatch(str(name)):
            yield f"environment has {name!r}, which is no name of a variable"


def _links(record: Record) -> Iterator[str]:
    """Refuse a threshold that no machine can reach: every machine would fail."""
    gpus, rate = record["gpus"], record["infiniband"]["rate_gbps"]
    lane = _PCIE_GBPS.get(gpus.get("pcie_generation", 0))
    most = {"ib_write_bw_gbitps": rate or None}
    for name in ("host_to_device_gbps", "device_to_host_gbps"):
        most[name] = lane and lane * gpus["pcie_width"]
    for name, limit in most.items():
        for level, value in record["thresholds"].get(name, {}).items():
            if limit and value > limit:
                yield f"thresholds.{name} has {level} {value:g}, but the link carries no more than {limit:g}"


def _thresholds(record: Record) -> Iterator[str]:
    for name, levels in record["thresholds"].items():
        given = [(level, levels[level]) for level in ("fail", "warn", "expected") if level in levels]
        if not given:
            yield f"thresholds.{name} is empty; give expected, warn or fail, or omit it"
        values = [value for _level, value in given]
        if values != sorted(values):
            yield f"thresholds.{name} is {dict(given)}: fail must be the lowest, then warn, then expected"


_RULES = (_numbers, _gpus, _mig, _topology, _addresses, _infiniband, _nccl, _thresholds, _links)
