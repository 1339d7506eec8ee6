# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find and signal the processes of a user."""

from __future__ import annotations

import contextlib
import os
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    import signal


def processes_of(uid: int, proc: Path = Path("/proc")) -> list[int]:
    """Return the PIDs of processes whose real, effective or saved UID is uid, as userdel does."""
    return sorted(int(path.name) for path in proc.iterdir() if path.name.isdigit() and uid in _owners(path / "status"))


def _owners(status: Path) -> list[int]:
    """Return the real, effective and saved UID in a status file, or an empty list if the process has ended."""
    with contextlib.suppress(OSError):
        for line in status.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Uid:"):
                return [int(word) for word in line.split()[1:4]]
    return []


def end(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process. Ignore one that has already ended."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
