# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Create one file system on one or more whole disks, once. Only explicit options allow it to overwrite data."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import disks as storage_disks
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import fstab
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.disks import Array, Disk
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

FSTAB = "/etc/fstab"
MOUNTINFO = "/proc/self/mountinfo"
# RAID levels that continue to run after the loss of a member.
REDUNDANT = ("raid1", "raid5", "raid6", "raid10")
FORCE = {"xfs": "-f", "ext4": "-F"}


class Spec(t.NamedTuple):
    """The wanted state of a volume."""

    name: str
    path: str
    devices: tuple[str, ...]
    level: str = "raid0"
    filesystem: str = "xfs"
    options: str = "defaults"
    wipe: tuple[str, ...] = ()
    rebuild: bool = False
    mode: str = "0755"


class Plan(t.NamedTuple):
    """The planned changes: commands to run first, and whether to create a file system."""

    steps: tuple[tuple[str, ...], ...]
    target: str
    format: bool
    warnings: tuple[str, ...] = ()


def choose(found: list[Disk], count: int, exclude_models: t.Sequence[str]) -> tuple[str, ...]:
    """Return the drives without partitions if the machine has count drives. A count of 0 accepts any number."""
    local = storage_disks.local_drives(found, exclude_models)
    names = [disk.path for disk in local if "part" not in disk.children]
    if not names:
        raise StorageError(
            f"no local NVMe drive found{f', {count} expected' if count else ''}; set scratch_devices, "
            "or take the machine out of the play"
        )
    if count and len(local) != count:
        raise StorageError(
            f"{len(local)} local NVMe drives found, {count} expected: {', '.join(map(str, local))}; "
            "nothing was changed. A drive may be lost; set scratch_drive_count if this machine is right as it is"
        )
    return tuple(names)


def plan(spec: Spec, disks: list[Disk], arrays: dict[str, Array]) -> Plan:
    """Return the steps that create the volume. Raise StorageError with the name of a disk that prevents it."""
    members = [disk for disk in disks if disk.path in arrays and arrays[disk.path].name == spec.name]
    if len(disks) == 1 and not (members and spec.rebuild):
        return _plan_single(spec, disks[0])
    for disk in disks:
        if disk not in members:
            _refuse_used(disk, spec)
    if not members:
        return Plan((*_wipes(spec, disks), _create(spec, disks)), f"/dev/md/{spec.name}", format=True)
    return _plan_members(spec, disks, members, arrays[members[0].path])


def _plan_single(spec: Spec, disk: Disk) -> Plan:
    if disk.content == spec.filesystem and disk.label == spec.name:
        return Plan((), disk.path, format=False)
    _refuse_used(disk, spec)
    return Plan(_wipes(spec, [disk]), disk.path, format=True)


def _plan_members(spec: Spec, disks: list[Disk], members: list[Disk], array: Array) -> Plan:
    running = next((disk.array for disk in members if disk.array and not disk.idle), "")
    complete = len(members) == array.devices == len(disks)
    if not complete and spec.rebuild:
        return _rebuild(spec, disks, members)
    if len(members) < array.devices:
        lost = (
            f"the array {spec.name} is made of {array.devices} drives, but only {len(members)} are there: "
            f"{', '.join(disk.path for disk in members)}"
        )
        if not (running and array.level in REDUNDANT):
            raise StorageError(
                f"{lost}; nothing was changed. Replace the drive, or set scratch_rebuild: true "
                "for a new, empty file system over those that are there"
            )
        return Plan((), running, format=False, warnings=(f"{lost}; it runs without redundancy",))
    if not complete:
        more = ", ".join(disk.path for disk in disks if disk not in members)
        raise StorageError(
            f"the array {spec.name} is made of {array.devices} drives, {len(disks)} are given; nothing was changed. "
            f"Not part of it: {more or 'none'}. Set scratch_rebuild: true for a new, empty file system over all"
        )
    if running:
        return Plan((), running, format=False)
    step = ("mdadm", "--assemble", f"/dev/md/{spec.name}", f"--uuid={array.uuid}", *(disk.path for disk in members))
    return Plan((*_stops(members), step), f"/dev/md/{spec.name}", format=False)


def _rebuild(spec: Spec, disks: list[Disk], members: list[Disk]) -> Plan:
    for disk in members:
        if disk.mountpoints:
            raise StorageError(
                f"{disk} is in use at {', '.join(disk.mountpoints)}; unmount it before the array is made anew"
            )
    clear = [("mdadm", "--zero-superblock", disk.path) for disk in members]
    steps = (*_stops(members), *clear, *_wipes(spec, disks))
    if len(disks) == 1:
        return Plan(steps, disks[0].path, format=True)
    return Plan((*steps, _create(spec, disks)), f"/dev/md/{spec.name}", format=True)


def _stops(members: list[Disk]) -> list[tuple[str, ...]]:
    return [("mdadm", "--stop", array) for array in dict.fromkeys(disk.array for disk in members) if array]


def _refuse_used(disk: Disk, spec: Spec) -> None:
    if disk.mountpoints:
        raise StorageError(f"{disk} is in use at {', '.join(disk.mountpoints)}; it is not touched")
    if disk.array:
        raise StorageError(f"{disk} is part of the array {disk.array}; it is not touched")
    if disk.content and disk.path not in spec.wipe:
        name = f" named {disk.label}" if disk.label else ""
        raise StorageError(f"{disk} holds {disk.content}{name}; it is only overwritten if it is named in wipe")


def _wipes(spec: Spec, disks: list[Disk]) -> tuple[tuple[str, ...], ...]:
    return tuple(("wipefs", "--all", disk.path) for disk in disks if disk.path in spec.wipe and disk.content)


def _create(spec: Spec, disks: list[Disk]) -> tuple[str, ...]:
    # With the home host "any", every machine assembles the array under this name, regardless of its host name.
    head = (
        "mdadm",
        "--create",
        f"/dev/md/{spec.name}",
        f"--name={spec.name}",
        "--homehost=any",
        "--metadata=1.2",
        "--run",
    )
    return (*head, f"--level={spec.level}", f"--raid-devices={len(disks)}", *(disk.path for disk in disks))


class Volume:
    """One volume on one host."""

    def __init__(self, host: Host, spec: Spec, found: list[Disk]) -> None:
        self._host = host
        self._spec = spec
        self._table = fstab.Table(host.read(FSTAB), f"volume {spec.name}")
        self._live = fstab.mounted(host.read(MOUNTINFO)).get(spec.path)
        # wipe may contain other names of a disk
        self._spec = spec._replace(wipe=tuple(host.real_path(path) for path in spec.wipe))
        by_path = {disk.path: disk for disk in found}
        self._disks = [self._inspect(by_path, path) for path in sorted(map(host.real_path, spec.devices))]
        self._arrays = {
            disk.path: storage_disks.array_of(host, disk.path)
            for disk in self._disks
            if disk.content == "linux_raid_member"
        }

    def _inspect(self, by_path: dict[str, Disk], path: str) -> Disk:
        if path not in by_path:
            raise StorageError(f"there is no disk {path}; disks of this machine: {', '.join(by_path) or 'none'}")
        return storage_disks.with_content(self._host, by_path[path])

    def plan(self) -> Plan:
        """Return the plan. Raise StorageError if the machine does not allow it."""
        planned = plan(self._spec, self._disks, self._arrays)
        self._refuse_place(planned)
        if planned.format or planned.steps:
            return planned
        content = storage_disks.with_content(self._host, Disk(planned.target)).content
        if content and content != self._spec.filesystem:
            raise StorageError(f"{planned.target} holds {content}, not {self._spec.filesystem}; it is not touched")
        return planned._replace(format=not content)

    def _refuse_place(self, planned: Plan) -> None:
        path = self._spec.path
        line = self._table.others().get(path)
        if line:
            raise StorageError(
                f"{path}: {FSTAB} mounts {line.source} ({line.type}) there already; "
                "remove that line or choose another path"
            )
        if self._live:
            if planned.format or self._host.real_path(self._live.source) != self._host.real_path(planned.target):
                raise StorageError(
                    f"{path}: {self._live.source} ({self._live.type}) is mounted there; "
                    "unmount it or choose another path"
                )
        elif [name for name in self._host.entries(path) or [] if name != "lost+found"]:
            raise StorageError(f"{path}: the mount point is not empty; move away what it holds or choose another path")

    def text_after(self, uuid: str) -> str:
        """Return the wanted content of fstab."""
        options = ",".join(dict.fromkeys([*self._spec.options.split(","), "nofail", "x-systemd.device-timeout=60s"]))
        return self._table.text([fstab.Line(f"UUID={uuid}", self._spec.path, self._spec.filesystem, options)])

    def result(self, planned: Plan) -> dict[str, t.Any]:
        """Return the result of the module, before any change."""
        before = self._host.read(FSTAB)
        after = (
            self.text_after("made with the file system")
            if planned.format or planned.steps
            else self.text_after(self._uuid(planned.target))
        )
        return {
            "changed": bool(planned.steps or planned.format or before != after or not self._live),
            "devices": [disk.path for disk in self._disks],
            "formatted": planned.format,
            "diff": {"before_header": FSTAB, "after_header": FSTAB, "before": before, "after": after},
        }

    def apply(self, planned: Plan) -> None:
        """Apply a plan."""
        for step in planned.steps:
            self._call(*step)
        if planned.steps:
            self._host.run(["udevadm", "settle", "--timeout=20"])
        spec = self._spec
        if planned.format:
            # The disks were empty or listed in wipe. Force, because a new array may expose an old file system.
            self._call(f"mkfs.{spec.filesystem}", FORCE[spec.filesystem], "-q", "-L", spec.name, planned.target)
        after = self.text_after(self._uuid(planned.target))
        if after != self._host.read(FSTAB):
            self._host.write(FSTAB, after)
            self._host.run(["systemctl", "daemon-reload"])
        if not self._live:
            self._host.make_directory(spec.path)
            self._call("mount", spec.path)
        if planned.format:
            self._call("chmod", spec.mode, spec.path)

    def _uuid(self, target: str) -> str:
        return storage_disks.with_content(self._host, Disk(target)).uuid

    def _call(self, *args: str) -> None:
        rc, out, err = self._host.run(list(args))
        if rc != 0:
            raise StorageError(f"{' '.join(args)} exited {rc}: {(err or out).strip()}")
