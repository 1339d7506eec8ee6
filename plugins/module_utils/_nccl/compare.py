# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Compare a topology file with the running machine."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import judge

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware.machine import Device, Machine
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl.topology_xml import Element


class Difference(t.NamedTuple):
    """The differences. O(foreign) is true if the file belongs to another type of machine."""

    texts: list[str]
    foreign: bool


def compare(system: Element, machine: Machine, exclude: Sequence[str] = ()) -> Difference:
    """Return the differences between a topology and a machine. Skip values that the machine does not show."""
    listed = judge.devices(system)
    texts = [
        *_presence("GPU", [gpu for gpu in machine.gpus if gpu.address not in exclude], listed, judge.is_gpu),
        *_presence("adapter", [hca for hca in machine.hcas if hca.address not in exclude], listed, judge.is_nic),
        *_places(listed, {bus: device.numa_node for bus, device in machine.devices.items()}),
        *_masks(system, machine.numa, machine.online),
    ]
    gpus = {gpu.address for gpu in machine.gpus}
    wanted = {bus for bus, (pci, _cpu) in listed.items() if judge.is_gpu(pci)}
    return Difference(texts, foreign=bool(gpus) and bool(wanted) and not gpus & wanted)


def deviations(system: Element, devices: Mapping[str, int], cpus: Mapping[int, Sequence[int]]) -> list[str]:
    """Return the deviations of a topology from the NUMA node of each device and the CPUs of each NUMA node."""
    listed = judge.devices(system)
    return [
        *(f"{bus} is not in the file" for bus in sorted(devices) if bus not in listed),
        *_places(listed, devices),
        *_masks(system, cpus, [cpu for node in cpus.values() for cpu in node]),
    ]


def _presence(
    kind: str,
    present: list[Device],
    listed: dict[str, tuple[Element, Element]],
    of_kind: t.Callable[[Element], bool],
) -> Iterator[str]:
    if not present:
        return
    addresses = [device.address for device in present]
    wanted = [bus for bus, (pci, _cpu) in listed.items() if of_kind(pci)]
    for address in addresses:
        if address not in listed:
            yield f"{kind} {address} of the machine is not in the file: NCCL puts it beside no NUMA node"
    for bus in wanted:
        if bus not in addresses:
            yield f"{kind} {bus} of the file is not in the machine"


def _places(listed: dict[str, tuple[Element, Element]], nodes: Mapping[str, int]) -> Iterator[str]:
    for bus, (_pci, cpu) in listed.items():
        node = nodes.get(bus, -1)
        if node >= 0 and str(node) != cpu.get("numaid"):
            yield f"{bus} is at NUMA node {node}, the file has it at node {cpu.get('numaid')}"


def _masks(system: Element, numa: Mapping[int, Sequence[int]], online: Iterable[int]) -> Iterator[str]:
    covered = 0
    for cpu in (child for child in system.children if child.name == "cpu"):
        bits = judge.mask_bits(cpu.get("affinity") or "") or 0
        covered |= bits
        node = cpu.get("numaid") or ""
        cpus = numa.get(int(node)) if node.isdigit() else None
        if cpus and bits and bits != record.mask(cpus):
            yield (
                f"NUMA node {node} has the CPUs {record.ranges(cpus)}, "
                f"the file says {record.ranges(number for number in range(bits.bit_length()) if bits >> number & 1)}"
            )
    left = [number for number in online if not covered >> number & 1]
    if covered and left:
        yield f"the CPUs {record.ranges(left)} of the machine belong to no NUMA node of the file"
