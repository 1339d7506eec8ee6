# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import disks, fstab
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._storage.fake_host import FakeHost

FIXTURES = Path(__file__).parents[3] / "fixtures"
LSBLK = ("lsblk", "--json", "--bytes", "--paths", "--output", disks.COLUMNS)


def fixture(name: str) -> str:
    return (FIXTURES / name).read_text(encoding="utf-8")


def probed(text: str, rc: int = 0, head: bytes = b"\0" * 16) -> disks.Disk:
    machine = FakeHost()
    machine.answers[("blkid", "--probe", "--output", "export", "/dev/x")] = (rc, text, "")
    machine.heads["/dev/x"] = head
    return disks.with_content(machine, disks.Disk("/dev/x"))


def test_disks_are_read_with_what_is_on_them() -> None:
    machine = FakeHost()
    machine.answers[LSBLK] = (0, fixture("lsblk/2.38.1/raid0_of_two_nvme.json"), "")

    root, first, second = disks.disks(machine)

    assert (root.path, root.mountpoints, root.model) == ("/dev/vda", ("/",), "")
    assert (first.array, first.mountpoints, first.children) == ("/dev/md127", ("/scratch",), ("raid0",))
    assert not first.idle
    assert str(second) == "/dev/nvme1n1 (0.5 GB, QEMU NVMe Ctrl)"


@pytest.mark.parametrize("type_", [None, "raid0", "omitted"])
def test_an_array_that_does_not_run_holds_its_disks_too(type_: str | None) -> None:
    machine = FakeHost()
    children = [] if type_ == "omitted" else [{"name": "/dev/md127", "type": type_, "size": 0}]
    entry = {"name": "/dev/nvme0n1", "type": "disk", "size": 10**9, "children": children}
    machine.answers[LSBLK] = (0, json.dumps({"blockdevices": [entry]}), "")
    machine.directories["/sys/block/nvme0n1/holders"] = ["dm-0", "md127"]

    (disk,) = disks.disks(machine)

    assert (disk.array, disk.idle) == ("/dev/md127", True)


def test_only_nvme_drives_that_are_local_count() -> None:
    found = [
        disks.Disk("/dev/nvme1n1", model="Microsoft NVMe Direct Disk v2"),
        disks.Disk("/dev/nvme0n1", model="MSFT NVMe Accelerator v1.0", children=("part",)),
        disks.Disk("/dev/sda"),
        disks.Disk("/dev/md127", type="raid0"),
    ]

    assert [disk.path for disk in disks.local_drives(found, ["msft nvme accelerator"])] == ["/dev/nvme1n1"]


@pytest.mark.parametrize(
    ("case", "content", "label"),
    [("raid_member", "linux_raid_member", "any:scratch"), ("ext4", "ext4", ""), ("xfs_on_array", "xfs", "scratch")],
)
def test_the_content_of_a_disk_is_read(case: str, content: str, label: str) -> None:
    disk = probed(fixture(f"blkid/2.38.1/{case}.txt"))

    assert (disk.content, disk.label) == (content, label)
    assert disk.uuid


def test_only_a_disk_of_zeros_is_empty() -> None:
    assert probed("", rc=2).content == ""
    assert probed("", rc=2, head=b"\0\0x").content == "data of no known form"
    # Data may begin behind what a partition table or a file system leaves free.
    assert probed("", rc=2, head=b"\0" * (2**20 - 1) + b"x").content == "data of no known form"
    assert probed("", rc=8).content == "several file systems at once"
    assert probed("DEVNAME=/dev/x\nPTTYPE=gpt\n").content == "a gpt partition table"


def test_a_disk_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(StorageError, match="/dev/x"):
        probed("", rc=4)


def test_the_superblock_of_a_member_is_read() -> None:
    machine = FakeHost()
    machine.answers[("mdadm", "--examine", "--export", "/dev/x")] = (
        0,
        fixture("mdadm/4.2/examine_raid0_member.txt"),
        "",
    )

    array = disks.array_of(machine, "/dev/x")

    assert array == disks.Array("scratch", "782a067f:df239130:c4aebd0b:0786d0ab", "raid0", 2)


def test_the_kernels_table_of_mounts_is_read() -> None:
    text = fixture("mountinfo/6.1/nfs_client.txt")

    live = fstab.mounted(text)

    assert fstab.waiting(text) >= {"/home", "/shared"}
    assert (live["/home"].source, live["/home"].type) == ("nfs1:/home", "nfs4")
    assert {"nconnect=8", "noatime"} <= set(live["/home"].options)
    assert live["/scratch"].source == "/dev/md127"
