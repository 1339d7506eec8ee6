# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Derive values from a hardware record: cores and CPU ids of NUMA nodes, masks, and Slurm's names for them.

Never mix the two numberings. Slurm and hwloc count cores logically: core by core, NUMA node by NUMA node, so NUMA node
N always has one block. Linux numbers CPUs in the order of the firmware. Usually that is the first thread of every core
in that order, then the second threads (V(block)). On some servers it alternates between the NUMA nodes
(V(round_robin)).
"""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    Record = dict[str, t.Any]

# GB/s of one NVLink in one direction by the beginning of the model, and of one PCIe lane by generation: data sheets.
_NVLINK = {"V100": 25.0, "A100": 25.0, "H100": 25.0, "H200": 25.0}
_NEWER_NVLINK = 50.0
_LANE = {1: 0.25, 2: 0.5, 3: 1.0, 4: 2.0, 5: 4.0, 6: 8.0}
# A switch that reduces carries each byte once, and the bus bandwidth counts it twice.
_IN_SWITCH = 2
# GB/s that no path reaches today: 18 NVLinks of the fifth generation with a reducing switch, and in one direction the
# NVLink between a Grace CPU and its GPU.
FASTEST_BUS, FASTEST_COPY = _IN_SWITCH * 18 * _NEWER_NVLINK, 450.0


def core_count(record: Record) -> int:
    """Return the number of cores of the machine."""
    return int(record["cpus"]["sockets"] * record["cpus"]["cores_per_socket"])


def cpu_count(record: Record) -> int:
    """Return the number of CPUs, threads included."""
    return core_count(record) * int(record["cpus"]["threads_per_core"])


def numa_cores(record: Record, node: int) -> list[int]:
    """Return the logical cores of a NUMA node."""
    per_node = core_count(record) // int(record["numa_nodes"])
    return list(range(node * per_node, (node + 1) * per_node))


def cpu_ids(record: Record, cores: Iterable[int], threads: int | None = None) -> list[int]:
    """Return the Linux CPU ids of logical cores, for all threads or the given number of threads per core."""
    nodes, total = int(record["numa_nodes"]), core_count(record)
    per_node = total // nodes
    first = list(cores)
    if record["cpus"].get("numbering") == "round_robin":
        first = [core % per_node * nodes + core // per_node for core in first]
    count = int(record["cpus"]["threads_per_core"]) if threads is None else threads
    return sorted(core + thread * total for thread in range(count) for core in first)


def numa_cpus(record: Record, node: int) -> list[int]:
    """Return the Linux CPU ids of a NUMA node."""
    return cpu_ids(record, numa_cores(record, node))


def slurm_sockets(record: Record) -> int:
    """Return the number of sockets for Slurm, which treats several NUMA nodes in a socket as sockets."""
    return max(int(record["cpus"]["sockets"]), int(record["numa_nodes"]))


def gpu_cores(record: Record, gpu: Record) -> list[int]:
    """Return the logical cores local to a GPU, extended to whole sockets as Slurm sees them."""
    near = numa_cores(record, gpu["numa_node"])
    per_socket = core_count(record) // slurm_sockets(record)
    start = near[0] // per_socket * per_socket
    end = -(-(near[-1] + 1) // per_socket) * per_socket
    return list(range(start, end))


def gres_type(record: Record) -> str:
    """Return the model of the GPUs as Slurm writes a GRES type."""
    return str(record["gpus"]["model"]).lower().replace(" ", "_")


def gres_counts(record: Record) -> dict[str, int]:
    """Return the GPUs of a machine, or the MIG slices that they are divided into, by Slurm's type."""
    gpus = record["gpus"]
    if gpus.get("mig"):
        return {str(profile): int(count) for profile, count in gpus["mig"].items()}
    return {gres_type(record): int(gpus["count"])} if gpus["count"] else {}


def mask(cpus: Iterable[int]) -> int:
    """Return the bit mask of CPU ids."""
    return sum(1 << cpu for cpu in set(cpus))


def hex_mask(cpus: Iterable[int]) -> str:
    """Return a mask in the form of srun's C(--cpu-bind=mask_cpu)."""
    return hex(mask(cpus))


def kernel_mask(cpus: Iterable[int], total: int) -> str:
    """Return a mask in the form of the kernel and NCCL: groups of 32 bits with leading zeros, the highest first."""
    bits = mask(cpus)
    groups = -(-total // 32)
    return ",".join(f"{bits >> 32 * group & 0xFFFFFFFF:08x}" for group in reversed(range(groups)))


def ranges(numbers: Iterable[int]) -> str:
    """Return numbers as a list of ranges, such as V(0-23,48)."""
    parts: list[list[int]] = []
    for number in sorted(set(numbers)):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ",".join(str(start) if start == end else f"{start}-{end}" for start, end in parts)


def parse_ranges(text: str) -> list[int]:
    """Return the numbers of a list of ranges in the kernel's form. Raise ValueError for any other form."""
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        start, _dash, end = part.partition("-")
        low, high = int(start), int(end or start)
        if not 0 <= low <= high < 1 << 16:
            raise ValueError(f"not a range of CPUs: {part!r}")
        numbers.update(range(low, high + 1))
    return sorted(numbers)


def most(record: t.Mapping[str, t.Any]) -> float | None:
    """Return a bus bandwidth in GB/s above all that nodes of a record can reach; None if their paths are not known."""
    gpus, fabric = record.get("gpus") or {}, record.get("infiniband") or {}
    link = next((rate for name, rate in _NVLINK.items() if str(gpus.get("model")).startswith(name)), _NEWER_NVLINK)
    paths = [
        int(gpus.get("nvlinks") or 0) * link,
        _pcie(gpus),
        len(fabric.get("hcas") or ()) * int(fabric.get("rate_gbps") or 0) / 8,
    ]
    # Without NVLink, the path of GPUs is PCIe: it must be known.
    return _IN_SWITCH * max(paths) if any(paths[:2]) else None


def most_copies(record: t.Mapping[str, t.Any]) -> float:
    """Return a bandwidth in GB/s above all copies between the host and one GPU of a record."""
    grace = (record.get("cpus") or {}).get("architecture") == "aarch64"
    return FASTEST_COPY if grace else _pcie(record.get("gpus") or {}) or FASTEST_COPY


def _pcie(gpus: t.Mapping[str, t.Any]) -> float:
    """Return the bandwidth of the PCIe link of a GPU in GB/s; 0 if it is not known."""
    return _LANE.get(int(gpus.get("pcie_generation") or 0), 0.0) * int(gpus.get("pcie_width") or 16)
