# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The processes of a user."""

from __future__ import annotations

import contextlib
import os
import typing as t
from pathlib import Path

if t.TYPE_CHECKING:
    import signal


def processes_of(uid: int, proc: Path = Path("/proc")) -> list[int]:
    """Return the processes whose real, effective or saved user is uid, as userdel sees them."""
    return sorted(int(path.name) for path in proc.iterdir() if path.name.isdigit() and uid in _owners(path / "status"))


def _owners(status: Path) -> list[int]:
    """Return the real, effective and saved uid in a status file; none for a process that has ended meanwhile."""
    with contextlib.suppress(OSError):
        for line in status.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("Uid:"):
                return [int(word) for word in line.split()[1:4]]
    return []


def end(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process, which may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
