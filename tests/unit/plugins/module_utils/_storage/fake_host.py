# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""A machine in memory: files, directories, a table of mounts, and programs that act on them."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.fstab import parse, unit_name
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

if t.TYPE_CHECKING:
    from collections.abc import Sequence

ROOT_LINE = "24 1 254:0 / / rw,noatime shared:1 - ext4 /dev/vda rw"


class FakeHost(Host):
    """Behaves like mount, umount, systemctl and the kernel's table of mounts."""

    def __init__(self, fstab: str = "/dev/vda / ext4 noatime 0 1\n") -> None:
        super().__init__(self._act)
        self.files = {"/etc/fstab": fstab, "/proc/filesystems": "nodev\tnfs\nnodev\tnfs4\nnodev\tnfsd\n"}
        self.directories: dict[str, list[str]] = {"/": ["home"], "/home": []}
        self.mounts: dict[str, tuple[str, str, str]] = {}  # path: source, type, options
        self.armed: set[str] = set()  # autofs waits there
        self.busy: set[str] = set()
        self.silent: set[str] = set()
        self.refused: set[str] = set()  # paths that the server refuses
        self.exports: dict[str, list[str]] = {}  # what lies on the server, by source
        self.calls: list[list[str]] = []
        self.heads: dict[str, bytes] = {}
        self.answers: dict[tuple[str, ...], tuple[int, str, str]] = {}

    # ---- what Host does with the real ones

    def read(self, path: str) -> str:
        return self.mountinfo() if path == "/proc/self/mountinfo" else self.files.get(path, "")

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        self.files[path] = text

    def remove(self, path: str) -> None:
        self.files.pop(path, None)

    def entries(self, path: str) -> list[str] | None:
        if path in self.mounts:
            return self.exports.get(self.mounts[path][0], [])
        return self.directories.get(path)

    def make_directory(self, path: str) -> None:
        self.directories.setdefault(path, [])

    def head(self, path: str, size: int) -> bytes:
        return self.heads.get(path, b"\0" * 16)[:size]

    def real_path(self, path: str) -> str:
        return path

    def connect(self, host: str, port: int, seconds: float) -> str:
        return f"10.0.0.9 port {port}: timed out" if host in self.silent else ""

    def mountinfo(self) -> str:
        lines = [ROOT_LINE]
        lines += [f"30 24 0:30 / {path} rw shared:9 - autofs systemd-1 rw,fd=51" for path in sorted(self.armed)]
        for path, (source, kind, options) in self.mounts.items():
            lines.append(f"40 24 0:40 / {path} rw shared:11 - {kind} {source} {options}")
        return "\n".join(lines) + "\n"

    # ---- programs

    def _act(self, args: Sequence[str]) -> tuple[int, str, str]:
        self.calls.append(list(args))
        if tuple(args) in self.answers:
            return self.answers[tuple(args)]
        tool = {"timeout": self._umount, "systemctl": self._systemctl, "mount": self._mount, "umount": self._umount}
        return tool.get(args[0], lambda _args: (0, "", ""))(args)

    def _umount(self, args: Sequence[str]) -> tuple[int, str, str]:
        if args[-1] in self.busy:
            return 32, "", "umount: target is busy."
        self.mounts.pop(args[-1], None)
        return 0, "", ""

    def _mount(self, args: Sequence[str]) -> tuple[int, str, str]:
        if "-t" in args:
            self.mounts[args[-1]] = (args[-2], "nfs4", "rw")
        return 0, "", ""

    def _systemctl(self, args: Sequence[str]) -> tuple[int, str, str]:
        for line in filter(None, map(parse, self.files["/etc/fstab"].splitlines())):
            if args[1:] == ["start", unit_name(line.path, "automount")]:
                self.armed.add(line.path)
            if args[1:] == ["start", unit_name(line.path, "mount")]:
                if line.path in self.refused:
                    return 1, "", "Job for home.mount failed."
                nconnect = next((word for word in line.options.split(",") if word.startswith("nconnect")), "nconnect=1")
                shared = [
                    options
                    for source, _kind, options in self.mounts.values()
                    if source.split(":")[0] == line.source.split(":")[0]
                ]
                self.mounts[line.path] = (line.source, "nfs4", shared[0] if shared else f"rw,{nconnect}")
        if args[1] == "stop":
            self.armed = {path for path in self.armed if unit_name(path, "automount") != args[2]}
        return 0, "", ""
