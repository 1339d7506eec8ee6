# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Tell users about the deletion: terminals, the message of the day, and a reservation in Slurm."""

from __future__ import annotations

import re
import time
import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

MOTD = "/run/motd.d/gpucluster-expiry"
RESERVATION = "gpucluster_delete"
_CLOSE = 120.0  # seconds that a reservation may differ


class Notices:
    """What users see on this machine and in Slurm."""

    def __init__(self, host: Host) -> None:
        """Programs run through the host."""
        self._host = host

    def warn(self, text: str, left: float, loud: bool) -> list[str]:
        """Warn of a deletion in some seconds; loud also writes to all terminals. Return what did not work."""
        self._host.write(MOTD, f"\n*** {text} ***\n\n")
        faults = self._run(["wall", text]) if loud else []
        # Slurm uses the local clock.
        return faults + self._reserve(time.time() + left)

    def withdraw(self) -> list[str]:
        """Take the warnings back. Return what did not work."""
        self._host.remove(MOTD)
        if self._start() is None:
            return []
        return self._run(["scontrol", "delete", f"reservationname={RESERVATION}"])

    def jobs(self) -> int | None:
        """Return the number of jobs that run, or None if Slurm does not say."""
        code, out, _err = self._host.run(
            ["squeue", "--noheader", "--states=running,completing,suspended,configuring,stopped", "--format=%A"]
        )
        return len(set(out.split())) if code == 0 else None

    def _reserve(self, at: float) -> list[str]:
        """Reserve all nodes from a time on, so that no job starts that would not end before."""
        start = self._start()
        if start is not None and abs(start - at) <= _CLOSE:
            return []
        when = f"starttime={time.strftime('%Y-%m-%dT%H:%M:%S', time.localtime(at))}"
        name = f"reservationname={RESERVATION}"
        if start is not None:
            return self._run(["scontrol", "update", name, when])
        what = ["duration=unlimited", "nodes=all", "users=root", "flags=maint,ignore_jobs"]
        return self._run(["scontrol", "create", "reservation", name, when, *what])

    def _start(self) -> float | None:
        """Return the start of the reservation, or None if there is none."""
        code, out, _err = self._host.run(["scontrol", "--oneliner", "show", "reservation", RESERVATION])
        match = re.search(r"StartTime=(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)", out) if code == 0 else None
        return time.mktime(time.strptime(match[1], "%Y-%m-%dT%H:%M:%S")) if match else None

    def _run(self, command: list[str]) -> list[str]:
        code, out, err = self._host.run(command)
        return [] if code == 0 else [f"{' '.join(command[:2])} failed: {(err or out).strip()[:300]}"]
