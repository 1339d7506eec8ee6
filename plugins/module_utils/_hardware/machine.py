# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the PCI tree, NUMA nodes and processor of a running machine from sysfs and procfs."""

from __future__ import annotations

import platform
import re
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record

_ADDRESS = re.compile(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_NVIDIA = 0x10DE
_ARCHITECTURES = {"aarch64": "arm64", "ppc64le": "ppc64"}


class Device(t.NamedTuple):
    """One PCI device. O(bridges) lists the bridges above it, the root port first."""

    address: str
    pci_class: int
    vendor: int
    numa_node: int
    speed: str
    width: int
    bridges: tuple[str, ...]
    rdma: tuple[str, ...]
    accelerated: bool
    device: int = 0

    @property
    def is_gpu(self) -> bool:
        """Return whether the device is an NVIDIA GPU."""
        return self.pci_class >> 16 == 0x03 and self.vendor == _NVIDIA

    @property
    def is_hca(self) -> bool:
        """Return whether the device is an adapter for NCCL and not the one of an Ethernet interface of Azure."""
        return self.pci_class >> 16 == 0x02 and bool(self.rdma) and not self.accelerated


class Machine(t.NamedTuple):
    """The current state of the machine."""

    devices: dict[str, Device]
    numa: dict[int, list[int]]
    online: list[int]
    cpu: dict[str, str]

    @property
    def gpus(self) -> list[Device]:
        """Return the GPUs in the order of their addresses."""
        return [self.devices[address] for address in sorted(self.devices) if self.devices[address].is_gpu]

    @property
    def hcas(self) -> list[Device]:
        """Return the adapters in the order of their addresses."""
        return [self.devices[address] for address in sorted(self.devices) if self.devices[address].is_hca]


def read(sysfs: str = "/sys", procfs: str = "/proc", architecture: str | None = None) -> Machine:
    """Return the state of the machine. Unreadable values are empty and never an error."""
    root = Path(sysfs)
    arch = architecture or platform.machine()
    return Machine(
        devices=_devices(root / "bus/pci/devices"),
        numa=_numa(root / "devices/system/node"),
        online=_cpus(root / "devices/system/cpu/online"),
        cpu={"arch": _ARCHITECTURES.get(arch, arch), **_cpu(_text(Path(procfs) / "cpuinfo"))},
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _number(text: str, base: int = 10, default: int = 0) -> int:
    try:
        return int(text, base)
    except ValueError:
        return default


def _cpus(path: Path) -> list[int]:
    try:
        return record.parse_ranges(_text(path))
    except ValueError:
        return []


def _names(path: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in path.iterdir())
    except OSError:
        return []


def _numa(path: Path) -> dict[int, list[int]]:
    nodes = [name[4:] for name in _names(path) if re.fullmatch(r"node\d+", name)]
    return {int(node): _cpus(path / f"node{node}/cpulist") for node in sorted(nodes, key=int)}


def _cpu(cpuinfo: str) -> dict[str, str]:
    """Return vendor, family and model of the first processor in cpuinfo."""
    first = cpuinfo.split("\n\n", 1)[0]
    pairs = (line.partition(":") for line in first.splitlines())
    found = {key.strip(): value.strip() for key, _colon, value in pairs}
    names = {"vendor_id": "vendor", "cpu family": "family", "model": "model"}
    return {names[key]: value for key, value in found.items() if key in names and value}


def _devices(path: Path) -> dict[str, Device]:
    return {name: _device(name, path / name) for name in _names(path) if _ADDRESS.fullmatch(name)}


def _device(address: str, path: Path) -> Device:
    return Device(
        address=address,
        pci_class=_number(_text(path / "class"), 16),
        vendor=_number(_text(path / "vendor"), 16),
        numa_node=_number(_text(path / "numa_node"), default=-1),
        speed=_text(path / "max_link_speed"),
        width=_number(_text(path / "max_link_width")),
        bridges=_bridges(address, path),
        rdma=tuple(_names(path / "infiniband")),
        accelerated=_is_accelerated(path),
        device=_number(_text(path / "device"), 16),
    )


def _bridges(address: str, path: Path) -> tuple[str, ...]:
    """Return the addresses between the root of the bus and the device, from the target of its symbolic link."""
    try:
        parts = path.resolve().parts
    except (OSError, RuntimeError):
        return ()
    return tuple(part for part in parts if _ADDRESS.fullmatch(part) and part != address)


def _is_accelerated(path: Path) -> bool:
    """
    Return whether a device is the virtual function of Azure's accelerated networking.

    Its interface is enslaved to the synthetic one, whose driver is hv_netvsc. A bond of real adapters has no device.
    """
    for interface in _names(path / "net"):
        driver = path / "net" / interface / "master/device/driver"
        try:
            if driver.resolve().name == "hv_netvsc":
                return True
        except (OSError, RuntimeError):
            continue
    return any(name.startswith("mlx5_an") for name in _names(path / "infiniband"))
