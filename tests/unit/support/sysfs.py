# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A sysfs and procfs in a folder, as far as the collection reads them."""

from __future__ import annotations

import typing as t
from pathlib import Path

FIXTURES = Path(__file__).parents[1] / "fixtures"
GPU, HCA, ETHERNET, BRIDGE = 0x030200, 0x020700, 0x020000, 0x060400


class Tree:
    """Make a machine device by device."""

    def __init__(self, root: Path, numa: dict[int, str] | None = None, online: str = "0-95") -> None:
        """Make the NUMA nodes, given by their CPU lists, and a processor."""
        self.sysfs, self.procfs = root / "sys", root / "proc"
        for node, cpus in (numa or {}).items():
            self._write(f"devices/system/node/node{node}/cpulist", cpus)
        self._write("devices/system/cpu/online", online)
        self.procfs.mkdir(parents=True, exist_ok=True)
        self.cpuinfo("AuthenticAMD", 23, 49)

    def _write(self, path: str, text: t.Any) -> None:
        target = self.sysfs / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"{text}\n", encoding="utf-8")

    def cpuinfo(self, vendor: str, family: int, model: int) -> None:
        """Set what the first processor says about itself."""
        lines = (
            f"processor\t: 0\nvendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\nmodel name\t: x\n\n"
        )
        (self.procfs / "cpuinfo").write_text(lines * 2, encoding="utf-8")

    def device(
        self,
        address: str,
        pci_class: int,
        numa_node: int,
        vendor: int = 0x10DE,
        bridges: t.Sequence[str] = (),
        speed: str = "16.0 GT/s PCIe",
        width: t.Any = 16,
        number: int = 0,
    ) -> str:
        """Add a device below its bridges and return its folder, relative to sysfs."""
        home = "/".join(["devices", f"pci{address[:7]}", *bridges, address])
        for name, value in (
            ("class", f"0x{pci_class:06x}"),
            ("vendor", f"0x{vendor:04x}"),
            ("device", f"0x{number:04x}"),
            ("numa_node", numa_node),
            ("max_link_speed", speed),
            ("max_link_width", width),
        ):
            self._write(f"{home}/{name}", value)
        link = self.sysfs / "bus/pci/devices" / address
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(self.sysfs / home)
        return home

    def hca(self, address: str, numa_node: int, name: str, bridges: t.Sequence[str] = ()) -> None:
        """Add an adapter with an RDMA device."""
        home = self.device(address, HCA, numa_node, 0x15B3, bridges)
        (self.sysfs / home / "infiniband" / name).mkdir(parents=True)

    def accelerated(self, address: str, name: str = "mlx5_8") -> None:
        """Add the virtual function of accelerated networking, enslaved to the synthetic interface."""
        home = self.device(address, ETHERNET, 0, 0x15B3)
        (self.sysfs / home / "infiniband" / name).mkdir(parents=True)
        driver = self.sysfs / "bus/vmbus/drivers/hv_netvsc"
        synthetic = self.sysfs / "devices/vmbus/eth0"
        for folder in (driver, synthetic / "device", self.sysfs / home / "net/enP1s1"):
            folder.mkdir(parents=True, exist_ok=True)
        (synthetic / "device/driver").symlink_to(driver)
        (self.sysfs / home / "net/enP1s1/master").symlink_to(synthetic)

    def process(self, pid: int, name: str, cpus: str, threads: t.Sequence[tuple[str, int]] = (("S", 0),)) -> None:
        """Add a process: what it may use, and state and last CPU of each thread."""
        home = self.procfs / str(pid)
        home.mkdir()
        status = f"Name:\t{name}\nUmask:\t0022\nThreads:\t{len(threads)}\nCpus_allowed_list:\t{cpus}\n"
        (home / "status").write_text(status, encoding="utf-8")
        for number, (state, cpu) in enumerate(threads):
            (home / f"task/{pid + number}").mkdir(parents=True)
            fields = [state, *["0"] * 35, str(cpu), *["0"] * 13]
            (home / f"task/{pid + number}/stat").write_text(
                f"{pid + number} ({name}) {' '.join(fields)}\n", encoding="utf-8"
            )


def nd_a100_v4(root: Path) -> Tree:
    """Return a Standard_ND96asr_v4 as its machines show themselves."""
    tree = Tree(root, {0: "0-23", 1: "24-47", 2: "48-71", 3: "72-95"})
    places = (("0001", 1), ("0002", 1), ("0003", 0), ("0004", 0), ("000b", 3), ("000c", 3), ("000d", 2), ("000e", 2))
    for number, (domain, node) in enumerate(places):
        tree.device(f"{domain}:00:00.0", GPU, node)
        tree.hca(f"010{number + 1}:00:00.0", node, f"mlx5_ib{number}")
    tree.accelerated("0110:00:02.0")
    return tree


def h200_vm(root: Path) -> Tree:
    """Return the machine with four H200 whose listing is among the fixtures: no NUMA node is shown for any device."""
    tree = Tree(root, {0: "0-63"}, "0-63")
    tree.cpuinfo("GenuineIntel", 6, 207)
    listing = (FIXTURES / "system/h200-x4/pci.txt").read_text(encoding="utf-8")
    for line in listing.splitlines():
        address, rest = line.split(" ", 1)
        fields = dict(part.split("=", 1) for part in rest.split(" ") if "=" in part)
        speed = "32.0 GT/s PCIe" if fields["vendor"] == "0x10de" else ""
        tree.device(
            address,
            int(fields["class"], 16),
            int(fields["numa"]),
            int(fields["vendor"], 16),
            speed=speed,
            width=16 if speed else "",
            number=int(fields["device"], 16),
        )
    return tree
