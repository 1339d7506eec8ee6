# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Keep a record of the locked clocks, because no driver can read them back.

The record is under /run, so it ends with the boot. It also becomes invalid after a reload of the driver, because both
stamps are compared. The program that the role gpu installs writes the same file.
"""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file

PATH = "/run/hpcai/nvidia_clocks.json"


class Lock(t.NamedTuple):
    """
    The locked clocks of one GPU, in MHz. None means that the GPU is known to be unlocked.

    refused lists the parts (graphics, memory) that this GPU does not lock.
    """

    graphics: tuple[int, int] | None
    memory: int | None
    refused: tuple[str, ...] = ()

    def without(self, *parts: str) -> Lock:
        """Return the lock without the parts that the GPU refused."""
        return Lock(
            graphics=None if "graphics" in parts else self.graphics,
            memory=None if "memory" in parts else self.memory,
            refused=tuple(dict.fromkeys((*self.refused, *parts))),
        )


def stamps(root: str = "/") -> dict[str, str]:
    """
    Return values that change with each boot and each load of the driver.

    The inode number of the module's directory is new after each load. Times in sysfs are not reliable: the kernel
    generates them when the directory is read.
    """
    base = Path(root)
    return {
        "boot": _read(base / "proc/sys/kernel/random/boot_id"),
        "driver": f"{_inode(base / 'sys/module/nvidia')} {_read(base / 'sys/module/nvidia/version')}".strip(),
    }


def load(path: str, now: dict[str, str]) -> dict[str, Lock]:
    """Return the locks by GPU UUID. Ignore a file that is missing, unreadable, or of an earlier boot or driver."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        if content["stamps"] != now:
            return {}
        return {str(uuid): _lock(entry) for uuid, entry in content["gpus"].items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError):
        return {}


def save(path: str, now: dict[str, str], locks: dict[str, Lock]) -> None:
    """Write the record atomically, readable by all users and writable by its owner."""
    target = Path(path)
    target.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    content = {"stamps": now, "gpus": {uuid: lock._asdict() for uuid, lock in sorted(locks.items())}}
    whole_file.replace(path, json.dumps(content).encode(), 0o644)


def _lock(entry: dict[str, t.Any]) -> Lock:
    graphics, memory = entry["graphics"], entry["memory"]
    return Lock(
        graphics=None if graphics is None else (int(graphics[0]), int(graphics[1])),
        memory=None if memory is None else int(memory),
        refused=tuple(str(name) for name in entry.get("refused") or ()),
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _inode(path: Path) -> int:
    try:
        return path.stat().st_ino
    except OSError:
        return 0
