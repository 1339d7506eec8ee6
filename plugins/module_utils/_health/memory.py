# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""State between two runs of one boot, and the rule when a bad sample becomes a fault."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file

from . import verdict

_DIRECTORY_MODE = 0o755


class Memory:
    """A small file below /run; a lock prevents two programs from writing at the same time."""

    def __init__(self, directory: str, boot_id: str) -> None:
        """Store the directory and the boot ID; the memory of another boot is ignored."""
        self._directory = directory
        self._boot_id = boot_id
        self._lock: int | None = None
        self.checks: dict[str, dict[str, t.Any]] = {}
        self.mark: dict[str, t.Any] = {}
        self.verdicts: dict[str, str] = {}  # the last status of each check, for the monitoring
        self.trouble = ""

    @property
    def path(self) -> str:
        """Return the path of the memory file."""
        return f"{self._directory}/state.json"

    @property
    def _missed(self) -> str:
        return f"{self._directory}/missed"

    def load(self, wait: float = 2.0) -> None:
        """Load the stored state; unreadable state counts as empty."""
        try:
            os.makedirs(self._directory, _DIRECTORY_MODE, exist_ok=True)  # noqa: PTH103 (a Path costs start time)
            self._take_lock(wait)
        except OSError as exc:
            self.trouble = f"{self._directory}: {exc.strerror}"
        with contextlib.suppress(OSError, ValueError, AttributeError, TypeError, LookupError):
            with open(self.path, encoding="utf-8") as stream:  # noqa: PTH123
                kept = json.load(stream)
            if kept.get("boot_id") == self._boot_id:
                checks = {name: dict(value) for name, value in dict(kept["checks"]).items()}
                self.checks, self.mark = checks, dict(kept["mark"])
                self.verdicts = dict(kept.get("verdicts") or {})
        if self._lock is not None:
            self._read_missed()

    def save(self) -> None:
        """Write the state atomically, unless another program holds the lock."""
        if self._lock is None:
            self._note_missed()
            return
        kept = {"boot_id": self._boot_id, "checks": self.checks, "mark": self.mark, "verdicts": self.verdicts}
        try:
            whole_file.replace(self.path, json.dumps(kept).encode(), 0o644)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self._missed}.read")  # noqa: PTH108
        except OSError as exc:
            self.trouble = f"{self.path}: {exc.strerror}"

    def _note_missed(self) -> None:
        """
        Make the next run query Slurm.

        This run may have drained the node, but cannot store that while another program holds the lock.
        """
        if not self.mark.get("clean"):
            with contextlib.suppress(OSError):
                os.close(os.open(self._missed, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644))

    def _read_missed(self) -> None:
        """Query Slurm if there is a note. Rename it, so that saving deletes no note that was written since."""
        read = f"{self._missed}.read"
        with contextlib.suppress(OSError):
            os.replace(self._missed, read)  # noqa: PTH105
        if os.path.exists(read):  # noqa: PTH110
            self.mark["clean"] = False

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _take_lock(self, wait: float) -> None:
        descriptor = os.open(f"{self._directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)  # who can read a file can lock it; older releases made it 0644
        end = time.monotonic() + wait
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._lock = descriptor
                return
            except BlockingIOError:
                if time.monotonic() >= end:
                    os.close(descriptor)
                    self.trouble = "another run holds the lock, so this one remembers nothing"
                    return
                time.sleep(0.05)


def settle(
    finding: verdict.Finding, before: dict[str, t.Any], params: dict[str, t.Any], now: float
) -> tuple[str, str, dict[str, t.Any]]:
    """
    Return the verdict of a sample and the samples before it.

    A bad sample becomes a fault after I(samples) bad samples in a row. Samples closer than I(gap_seconds) count as one.
    An unknown sample becomes unhealthy after I(unknown_samples) in a row: a tool that never answers is a fault.
    """
    kind = finding.status
    limit = {verdict.UNHEALTHY: params.get("samples", 1), verdict.UNKNOWN: params.get("unknown_samples", 3)}.get(kind)
    after: dict[str, t.Any] = {"keep": before.get("keep") if finding.keep is None else finding.keep}
    if limit is None:
        return kind, finding.reason, after
    if finding.explained:
        return kind, finding.reason, {**before, **after}
    count = _count(kind, before, now, params.get("gap_seconds", 5))
    after["row"] = {"kind": kind, "count": count[0], "time": count[1]}
    if count[0] >= limit:
        suffix = f" ({count[0]} samples in a row)" if limit > 1 else ""
        return verdict.UNHEALTHY, finding.reason + suffix, after
    if kind == verdict.UNKNOWN:
        return verdict.UNKNOWN, finding.reason, after
    return verdict.SUSPECT, f"{finding.reason} (bad sample {count[0]} of {limit})", after


def _count(kind: str, before: dict[str, t.Any], now: float, gap: float) -> tuple[int, float]:
    row = before.get("row")
    if not isinstance(row, dict) or row.get("kind") != kind or row.get("time", now + 1) > now:
        return 1, now
    if now - row["time"] < gap:
        return row["count"], row["time"]
    return row["count"] + 1, now
