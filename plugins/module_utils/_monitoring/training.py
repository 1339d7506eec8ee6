# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The goodput of the last training, from the events that gpucluster-torchrun writes in directories of users.

Users write these files. So a process of its own reads them, which may hang with the storage, as the user who owns the
directory, and no more than a few of them. What it prints is checked again.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import stat
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._torchrun import goodput, record

from .text import Sample, sample

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

# What the role training writes on the machine that it runs on.
CONFIG = "/etc/gpucluster/training.json"
_USERS, _RUNS, _FILES, _ENTRIES = 20, 50, 3, 10_000
_BYTES = 4 << 20
_MOST = 1e12  # above each time
_KEYS = {"job", "user", "goodput", "seconds", "faults", "time"}
Found = t.Mapping[str, t.Any]


class _Entry(t.NamedTuple):
    """A directory or file, with the time of its last change."""

    changed: float
    path: str
    about: os.stat_result


def main(runs: str) -> int:
    """Print the last training as JSON, or nothing."""
    sys.stdout.write(f"{json.dumps(last(runs, time.time()))}\n")
    return 0


def last(runs: str, now: float) -> dict[str, t.Any]:
    """Return the minutes of the run whose events changed last; nothing if none can be read."""
    files: list[tuple[float, str]] = []
    for directory in _newest(runs, _USERS):
        with _acting_as(directory.about), contextlib.suppress(OSError):
            found = [(one.changed, one.path) for one in _events(directory.path) if one.changed <= now + 60]
            # To read many files of one user that say nothing could take all the time.
            files += sorted(found)[-_FILES:]
    for changed, path in sorted(files, reverse=True):
        known: goodput.Known = {}
        with contextlib.suppress(OSError), _acting_as(Path(path).parent.parent.lstat()):
            known = goodput.summaries([Path(path)])
        for (job, user), summary in known.items():
            if job and summary.allocated > 0:
                about = {"job": job[:40], "user": user[:64], "goodput": round(summary.goodput, 4)}
                times = {"time": round(changed), "seconds": round(summary.allocated)}
                return {**about, **times, "faults": len(summary.faults)}
    return {}


def read(host: Host, program: str) -> dict[str, t.Any]:
    """Return the last training below the directory that the role training names; nothing without the role."""
    config = json.loads(host.read(CONFIG) or "{}")
    if not config:
        return {}
    code, out, err = host.run([sys.executable, program, "--training", config["runs"]])
    if code:
        raise ValueError(f"the runs in {config['runs']} cannot be read: {err.strip()[-200:] or code}")
    return parse(out)


def _newest(directory: str, most: int) -> list[_Entry]:
    """Return the directories in one that changed last; no links."""
    found = []
    with os.scandir(directory) as entries:
        for _number, entry in zip(range(_ENTRIES), entries):
            with contextlib.suppress(OSError):
                about = entry.stat(follow_symlinks=False)
                if stat.S_ISDIR(about.st_mode):
                    found.append(_Entry(about.st_mtime, entry.path, about))
    return sorted(found, reverse=True, key=lambda one: one.changed)[:most]


def _events(user: str) -> t.Iterator[_Entry]:
    for run in _newest(user, _RUNS):
        path = f"{run.path}/{record.NAME}"
        with contextlib.suppress(OSError):
            about = os.lstat(path)
            if stat.S_ISREG(about.st_mode) and about.st_size <= _BYTES:
                yield _Entry(about.st_mtime, path, about)


@contextlib.contextmanager
def _acting_as(owner: os.stat_result) -> t.Iterator[None]:
    """Read as the owner of a directory: others may not see it, and no link of the owner leads further."""
    if os.geteuid() != 0:
        yield
        return
    groups = os.getgroups()
    os.setgroups([])
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(groups)


def parse(text: str) -> dict[str, t.Any]:
    """Return the last training; empty if there is none. Raise ValueError for what is none."""
    found = json.loads(text)
    if not isinstance(found, dict) or (found and found.keys() != _KEYS):
        raise ValueError("the last training has an unknown format")
    for name in found.keys() & {"goodput", "seconds", "faults", "time"}:
        most = 1 if name == "goodput" else _MOST
        if not isinstance(found[name], (int, float)) or math.isnan(found[name]) or not 0 <= found[name] <= most:
            raise ValueError(f"the last training has {str(found[name])[:60]!r} as {name}")
    return found


def samples(found: Found) -> list[Sample]:
    """Return goodput and time of the last training."""
    if not found:
        return []
    return [
        sample("gpucluster_training_goodput_ratio", found["goodput"], user=found["user"]),
        sample("gpucluster_training_timestamp_seconds", found["time"]),
    ]
