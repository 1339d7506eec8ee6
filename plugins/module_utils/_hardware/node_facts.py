# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read what a cluster needs of each node: versions, time, its own name, mounts and users."""

from __future__ import annotations

import ipaddress
import os
import pwd
import re
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

# The status of getent for a name that does not resolve.
_NOT_FOUND = 2


class Node:
    """A node, read through a runner and a root directory."""

    def __init__(self, run: Runner, root: Path = Path("/")) -> None:
        self._run = run
        self._root = root

    def versions(self) -> dict[str, str | None]:
        """Return the versions by component, or None for a component that is not installed."""
        return {
            "kernel": os.uname().release,
            "driver": self._driver(),
            "ofed": self._first(["ofed_info", "-s"], r"(\S+?):?\s*$"),
            "slurm": self._first(["slurmd", "-V"], r"(\d\S*)") or self._first(["sinfo", "-V"], r"(\d\S*)"),
            "nccl": self._nccl(),
        }

    def clock(self) -> dict[str, t.Any]:
        """Return whether the clock is synchronized, and its offset in seconds if that is known."""
        tracking = self._first(["chronyc", "-c", "tracking"], r"(.+)")
        if tracking and len(tracking.split(",")) > 4:
            fields = tracking.split(",")
            return {"synchronized": fields[-1] != "Not synchronised", "offset": float(fields[4]), "by": "chrony"}
        if (self._root / "run/systemd/container").exists():
            return {"synchronized": True, "offset": None, "by": "the container's host"}
        word = self._first(["timedatectl", "show", "--property=NTPSynchronized", "--value"], r"(yes|no)")
        return {"synchronized": {"yes": True, "no": False}.get(word or ""), "offset": None, "by": "timedatectl"}

    def own_name(self) -> dict[str, t.Any]:
        """
        Return the host name of this machine as C(name), and its addresses in the resolver's order as C(addresses).

        C(addresses) is None if nothing answers in 10 s, and empty if the name does not resolve.
        """
        name = os.uname().nodename
        code, out, _err = self._run(["timeout", "--kill-after=1", "10", "getent", "ahosts", name])
        found = list(dict.fromkeys(line.split()[0].partition("%")[0] for line in out.splitlines() if line.split()))
        right = found and all(map(_is_address, found))
        known = (code == 0 and right) or (code == _NOT_FOUND and not found)
        return {"name": name, "addresses": found if known else None}

    def nccl_conf(self) -> str | None:
        """Return /etc/nccl.conf; empty without the file, None if it cannot be read."""
        try:
            return (self._root / "etc/nccl.conf").read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            return ""
        except OSError:
            return None

    def mounts(self, paths: Sequence[str]) -> dict[str, str]:
        """Return the state of each path that must be a mount: C(ok), C(missing) or C(hangs)."""
        lines = (self._root / "proc/mounts").read_text(encoding="utf-8").splitlines()
        mounted = {line.split()[1].replace("\\040", " ") for line in lines}
        return {path: self._mount(path, mounted) for path in paths}

    def _mount(self, path: str, mounted: set[str]) -> str:
        """Return the state of one mount."""
        if path.rstrip("/") not in mounted and path != "/":
            return "missing"
        code, _out, _err = self._run(["timeout", "--kill-after=1", "10", "stat", "--file-system", path])
        return "ok" if code == 0 else "hangs"

    def _driver(self) -> str | None:
        """Return the version of the NVIDIA kernel driver."""
        path = self._root / "sys/module/nvidia/version"
        return path.read_text(encoding="utf-8").strip() if path.exists() else None

    def _nccl(self) -> str | None:
        """Return the version of the NCCL library on the node, without libraries in containers."""
        directories = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib")
        found = sorted(
            match.group(1)
            for directory in directories
            for path in (self._root / directory).glob("libnccl.so.*")
            for match in [re.search(r"libnccl\.so\.(\d+\.\d+\.\d+)$", path.name)]
            if match
        )
        return ",".join(dict.fromkeys(found)) or None

    def _first(self, args: Sequence[str], pattern: str) -> str | None:
        """Return the first match in the output of a command, or None if the command fails or nothing matches."""
        code, out, _err = self._run(args)
        match = re.search(pattern, out.strip()) if code == 0 else None
        return match.group(1) if match else None


def _is_address(text: str) -> bool:
    """Return whether a text is an IP address."""
    try:
        return bool(ipaddress.ip_address(text))
    except ValueError:
        return False


def users(names: Sequence[str]) -> dict[str, dict[str, int] | None]:
    """Return UID and GID by name, or None for a name that does not resolve."""
    found: dict[str, dict[str, int] | None] = {}
    for name in names:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            found[name] = None
        else:
            found[name] = {"uid": entry.pw_uid, "gid": entry.pw_gid}
    return found
