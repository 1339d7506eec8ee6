# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Build the topology file for NCCL from a hardware record or from the running machine."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import judge
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl.topology_xml import Element, serialize

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware.machine import Device, Machine

    Record = dict[str, t.Any]

_RATES = ("2.5", "5.0", "8.0", "16.0", "32.0", "64.0")
_SPEEDS = {generation: f"{rate} GT/s PCIe" for generation, rate in enumerate(_RATES, 1)}
_GPU, _HCA, _BRIDGE = "0x030200", "0x020700", "0x060400"


class TopologyError(ValueError):
    """The input is not sufficient for a topology. The message names the missing values."""


class Leaf(t.NamedTuple):
    """One GPU or adapter, and the bridges above it."""

    address: str
    pci_class: str
    speed: str
    width: int
    numa_node: int
    bridges: tuple[str, ...]


class Processor(t.NamedTuple):
    """The content of the cpu elements."""

    masks: dict[int, str]
    attributes: list[tuple[str, str]]


def from_record(record: Record) -> str:
    """Return the topology file of a hardware record. Raise TopologyError if values are missing."""
    without = [gpu["index"] for gpu in record["topology"] if not gpu.get("pci")]
    if not record["topology"] or without:
        which = f"GPUs {without}" if without else "any GPU"
        raise TopologyError(
            f"the record of {record['name']} has no PCI address (pci in topology) for {which}: "
            "generate from the machine, or give a record that has them"
        )
    speed = _SPEEDS.get(record["gpus"].get("pcie_generation", 0))
    if not speed:
        raise TopologyError(f"the record of {record['name']} has no gpus.pcie_generation from 1 to {len(_SPEEDS)}")
    width = int(record["gpus"].get("pcie_width", 16))
    leaves = []
    for key, pci_class in (("pci", _GPU), ("hca_pci", _HCA)):
        for gpu in sorted(record["topology"], key=lambda gpu: int(gpu["index"])):
            if gpu.get(key):
                bridges = (f"ffff:ff:{gpu['bridge']:02x}.0",) if gpu.get("bridge") else ()
                leaves.append(Leaf(gpu[key], pci_class, speed, width, gpu["numa_node"], bridges))
    total = hardware_record.cpu_count(record)
    nodes = range(int(record["numa_nodes"]))
    masks = {node: hardware_record.kernel_mask(hardware_record.numa_cpus(record, node), total) for node in nodes}
    return _checked(_document(Processor(masks, _record_cpu(record)), leaves))


def from_machine(machine: Machine, gpus_per_bridge: int = 0, exclude: t.Sequence[str] = ()) -> str:
    """
    Return the topology file of the running machine. Raise TopologyError if values are missing.

    A virtual machine shows its devices without the switches between them. O(gpus_per_bridge) is the number of
    neighbouring GPUs below a bridge that represents the switch. Each bridge gets an equal share of the adapters of the
    NUMA node.
    """
    gpus = [gpu for gpu in machine.gpus if gpu.address not in exclude]
    if not gpus:
        raise TopologyError("the machine shows no GPU on its PCI bus")
    hcas = [hca for hca in machine.hcas if hca.address not in exclude]
    leaves = [_machine_leaf(device, machine) for device in (*gpus, *hcas)]
    if gpus_per_bridge:
        leaves = _bridged(leaves, gpus_per_bridge)
    total = max(machine.online, default=0) + 1
    masks = {node: hardware_record.kernel_mask(cpus, total) for node, cpus in machine.numa.items() if cpus}
    return _checked(_document(Processor(masks, _machine_cpu(machine)), leaves))


def nccl_family(family: int) -> int:
    """Return the CPU family as NCCL composes it from CPUID: 25 in Linux is 175 in NCCL."""
    return family if family < 15 else 15 | (family - 15) << 4


def _record_cpu(record: Record) -> list[tuple[str, str]]:
    cpus = record["cpus"]
    found = {"arch": {"aarch64": "arm64"}.get(cpus["architecture"], cpus["architecture"])}
    found.update({key: str(cpus[key]) for key in ("vendor", "family", "model") if cpus.get(key) is not None})
    return _cpu_attributes(found)


def _machine_cpu(machine: Machine) -> list[tuple[str, str]]:
    return _cpu_attributes(machine.cpu)


def _cpu_attributes(cpu: dict[str, str]) -> list[tuple[str, str]]:
    attributes = [("arch", cpu["arch"])]
    if cpu.get("vendor"):
        attributes.append(("vendor", cpu["vendor"]))
    if cpu.get("family", "").isdigit():
        attributes.append(("familyid", str(nccl_family(int(cpu["family"])))))
    if cpu.get("model", "").isdigit():
        attributes.append(("modelid", cpu["model"]))
    return attributes


def _machine_leaf(device: Device, machine: Machine) -> Leaf:
    node = device.numa_node
    if node not in machine.numa:
        if len(machine.numa) > 1:
            raise TopologyError(
                f"the machine does not show the NUMA node of {device.address} but has {len(machine.numa)} of them: "
                "generate from a hardware record"
            )
        node = next(iter(machine.numa), 0)
    # The path to a device contains the root port and then, for each switch, its upstream and its downstream port.
    switches = device.bridges[1::2]
    return Leaf(device.address, f"0x{device.pci_class:06x}", _speed(device.speed), device.width or 16, node, switches)


def _speed(speed: str) -> str:
    """Return a link speed in a form that NCCL knows. Old kernels omit the last word."""
    word = speed.split(" ")[0] if speed else ""
    return next((known for known in _SPEEDS.values() if known.split(" ")[0] in (word, f"{word}.0")), _SPEEDS[3])


def _bridged(leaves: list[Leaf], gpus_per_bridge: int) -> list[Leaf]:
    result: list[Leaf] = []
    number = 0
    for node in sorted({leaf.numa_node for leaf in leaves}):
        near = [leaf for leaf in leaves if leaf.numa_node == node]
        gpus = [leaf for leaf in near if leaf.pci_class.startswith("0x03")]
        others = [leaf for leaf in near if not leaf.pci_class.startswith("0x03")]
        groups = len(gpus) // gpus_per_bridge
        if groups < 1 or len(gpus) % gpus_per_bridge or len(others) % groups:
            raise TopologyError(
                f"NUMA node {node} has {len(gpus)} GPUs and {len(others)} adapters, "
                f"which cannot be shared out with {gpus_per_bridge} GPUs per bridge"
            )
        for part, size in ((gpus, gpus_per_bridge), (others, len(others) // groups)):
            for position, leaf in enumerate(part):
                bridge = f"ffff:ff:{number + position // size + 1:02x}.0"
                result.append(leaf._replace(bridges=(bridge,)))
        number += groups
    return result


def _document(processor: Processor, leaves: list[Leaf]) -> Element:
    system = Element("system", [("version", "1")])
    nodes = sorted(set(processor.masks) | {leaf.numa_node for leaf in leaves})
    for node in nodes:
        affinity = [("affinity", processor.masks[node])] if node in processor.masks else []
        cpu = system.add(Element("cpu", [("numaid", str(node)), *affinity, *processor.attributes]))
        bridges: dict[str, Element] = {}
        for leaf in sorted((leaf for leaf in leaves if leaf.numa_node == node), key=lambda leaf: leaf.bridges):
            _hang(cpu, leaf, bridges)
    return system


def _hang(cpu: Element, leaf: Leaf, bridges: dict[str, Element]) -> None:
    parent = cpu
    for bridge in leaf.bridges:
        if bridge not in bridges:
            bridges[bridge] = parent.add(_pci(bridge, _BRIDGE, leaf.speed, leaf.width))
        parent = bridges[bridge]
    parent.add(_pci(leaf.address, leaf.pci_class, leaf.speed, leaf.width))


def _pci(address: str, pci_class: str, speed: str, width: int) -> Element:
    return Element("pci", [("busid", address), ("class", pci_class), ("link_speed", speed), ("link_width", str(width))])


def _checked(system: Element) -> str:
    """Return the file after a check by NCCL's rules, so that NCCL accepts it."""
    text = serialize(system)
    wrong = judge.judge(text).of(judge.FATAL, judge.IGNORED, judge.FAULT)
    if wrong:
        raise TopologyError(f"the topology would be wrong: {'; '.join(wrong)}")
    return text
