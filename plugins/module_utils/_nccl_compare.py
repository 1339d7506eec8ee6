# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Where a topology file and the running machine differ."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils import _hardware, _nccl_judge

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._machine import Device, Machine
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl_xml import Element


class Difference(t.NamedTuple):
    """What differs; O(foreign) is true if the file is that of another kind of machine."""

    texts: list[str]
    foreign: bool


def compare(system: Element, machine: Machine, exclude: Sequence[str] = ()) -> Difference:
    """Return where a topology and a machine differ; nothing is said about what the machine does not show."""
    listed = _nccl_judge.devices(system)
    texts = [
        *_presence("GPU", [gpu for gpu in machine.gpus if gpu.address not in exclude], listed, _nccl_judge.is_gpu),
        *_presence("adapter", [hca for hca in machine.hcas if hca.address not in exclude], listed, _nccl_judge.is_nic),
        *_places(listed, machine),
        *_masks(system, machine),
    ]
    gpus = {gpu.address for gpu in machine.gpus}
    wanted = {bus for bus, (pci, _cpu) in listed.items() if _nccl_judge.is_gpu(pci)}
    return Difference(texts, foreign=bool(gpus) and bool(wanted) and not gpus & wanted)


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


def _places(listed: dict[str, tuple[Element, Element]], machine: Machine) -> Iterator[str]:
    for bus, (_pci, cpu) in listed.items():
        device = machine.devices.get(bus)
        if device and device.numa_node >= 0 and str(device.numa_node) != cpu.get("numaid"):
            yield f"{bus} is at NUMA node {device.numa_node}, the file has it at node {cpu.get('numaid')}"


def _masks(system: Element, machine: Machine) -> Iterator[str]:
    covered = 0
    for cpu in (child for child in system.children if child.name == "cpu"):
        bits = _nccl_judge.mask_bits(cpu.get("affinity") or "") or 0
        covered |= bits
        node = cpu.get("numaid") or ""
        cpus = machine.numa.get(int(node)) if node.isdigit() else None
        if cpus and bits and bits != _hardware.mask(cpus):
            yield (
                f"NUMA node {node} has the CPUs {_hardware.ranges(cpus)}, "
                f"the file says {_hardware.ranges(number for number in range(bits.bit_length()) if bits >> number & 1)}"
            )
    left = [number for number in machine.online if not covered >> number & 1]
    if covered and left:
        yield f"the CPUs {_hardware.ranges(left)} of the machine belong to no NUMA node of the file"
