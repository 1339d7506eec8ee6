# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find faults in the inputs for shared and local storage. Pure: data in, sentences out."""

from __future__ import annotations

import ipaddress
import itertools
import posixpath
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.modes import mode_problem
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import nfs as data
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.types import is_address

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Record = Mapping[str, t.Any]

EXPORT_ROOTS = ["/home", "/shared", "/srv", "/data", "/export", "/exports", "/mnt", "/opt", "/scratch", "/sw"]
# System directories: nothing may be mounted over them.
SYSTEM_DIRECTORIES = {
    "/",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib64",
    "/proc",
    "/root",
    "/run",
    "/sbin",
    "/sys",
    "/tmp",  # noqa: S108  # a mount point to refuse
    "/usr",
    "/var",
}
KERNEL_DIRECTORIES = ("/dev/", "/proc/", "/sys/", "/run/")
FILESYSTEMS = ("xfs", "ext4")
# Level of md RAID and the minimum number of devices.
RAID_LEVELS = {"raid0": 2, "raid1": 2, "raid5": 3, "raid6": 4, "raid10": 2}
LISTS: dict[str, tuple[type, str]] = {
    "nfs_exports": (dict, "a mapping such as {path: /home}"),
    "nfs_mounts": (dict, "a mapping such as {path: /home}"),
    "nfs_volumes": (dict, "a mapping with name, path and devices"),
    "nfs_export_roots": (str, "a path"),
    "scratch_devices": (str, "a path below /dev"),
    "scratch_wipe": (str, "a path below /dev"),
}
LIMITS = {
    "nfs_threads": (0, 4096),
    "nfs_read_ahead_kib": (128, 1048576),
    "nfs_timeout_seconds": (1, 300),
    "scratch_drive_count": (-1, 64),
}
_PATH = re.compile(r"/[A-Za-z0-9._/+@:-]*")
_HOST = re.compile(r"@?[A-Za-z0-9*?]([A-Za-z0-9.*?_-]*[A-Za-z0-9*?])?")
_EXPORT_OPTION = re.compile(r"-?[a-z_]+(=[A-Za-z0-9_.:/@+-]+)?")
_RAW_EXPORT = re.compile(r" *[^\s()]+\([A-Za-z0-9_.:/@+=,-]*\)( +[^\s()]+\([A-Za-z0-9_.:/@+=,-]*\))* *")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]*")
SIZE_FORM = "a whole number with K, M, G, T or P, such as 500G"
_SIZE = re.compile(r"[1-9][0-9]*[KMGTP]", re.IGNORECASE)
_SOURCE = {
    "nfs": re.compile(r"(\[[0-9A-Fa-f:%.]+\]|[A-Za-z0-9_.-]+):/\S*"),
    "lustre": re.compile(r"[A-Za-z0-9_.@,:-]+:/[A-Za-z0-9_/-]+"),
}
_SOURCE["nfs4"] = _SOURCE["nfs"]


def problems(settings: Record) -> list[str]:
    """Return one sentence per fault; the keys are names of the roles' variables, and any may be missing."""
    parts = (_exports, _mounts, _volumes, _scratch, _scratch_mount, _numbers)
    return [*_shapes(settings)] or [problem for part in parts for problem in part(settings)]


def _shapes(settings: Record) -> Iterator[str]:
    """Check the types that the other checks require."""
    for name, (kind, shape) in LISTS.items():
        value = settings.get(name)
        entries = value if isinstance(value, list) else []
        if value is not None and not isinstance(value, list):
            yield f"{name}: {value!r} is not a list"
        yield from (
            f"{name}[{index}]: {entry!r} is not {shape}"
            for index, entry in enumerate(entries)
            if not isinstance(entry, kind)
        )
    for name in LIMITS:
        value = settings.get(name)
        if value is not None and not re.fullmatch(r"\s*-?\d+\s*", str(value)):
            yield f"{name}: {value!r} is not a whole number"


def path_problem(path: t.Any) -> str:
    """Return the fault of an absolute path, or an empty string."""
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        return f"{path!r} is not an absolute path of letters, digits and ._/+@:-"
    if posixpath.normpath(path) != path or path.startswith("//"):
        return f"{path!r} is not in its shortest form; write {posixpath.normpath(path)!r}"
    return ""


def is_below(path: str, roots: t.Iterable[str]) -> bool:
    """Return whether path is one of the directories roots or below one."""
    return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def client_problem(client: str) -> str:
    """Return the fault of one client of an export, or an empty string."""
    if not client.isprintable():
        return f"{client!r} holds a control character"
    if "/" in client:
        return _network_problem(client)
    if re.fullmatch(r"[0-9.]+", client) or ":" in client:
        return "" if is_address(client) else f"{client!r} is not an IP address"
    return (
        "" if _HOST.fullmatch(client) else f"{client!r} is neither a network, an address, a host name, @netgroup nor *"
    )


def _is_server(text: str) -> bool:
    """Return whether a string can name a machine; a value of digits and dots must be an address."""
    return not re.fullmatch(r"[0-9.]+", text) or is_address(text)


def _network_problem(text: str) -> str:
    try:
        network = ipaddress.ip_interface(text)
    except ValueError:
        return f"{text!r} is not a network such as 10.0.0.0/24"
    if network.network.prefixlen == 0:
        return f"{text!r} is every machine there is; name the network of the cluster"
    if network.ip != network.network.network_address:
        return f"{text!r} has bits outside its mask; write {network.network}"
    return ""


def _overlaps(clients: list[str]) -> Iterator[tuple[str, str]]:
    networks = [
        (client, ipaddress.ip_network(client)) for client in clients if "/" in client and not _network_problem(client)
    ]
    for (one, first), (other, second) in itertools.combinations(networks, 2):
        if first.overlaps(second):
            yield one, other


def _exports(settings: Record) -> Iterator[str]:
    seen: dict[str, str] = {}
    for index, export in enumerate(settings.get("nfs_exports") or []):
        where = f"nfs_exports[{index}]"
        path = export.get("path")
        fault = path_problem(path)
        if fault:
            yield f"{where}.path: {fault}"
            continue
        if path in seen:
            yield f"{where}.path: {path} is exported by {seen[path]} already"
        seen.setdefault(path, where)
        yield from _export_tree(where, path, settings.get("nfs_export_roots") or EXPORT_ROOTS)
        yield from _export_clients(where, export, settings)
        yield from _export_choices(where, export)


def _export_tree(where: str, path: str, roots: list[str]) -> Iterator[str]:
    if not is_below(path, roots):
        yield f"{where}.path: {path} lies outside the trees that may be exported, nfs_export_roots: {', '.join(roots)}"


def _export_clients(where: str, export: Record, settings: Record) -> Iterator[str]:
    clients = data.export_clients(export, settings.get("nfs_clients"))
    if not clients:
        wish = "set its clients, or nfs_clients, or gpucluster_networks.cluster"
        yield f"{where} ({export['path']}): nobody may mount it; {wish}"
    for client in clients:
        fault = client_problem(client)
        if fault:
            yield f"{where}.clients: {fault}"
    if data.trusts_everybody(export, settings.get("nfs_clients")):
        yield f"{where}.clients: root of every machine would be root on {export['path']}; name machines, or squash root"
    for one, other in _overlaps(clients):
        yield f"{where}.clients: the networks {one} and {other} overlap; name only one of them"


def _export_choices(where: str, export: Record) -> Iterator[str]:
    if export.get("squash", "root") not in data.SQUASH:
        yield f"{where}.squash: {export['squash']!r} is none of {', '.join(data.SQUASH)}"
    mode = export.get("mode")
    if mode is not None and mode_problem(mode):
        yield f"{where}.mode: {mode!r} is not {mode_problem(mode)}"
    yield from _export_options(where, export)


def _export_options(where: str, export: Record) -> Iterator[str]:
    """Check the options of an export: they must not end its line in /etc/exports or open another bracket."""
    options: t.Any = export.get("options")
    if data.is_raw(options):
        if not _RAW_EXPORT.fullmatch(options):
            yield f"{where}.options: {options!r} is not of the form 'client(option,option) client(option)' on one line"
        return
    for option in data.split_options(options):
        if not _EXPORT_OPTION.fullmatch(option):
            yield f"{where}.options: {option!r} is no option of an export, such as ro or fsid=0"


def _mounts(settings: Record) -> Iterator[str]:
    seen: dict[str, str] = {}
    entries = []
    for index, mount in enumerate(settings.get("nfs_mounts") or []):
        where = f"nfs_mounts[{index}]"
        path = data.mount_path(mount)
        fault = path_problem(path) or _mount_point_problem(path)
        if fault:
            yield f"{where}.path: {fault}"
            continue
        if path in seen:
            yield f"{where}.path: {path} is the mount point of {seen[path]} already"
        seen.setdefault(path, where)
        entry = data.mount_entry(
            mount, str(settings.get("nfs_server_address") or ""), settings.get("nfs_mount_options")
        )
        entries.append((where, entry))
        yield from _mount_source(where, entry)
        yield from _mount_options(where, entry)
    yield from _connections(entries)


def _mount_point_problem(path: str) -> str:
    if path in SYSTEM_DIRECTORIES or path.startswith(KERNEL_DIRECTORIES):
        return f"{path} belongs to the system; nothing may be mounted over it"
    return ""


def _mount_source(where: str, entry: Record) -> Iterator[str]:
    pattern = _SOURCE.get(entry["type"])
    if pattern is None:
        yield f"{where}.type: {entry['type']!r} is none of {', '.join(_SOURCE)}"
    elif not entry["source"]:
        yield f"{where} ({entry['path']}): no server; set its server or source, or nfs_server_address"
    elif not pattern.fullmatch(entry["source"]):
        yield f"{where}.source: {entry['source']!r} is not of the form server:/path"
    elif entry["type"] != "lustre" and not _is_server(entry["source"].partition(":/")[0]):
        yield f"{where}.source: {entry['source'].partition(':/')[0]!r} is not an IP address"


def _mount_options(where: str, entry: Record) -> Iterator[str]:
    for option in entry["options"]:
        if re.search(r"[\s\"'#\\]", option):
            yield f"{where}.options: {option!r} holds a blank, a quote, # or a backslash"
    count = _nconnect(entry)
    if count is not None and not (count.isdigit() and 1 <= int(count) <= 16):
        yield f"{where}.options: nconnect={count} is outside 1 to 16"


def _nconnect(entry: Record) -> str | None:
    return next((option.partition("=")[2] for option in entry["options"] if option.startswith("nconnect=")), None)


def _connections(entries: list[tuple[str, dict[str, t.Any]]]) -> Iterator[str]:
    """Refuse different nconnect for one server: its mounts share connections, so the first value applies to all."""
    counts: dict[str, tuple[str, str | None]] = {}
    for where, entry in entries:
        if entry["type"] == "lustre":
            continue
        server = entry["source"].rpartition(":/")[0]
        first, count = counts.setdefault(server, (where, _nconnect(entry)))
        if count != _nconnect(entry):
            why = f"mounts of one server ({server}) share their connections"
            yield f"{where}.options: nconnect differs from that of {first}, but {why}"


def _volumes(settings: Record) -> Iterator[str]:
    users: dict[str, str] = {}
    for index, volume in enumerate(settings.get("nfs_volumes") or []):
        where = f"nfs_volumes[{index}]"
        fault = path_problem(volume.get("path")) or _mount_point_problem(volume["path"])
        if fault:
            yield f"{where}.path: {fault}"
        yield from _devices(where, volume.get("devices") or [], users)
        if not volume.get("devices"):
            yield f"{where}.devices: name at least one disk, best by /dev/disk/by-id"
        yield from _layout(where, volume)
        yield from _quotas(where, volume)


def _layout(where: str, volume: Record) -> Iterator[str]:
    devices = volume.get("devices") or []
    level = volume.get("level", "raid0")
    if level not in RAID_LEVELS:
        yield f"{where}.level: {level!r} is none of {', '.join(RAID_LEVELS)}"
    elif 1 < len(devices) < RAID_LEVELS[level]:
        yield f"{where}.level: {level} takes at least {RAID_LEVELS[level]} devices, {len(devices)} are named"
    if volume.get("filesystem", "xfs") not in FILESYSTEMS:
        yield f"{where}.filesystem: {volume['filesystem']!r} is none of {', '.join(FILESYSTEMS)}"
    for device in set(volume.get("wipe") or []) - set(devices):
        yield f"{where}.wipe: {device} is not among its devices"


def _quotas(where: str, volume: Record) -> Iterator[str]:
    users = volume.get("quotas") or {}
    if not isinstance(users, dict):
        yield f"{where}.quotas: {users!r} is not a mapping such as {{alice: 2T}}"
        return
    sizes = {"quota": volume["quota"]} if volume.get("quota") is not None else {}
    sizes.update({f"quotas.{name}": size for name, size in users.items()})
    yield from (
        f"{where}.{name}: {size!r} is not {SIZE_FORM}" for name, size in sizes.items() if not _SIZE.fullmatch(str(size))
    )
    if sizes and volume.get("filesystem", "xfs") != "xfs":
        yield f"{where}.filesystem: quotas need xfs, not {volume['filesystem']}"
    for name in users:
        if not _USER.fullmatch(str(name)) or str(name).isdigit() or name == "root":
            yield f"{where}.quotas: {name!r} is not the name of a user whom the server knows; root has no limit"


def _devices(where: str, devices: list[str], users: dict[str, str]) -> Iterator[str]:
    for device in devices:
        if not str(device).startswith("/dev/") or path_problem(device):
            yield f"{where}.devices: {device!r} is not a path below /dev"
        if device in users:
            yield f"{where}.devices: {device} is used by {users[device]} already"
        users[device] = where


def _scratch(settings: Record) -> Iterator[str]:
    path = settings.get("scratch_path")
    if path is not None:
        fault = path_problem(path) or _mount_point_problem(path)
        if fault:
            yield f"scratch_path: {fault}"
        if path in [data.mount_path(mount) for mount in settings.get("nfs_mounts") or []]:
            yield f"scratch_path: {path} is a mount point of nfs_mounts too"
    devices = settings.get("scratch_devices") or []
    yield from _devices("scratch_devices", devices, {})
    for device in set(settings.get("scratch_wipe") or []) - set(devices):
        yield f"scratch_wipe: {device} is not among scratch_devices; only a disk named in both is wiped"
    if settings.get("scratch_filesystem", "xfs") not in FILESYSTEMS:
        yield f"scratch_filesystem: {settings['scratch_filesystem']!r} is none of {', '.join(FILESYSTEMS)}"
    count = settings.get("scratch_drive_count")
    if devices and count and int(count) != len(devices):
        yield f"scratch_drive_count: {count}, but scratch_devices names {len(devices)} drives"


def _scratch_mount(settings: Record) -> Iterator[str]:
    options, mode = settings.get("scratch_mount_options"), settings.get("scratch_mode")
    if options is not None and not re.fullmatch(r"[A-Za-z0-9_.:=/@+,-]+", str(options)):
        yield f"scratch_mount_options: {options!r} is not a list of options with commas, such as noatime,nodev"
    if mode is not None and mode_problem(mode):
        yield f"scratch_mode: {mode!r} is not {mode_problem(mode)}"


def _numbers(settings: Record) -> Iterator[str]:
    for name, (low, high) in LIMITS.items():
        value = settings.get(name)
        if value is not None and not low <= int(value) <= high:
            yield f"{name}: {value} is outside {low} to {high}"
