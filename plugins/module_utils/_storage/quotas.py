# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Limit the space that each user has on an XFS file system.

XFS copies the default limit to a user with the first file of that user, and never again. So a changed default must be
set for each user that has files, and a user who loses a limit of their own must get the default explicitly.
"""

from __future__ import annotations

import itertools
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import fstab
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

MOUNTINFO = "/proc/self/mountinfo"
# XFS keeps the default limit with root, who has none.
DEFAULT_UID = 0
SIZE_FORM = "a whole number with K, M, G, T or P, such as 500G"
_SIZE = re.compile(r"(\d+)([KMGTP])")
_KIB: dict[str, int] = {unit: 1024**power for power, unit in enumerate("KMGTP")}
# #1000            24576          0    1048576     00 [--------]
_ROW = re.compile(r"#(\d+)\s+\d+\s+\d+\s+(\d+)\s")
_AT_ONCE = 500  # limits of one call; an argument list may have 128 KiB


def kib(size: str) -> int:
    """Return a size in KiB; no size is no limit. Raise ValueError for another form."""
    if not size:
        return 0
    found = _SIZE.fullmatch(size.strip().upper())
    if not found or not int(found[1]):
        raise ValueError(f"{size!r} is not {SIZE_FORM}")
    return int(found[1]) * _KIB[found[2]]


def is_size(value: t.Any) -> bool:
    """Return whether a value of the input is a size."""
    try:
        return kib(str(value)) > 0
    except ValueError:
        return False


def parse_report(text: str) -> dict[int, int]:
    """Return the hard limit in KiB of each UID from "report -u -n -N -b" of xfs_quota."""
    return {int(uid): int(limit) for uid, limit in _ROW.findall(text)}


def changes(found: Mapping[int, int], default: int, users: Mapping[int, int]) -> dict[int, int]:
    """Return the limits to set, by UID; the default is that of UID 0."""
    wanted = {**dict.fromkeys(found, default), **users, DEFAULT_UID: default}
    return {uid: limit for uid, limit in sorted(wanted.items()) if found.get(uid, 0) != limit}


def command(uid: int, limit: int) -> str:
    """Return the command of xfs_quota that sets a limit."""
    return f"limit -u -d bhard={limit}k" if uid == DEFAULT_UID else f"limit -u bhard={limit}k {uid}"


class Quotas:
    """The limits of one mounted file system."""

    def __init__(self, host: Host, path: str) -> None:
        self._host = host
        self._path = path
        self._live = fstab.mounted(host.read(MOUNTINFO)).get(path)

    def problem(self) -> str:
        """Return why limits cannot be set now, or an empty string."""
        if not self._live:
            return "nothing is mounted there"
        if self._live.type != "xfs":
            return f"{self._live.type} is mounted there, not xfs"
        if not {"usrquota", "uquota", "quota"} & set(self._live.options):
            return "mounted without quotas, which XFS cannot change while it is mounted; boot the server, or unmount it"
        return ""

    def read(self) -> dict[int, int]:
        """Return the hard limit in KiB of each UID that has files or a limit."""
        return parse_report(self._call(["report -u -n -N -b"]))

    def set(self, limits: Mapping[int, int]) -> None:
        """Set limits in KiB by UID."""
        commands = itertools.starmap(command, limits.items())
        for some in _batches(commands, _AT_ONCE):
            self._call(some)
        # xfs_quota exits with 0 although some faults prevented it.
        found = self.read()
        missed = [uid for uid, limit in limits.items() if found.get(uid, 0) != limit]
        if missed:
            raise StorageError(f"{self._path}: xfs_quota set no limit for UID {missed[0]} and {len(missed) - 1} others")

    def _call(self, commands: list[str]) -> str:
        args = ["xfs_quota", "-x", *itertools.chain.from_iterable(("-c", command) for command in commands), self._path]
        rc, out, err = self._host.run(args)
        if rc != 0 or err.strip():
            raise StorageError(f"xfs_quota of {self._path} exited {rc}: {(err or out).strip()}")
        return out


def _batches(items: Iterable[str], size: int) -> Iterable[list[str]]:
    iterator = iter(items)
    return iter(lambda: list(itertools.islice(iterator, size)), [])
