# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What identifies a machine, from recorded listings of sysfs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import look
from ansible_collections.hpcai.gpucluster.tests.unit.support import sysfs

if TYPE_CHECKING:
    from pathlib import Path

NVME, HCA = 0x010802, 0x020700


def test_a_recorded_machine(tmp_path: Path) -> None:
    tree = sysfs.h200_vm(tmp_path)
    (tree.procfs / "meminfo").write_text("MemTotal:       1056768000 kB\nMemFree: 1 kB\n", encoding="utf-8")

    assert look.read(str(tree.sysfs), str(tree.procfs), "x86_64") == {
        "gpus": {"2335": 4},
        "cpus": 64,
        "numa_nodes": 1,
        "memory_mib": 1032000,
        "nvme": 0,
        "hcas": 0,
        "architecture": "x86_64",
        "product": "",
    }


def test_drives_and_adapters_are_counted_and_the_ethernet_of_azure_is_not(tmp_path: Path) -> None:
    tree = sysfs.nd_a100_v4(tmp_path)
    for number in range(8):
        tree.device(f"000{number}:01:00.0", NVME, 0, vendor=0x1414)
    # Before its driver is loaded, an adapter has no RDMA device.
    tree.device("0109:00:00.0", HCA, 0, vendor=0x15B3)

    found = look.read(str(tree.sysfs), str(tree.procfs))
    assert (found["nvme"], found["hcas"], found["numa_nodes"]) == (8, 9, 4)
    assert found["gpus"] == {"0000": 8}


def test_the_product_is_read(tmp_path: Path) -> None:
    name = tmp_path / "sys/class/dmi/id/product_name"
    name.parent.mkdir(parents=True)
    name.write_text("DGXH100\n", encoding="utf-8")

    assert look.read(str(tmp_path / "sys"), str(tmp_path / "proc"))["product"] == "DGXH100"


def test_a_machine_that_shows_nothing_is_no_error(tmp_path: Path) -> None:
    found = look.read(str(tmp_path / "sys"), str(tmp_path / "proc"), "x86_64")

    assert (found["gpus"], found["cpus"], found["memory_mib"]) == ({}, 0, 0)
