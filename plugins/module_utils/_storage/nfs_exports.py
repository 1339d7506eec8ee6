# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Configure the exports of an NFS server: directories, one file of exports and the table of the kernel."""

from __future__ import annotations

import grp
import os
import pwd
import re
import stat
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

ETAB = "/var/lib/nfs/etab"
# Exists while the kernel may lack exports of the file. A boot removes it and publishes all exports.
PENDING = "/run/gpucluster-nfs-exports-pending"
HEADER = "# Ansible managed: hpcai.gpucluster.nfs_exports\n"


# A client with its options, as in exports(5): no blanks or parentheses inside.
_CLIENT = re.compile(r"[^\s()#\\\"]+(\([^\s()#\\\"]*\))?")


class Export(t.NamedTuple):
    """One exported directory. If owner, group or mode is None, that of an existing directory remains unchanged."""

    path: str
    clients: tuple[str, ...]
    owner: str | None = None
    group: str | None = None
    mode: str | None = None

    @property
    def line(self) -> str:
        """Return the line of the exports file. Raise StorageError if a value would break the line."""
        wrong = [client for client in self.clients if not _CLIENT.fullmatch(client)]
        if wrong or re.search(r"\s", self.path):
            raise StorageError(f"{wrong[0] if wrong else self.path!r} cannot stand in a line of exports")
        return " ".join([self.path, *self.clients])


# The UID or GID of a user or group that an earlier task would create.
UNKNOWN = -1


class Rights(t.NamedTuple):
    """Owner, group and mode of a directory."""

    uid: int
    gid: int
    mode: int


class Directories:
    """The directories of the machine. In check mode their owners may be missing."""

    def __init__(self, check: bool = False) -> None:
        self._check = check

    def rights(self, path: str) -> Rights | None:
        """Return owner, group and mode of a directory, or None if it is missing."""
        try:
            found = os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            return None
        if not stat.S_ISDIR(found.st_mode):
            raise StorageError(f"{path} is to be exported, but it is not a directory")
        return Rights(found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode))

    def make(self, path: str, rights: Rights) -> None:
        """Create a directory if it is missing, and set its owner, group and mode."""
        os.makedirs(path, mode=0o755, exist_ok=True)  # noqa: PTH103
        os.chown(path, rights.uid, rights.gid)
        os.chmod(path, rights.mode)  # noqa: PTH101  # after chown, which clears setgid

    def uid(self, owner: str) -> int:
        """Return the UID of a user."""
        try:
            return int(owner) if owner.isdigit() else pwd.getpwnam(owner).pw_uid
        except KeyError:
            if self._check:
                return UNKNOWN
            raise StorageError(f"there is no user {owner} on this machine to own an exported directory") from None

    def gid(self, group: str) -> int:
        """Return the GID of a group."""
        try:
            return int(group) if group.isdigit() else grp.getgrnam(group).gr_gid
        except KeyError:
            if self._check:
                return UNKNOWN
            raise StorageError(f"there is no group {group} on this machine to own an exported directory") from None


class Plan(t.NamedTuple):
    """The planned changes."""

    directories: dict[str, tuple[Rights | None, Rights]]
    before: str
    after: str
    publish: bool  # the kernel lacks some of the exports

    @property
    def changed(self) -> bool:
        """Return whether the plan contains changes."""
        return bool(self.directories) or self.before != self.after or self.publish


def plan(exports: list[Export], host: Host, directories: Directories, file: str) -> Plan:
    """Compare the directories, the file and the table of the kernel with the wanted exports."""
    changes = {}
    for export in exports:
        before = directories.rights(export.path)
        after = _rights(export, before, directories)
        if before != after:
            changes[export.path] = (before, after)
    text = HEADER + "".join(f"{export.line}\n" for export in exports) if exports else ""
    current = host.read(file)
    known = {line.split()[0] for line in host.read(ETAB).splitlines() if line.strip()}
    told = current == text and not host.read(PENDING) and {export.path for export in exports} <= known
    return Plan(changes, current, text, publish=not told)


def _rights(export: Export, before: Rights | None, directories: Directories) -> Rights:
    rights = before or Rights(0, 0, 0o755)
    return Rights(
        uid=rights.uid if export.owner is None else directories.uid(export.owner),
        gid=rights.gid if export.group is None else directories.gid(export.group),
        mode=rights.mode if export.mode is None else int(export.mode, 8),
    )


def apply(planned: Plan, host: Host, directories: Directories, file: str) -> None:
    """Apply a plan."""
    for path, (_before, after) in planned.directories.items():
        directories.make(path, after)
    if planned.publish:
        host.write(PENDING, f"{file}\n")
        if planned.before != planned.after:
            host.write(file, planned.after)
        rc, out, err = host.run(["exportfs", "-ra"])
        if rc != 0:
            raise StorageError(f"exportfs refused {file}: {(err or out).strip()}")
        host.remove(PENDING)


def elsewhere(exports: list[Export], host: Host) -> list[str]:
    """Return the paths that /etc/exports also exports. Their options mix with the managed ones."""
    named = {
        line.split()[0] for line in host.read("/etc/exports").splitlines() if line.strip() and not line.startswith("#")
    }
    return sorted(named & {export.path for export in exports})


def diff(planned: Plan, file: str) -> list[dict[str, str]]:
    """Return the differences for diff mode."""
    parts = [{"before_header": file, "after_header": file, "before": planned.before, "after": planned.after}]
    for path, (before, after) in planned.directories.items():
        parts.append({"before_header": path, "after_header": path, "before": _shown(before), "after": _shown(after)})
    return parts


def _shown(rights: Rights | None) -> str:
    if not rights:
        return "absent\n"
    owner, group = ("not there yet" if number == UNKNOWN else number for number in (rights.uid, rights.gid))
    return f"owner {owner}, group {group}, mode {rights.mode:04o}\n"
