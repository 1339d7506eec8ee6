# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the content of the disks of a host with lsblk, blkid and mdadm. Nothing is written."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

COLUMNS = "NAME,TYPE,SIZE,RO,MODEL,MOUNTPOINT"
HEAD_BYTES = 1024 * 1024


class Disk(t.NamedTuple):
    """A disk or an array."""

    path: str
    type: str = "disk"
    size: int = 0
    model: str = ""
    content: str = ""  # type of its content, such as ext4 or linux_raid_member; empty if it has none
    label: str = ""
    uuid: str = ""
    mountpoints: tuple[str, ...] = ()  # of the disk and of everything on it
    children: tuple[str, ...] = ()  # types of its direct children: part, raid0 ...
    array: str = ""  # the array that it belongs to
    idle: bool = False  # the array is not running, for example after a boot with a missing member

    def __str__(self) -> str:
        """Return the description of the disk in messages."""
        return f"{self.path} ({self.size / 1e9:.1f} GB{', ' + self.model if self.model else ''})"


class Array(t.NamedTuple):
    """The data of an array in the superblock of a member."""

    name: str
    uuid: str
    level: str
    devices: int


def disks(host: Host) -> list[Disk]:
    """Return all disks as lsblk lists them, without their content."""
    rc, out, err = host.run(["lsblk", "--json", "--bytes", "--paths", "--output", COLUMNS])
    if rc != 0:
        raise StorageError(f"lsblk exited {rc}: {err.strip()}")
    return [_disk(entry, _holders(host, entry["name"])) for entry in json.loads(out)["blockdevices"]]


def _holders(host: Host, path: str) -> list[str]:
    """Return the arrays that a disk belongs to. lsblk may omit an array that is not running."""
    names = host.entries(f"/sys/block/{path.rpartition('/')[2]}/holders") or []
    return [f"/dev/{name}" for name in names if name.startswith("md")]


def _disk(entry: dict[str, t.Any], holders: list[str]) -> Disk:
    children = entry.get("children") or []
    sizes = {child["name"]: int(child.get("size") or 0) for child in children}
    arrays = [child["name"] for child in children if str(child["type"]).startswith("raid")] or holders
    return Disk(
        path=entry["name"],
        type=entry["type"],
        size=int(entry.get("size") or 0),
        model=str(entry.get("model") or "").strip(),
        mountpoints=tuple(_mountpoints(entry)),
        children=tuple(str(child["type"]) for child in children),
        array=arrays[0] if arrays else "",
        idle=bool(arrays) and not sizes.get(arrays[0]),
    )


def _mountpoints(entry: dict[str, t.Any]) -> t.Iterator[str]:
    if entry.get("mountpoint"):
        yield entry["mountpoint"]
    for child in entry.get("children") or []:
        yield from _mountpoints(child)


def local_drives(found: list[Disk], exclude_models: t.Sequence[str]) -> list[Disk]:
    """Return the NVMe drives whose model is not excluded, sorted by name."""
    drives = [disk for disk in found if disk.type == "disk" and disk.path.startswith("/dev/nvme")]
    return sorted((disk for disk in drives if not _excluded(disk, exclude_models)), key=lambda disk: disk.path)


def _excluded(disk: Disk, models: t.Sequence[str]) -> bool:
    return any(model.lower() in disk.model.lower() for model in models)


def with_content(host: Host, disk: Disk) -> Disk:
    """Return a disk with its content. blkid reads the device, not its cache."""
    rc, out, err = host.run(["blkid", "--probe", "--output", "export", disk.path])
    if rc == 8:
        return disk._replace(content="several file systems at once")
    if rc == 2:
        blank = not host.head(disk.path, HEAD_BYTES).strip(b"\0")
        return disk._replace(content="" if blank else "data of no known form")
    if rc != 0:
        raise StorageError(f"blkid exited {rc} on {disk.path}: {err.strip()}")
    values = pairs(out)
    content = values.get("TYPE") or f"a {values.get('PTTYPE', 'strange')} partition table"
    return disk._replace(content=content, label=values.get("LABEL", ""), uuid=values.get("UUID", ""))


def array_of(host: Host, path: str) -> Array:
    """Return the array that the superblock of a member describes."""
    rc, out, err = host.run(["mdadm", "--examine", "--export", path])
    if rc != 0:
        raise StorageError(f"mdadm cannot read the superblock of {path}: {err.strip()}")
    values = pairs(out)
    try:
        return Array(
            values["MD_NAME"].rpartition(":")[2], values["MD_UUID"], values["MD_LEVEL"], int(values["MD_DEVICES"])
        )
    except (KeyError, ValueError):
        raise StorageError(f"mdadm says something unexpected of {path}: {out.strip()!r}") from None


def pairs(text: str) -> dict[str, str]:
    """Return lines of the form NAME=value as a dictionary, without the backslashes with which blkid escapes values."""
    return {
        name: value.replace("\\", "")
        for name, _equals, value in (line.partition("=") for line in text.splitlines())
        if _equals
    }
