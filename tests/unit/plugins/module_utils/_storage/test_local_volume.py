# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.disks import Array, Disk
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.local_volume import (
    Plan,
    Spec,
    Volume,
    choose,
    plan,
)
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._storage.fake_host import FakeHost

A, B, C = (Disk(f"/dev/nvme{number}n1", size=10**9) for number in range(3))
SPEC = Spec("scratch", "/scratch", ("/dev/nvme0n1", "/dev/nvme1n1"))
OURS = Array("scratch", "1:2:3:4", "raid0", 2)


def member(disk: Disk, array: str = "") -> Disk:
    return disk._replace(content="linux_raid_member", label="any:scratch", array=array)


def tools(planned: Plan) -> list[str]:
    return [f"{step[0]} {step[1]}" for step in planned.steps]


def test_empty_disks_become_an_array() -> None:
    planned = plan(SPEC, [A, B], {})

    assert tools(planned) == ["mdadm --create"]
    assert planned.steps[0][-4:] == ("--level=raid0", "--raid-devices=2", "/dev/nvme0n1", "/dev/nvme1n1")
    assert planned.format


def test_a_single_disk_needs_no_array() -> None:
    assert plan(SPEC, [A], {}) == Plan((), "/dev/nvme0n1", format=True)
    assert plan(SPEC, [A._replace(content="xfs", label="scratch")], {}) == Plan((), "/dev/nvme0n1", format=False)


def test_a_running_array_is_left_alone() -> None:
    disks = [member(A, "/dev/md127"), member(B, "/dev/md127")]

    assert plan(SPEC, disks, {A.path: OURS, B.path: OURS}) == Plan((), "/dev/md127", format=False)


def test_an_array_that_does_not_run_is_assembled_and_not_made_anew() -> None:
    planned = plan(SPEC, [member(A), member(B)], {A.path: OURS, B.path: OURS})

    assert tools(planned) == ["mdadm --assemble"]
    assert not planned.format


@pytest.mark.parametrize(
    ("disk", "word"),
    [
        (B._replace(content="ext4", label="precious"), "holds ext4 named precious"),
        (B._replace(content="data of no known form"), "data of no known form"),
        (B._replace(content="linux_raid_member", label="old:data"), "linux_raid_member"),
        (B._replace(mountpoints=("/data",)), "in use at /data"),
        (B._replace(array="/dev/md9"), "/dev/md9"),
        (B._replace(array="/dev/md9", idle=True), "/dev/md9"),
    ],
)
def test_a_disk_with_data_is_refused_by_name(disk: Disk, word: str) -> None:
    with pytest.raises(StorageError, match=f"/dev/nvme1n1 .*{word}"):
        plan(SPEC, [A, disk], {disk.path: Array("data", "9", "raid1", 2)} if "raid" in disk.content else {})


def test_only_a_disk_that_is_named_is_wiped() -> None:
    disks = [A, B._replace(content="ext4")]

    planned = plan(SPEC._replace(wipe=(B.path,)), disks, {})

    assert planned.steps[0] == ("wipefs", "--all", "/dev/nvme1n1")
    assert tools(planned)[1:] == ["mdadm --create"]


def test_naming_a_disk_does_not_take_it_from_its_user() -> None:
    with pytest.raises(StorageError, match="in use at /data"):
        plan(SPEC._replace(wipe=(B.path,)), [A, B._replace(content="ext4", mountpoints=("/data",))], {})


def test_a_lost_drive_is_told_and_not_built_over() -> None:
    with pytest.raises(
        StorageError, match=r"made of 2 drives, but only 1 are there: /dev/nvme0n1; nothing was changed"
    ):
        plan(SPEC, [member(A), B], {A.path: OURS})


def test_a_lost_drive_of_a_redundant_array_is_a_warning() -> None:
    mirror = OURS._replace(level="raid1")

    planned = plan(SPEC._replace(level="raid1"), [member(A, "/dev/md127"), B], {A.path: mirror})

    assert (planned.steps, planned.target, planned.format) == ((), "/dev/md127", False)
    assert "without redundancy" in planned.warnings[0]


def test_a_rebuild_happens_only_when_asked_and_not_on_a_mounted_array() -> None:
    spec = SPEC._replace(rebuild=True)

    assert tools(plan(spec, [member(A), B], {A.path: OURS})) == ["mdadm --zero-superblock", "mdadm --create"]
    with pytest.raises(StorageError, match="in use at /scratch"):
        plan(spec, [member(A, "/dev/md127")._replace(mountpoints=("/scratch",)), B], {A.path: OURS})


def test_a_rebuild_stops_what_a_boot_without_the_lost_drive_left() -> None:
    left = member(A, "/dev/md127")._replace(idle=True)

    planned = plan(SPEC._replace(rebuild=True), [left, B], {A.path: OURS})

    assert planned.steps[0] == ("mdadm", "--stop", "/dev/md127")
    assert tools(planned)[1:] == ["mdadm --zero-superblock", "mdadm --create"]


def test_a_rebuild_of_the_last_drive_needs_no_array() -> None:
    left = member(A, "/dev/md127")._replace(idle=True)

    planned = plan(SPEC._replace(rebuild=True), [left], {A.path: OURS})

    assert tools(planned) == ["mdadm --stop", "mdadm --zero-superblock"]
    assert (planned.target, planned.format) == (A.path, True)
    with pytest.raises(StorageError, match="part of the array /dev/md127"):
        plan(SPEC, [left], {A.path: OURS})


def test_an_array_that_is_whole_again_but_does_not_run_is_stopped_and_assembled() -> None:
    disks = [member(disk, "/dev/md127")._replace(idle=True) for disk in (A, B)]

    assert tools(plan(SPEC, disks, {A.path: OURS, B.path: OURS})) == ["mdadm --stop", "mdadm --assemble"]


def test_a_redundant_array_that_does_not_run_is_not_formatted() -> None:
    left = member(A, "/dev/md127")._replace(idle=True)

    with pytest.raises(StorageError, match="nothing was changed"):
        plan(SPEC._replace(level="raid1"), [left, B], {A.path: OURS._replace(level="raid1")})


def test_a_rebuild_of_what_is_whole_does_nothing() -> None:
    disks = [member(A, "/dev/md127"), member(B, "/dev/md127")]

    assert plan(SPEC._replace(rebuild=True), disks, {A.path: OURS, B.path: OURS}).steps == ()


def test_more_drives_than_the_array_has_are_told() -> None:
    with pytest.raises(StorageError, match=r"made of 2 drives, 3 are given.*Not part of it: /dev/nvme2n1"):
        plan(SPEC, [member(A), member(B), C], {A.path: OURS, B.path: OURS})


def test_the_number_of_drives_must_be_that_of_the_machine() -> None:
    assert choose([B, A], 2, []) == (A.path, B.path)
    assert choose([A, B._replace(children=("part",))], 2, []) == (A.path,)
    assert choose([A, B], 0, []) == (A.path, B.path)
    with pytest.raises(StorageError, match="2 local NVMe drives found, 3 expected: /dev/nvme0n1"):
        choose([A, B], 3, [])
    with pytest.raises(StorageError, match="no local NVMe drive found, 3 expected"):
        choose([], 3, [])


class DiskHost(FakeHost):
    """A machine with two disks whose content mdadm and mkfs change."""

    def __init__(self) -> None:
        super().__init__()
        self.content: dict[str, str] = {}
        self.array = ""

    def real_path(self, path: str) -> str:
        return {"/dev/md/scratch": "/dev/md127"}.get(path, path)

    def found(self) -> list[Disk]:
        return [A._replace(array=self.array), B._replace(array=self.array)]

    def _act(self, args: t.Sequence[str]) -> tuple[int, str, str]:
        self.calls.append(list(args))
        if args[0] == "blkid":
            kind = self.content.get(self.real_path(args[-1]))
            return (0, f"TYPE={kind}\nUUID=aa-bb\nLABEL=any:scratch\n", "") if kind else (2, "", "")
        if list(args[:2]) == ["mdadm", "--examine"]:
            return 0, "MD_LEVEL=raid0\nMD_DEVICES=2\nMD_NAME=any:scratch\nMD_UUID=1:2\n", ""
        if args[0] == "mdadm":
            self.array = "/dev/md127"
            self.content.update({A.path: "linux_raid_member", B.path: "linux_raid_member"})
        if args[0] == "mkfs.xfs":
            self.content["/dev/md127"] = "xfs"
        if args[0] == "mount":
            self.mounts["/scratch"] = ("/dev/md127", "xfs", "rw")
        return 0, "", ""


def bring(machine: DiskHost, spec: Spec = SPEC) -> dict[str, t.Any]:
    volume = Volume(machine, spec, machine.found())
    planned = volume.plan()
    result = volume.result(planned)
    if result["changed"]:
        volume.apply(planned)
    return result


def test_a_volume_is_made_once() -> None:
    machine = DiskHost()

    assert bring(machine)["formatted"]
    assert "UUID=aa-bb /scratch xfs defaults,nofail,x-systemd.device-timeout=60s 0 0" in machine.files["/etc/fstab"]
    machine.calls.clear()
    assert not bring(machine)["changed"]
    assert {call[0] for call in machine.calls} == {"blkid", "mdadm"}


def test_a_run_that_was_killed_before_the_file_system_is_finished_by_the_next() -> None:
    machine = DiskHost()
    bring(machine)
    del machine.content["/dev/md127"], machine.mounts["/scratch"]
    machine.files["/etc/fstab"] = ""

    assert bring(machine)["formatted"]


def test_another_file_system_on_the_array_is_kept() -> None:
    machine = DiskHost()
    bring(machine)
    machine.content["/dev/md127"] = "ext4"
    machine.mounts.clear()

    with pytest.raises(StorageError, match="/dev/md127 holds ext4, not xfs"):
        bring(machine)


def test_a_mount_point_that_is_not_empty_or_taken_is_refused() -> None:
    machine = DiskHost()
    machine.directories["/scratch"] = ["data"]
    with pytest.raises(StorageError, match="/scratch: the mount point is not empty"):
        bring(machine)

    machine.mounts["/scratch"] = ("/dev/sdb1", "ext4", "rw")
    with pytest.raises(StorageError, match=r"/scratch: /dev/sdb1 \(ext4\) is mounted there"):
        bring(machine)


def test_a_disk_that_is_not_there_is_named_with_those_that_are() -> None:
    machine = DiskHost()

    with pytest.raises(StorageError, match="no disk /dev/sdz; disks of this machine: /dev/nvme0n1, /dev/nvme1n1"):
        bring(machine, SPEC._replace(devices=("/dev/sdz",)))
