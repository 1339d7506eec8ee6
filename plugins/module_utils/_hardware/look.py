# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read what identifies the hardware of a machine: PCI ids and numbers of devices, CPUs, memory."""

from __future__ import annotations

import platform
import re
import typing as t
from collections import Counter
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import machine

_NVME, _NETWORK, _MELLANOX = 0x0108, 0x02, 0x15B3


def read(sysfs: str = "/sys", procfs: str = "/proc", architecture: str | None = None) -> dict[str, t.Any]:
    """
    Return what identifies the hardware.

    Keys: C(gpus) (number by PCI device id, such as C(2330)), C(cpus), C(numa_nodes), C(memory_mib), C(nvme), C(hcas),
    C(architecture) and C(product). A value that cannot be read is 0 or empty.
    """
    found = machine.read(sysfs, procfs, architecture)
    devices = list(found.devices.values())
    return {
        "gpus": dict(Counter(f"{gpu.device:04x}" for gpu in found.gpus)),
        "cpus": len(found.online),
        "numa_nodes": len(found.numa),
        "memory_mib": _memory(Path(procfs) / "meminfo"),
        "nvme": sum(device.pci_class >> 8 == _NVME for device in devices),
        "hcas": sum(_is_adapter(device) for device in devices),
        "architecture": architecture or platform.machine(),
        "product": _line(Path(sysfs) / "class/dmi/id/product_name"),
    }


def _is_adapter(device: machine.Device) -> bool:
    """Return whether a device is an adapter for RDMA, also before its driver is loaded."""
    return device.pci_class >> 16 == _NETWORK and device.vendor == _MELLANOX and not device.accelerated


def _memory(path: Path) -> int:
    match = re.search(r"^MemTotal:\s+(\d+) kB", _line(path, whole=True), re.MULTILINE)
    return int(match[1]) // 1024 if match else 0


def _line(path: Path, *, whole: bool = False) -> str:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    return text if whole else text.strip()
