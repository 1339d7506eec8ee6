# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Stop Slurm's daemons for a restore, and start them afterwards. Running jobs continue meanwhile."""

from __future__ import annotations

import re
import socket
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run

from .store import BackupError

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

# As systemctl is-active prints them.
_DOWN = ("inactive", "failed", "unknown")
_RUNS = ("active", "activating", "deactivating", "reloading", "refreshing", "maintenance")
# As scontrol ping prints them; then, for root, a banner of stars if one is down. The exit status is 1 if all are down.
_CONTROLLER = re.compile(r"Slurmctld\(\S+\) at (\S+) is (UP|DOWN)")
_ASK = ["timeout", "--kill-after=10", "120", "scontrol", "ping"]


def stop(units: Sequence[str], host: Host) -> list[str]:
    """Stop units in this order, and return those that ran. If one does not stop, the others start again."""
    stopped: list[str] = []
    for unit in units:
        try:
            if _is_down(unit, host):
                continue
            _systemctl("stop", unit, host)
        except BackupError:
            start(stopped, host)
            raise
        stopped.append(unit)
    return stopped


def start(units: Sequence[str], host: Host) -> None:
    """Start what stop stopped, in the reverse order."""
    for unit in reversed(units):
        _systemctl("start", unit, host)


def controllers_elsewhere(host: Host, required: bool) -> list[str]:
    """
    Return the other machines whose slurmctld answers. Raise BackupError if Slurm does not tell.

    Unless C(required), a machine without Slurm's commands knows none: it has only the database.
    """
    code, out, err = host.run(_ASK)
    if code == bounded_run.MISSING and not required:
        return []
    lines = [line.strip() for line in out.splitlines() if line.strip(" *")]
    found = [_CONTROLLER.fullmatch(line) for line in lines if not line.startswith("**")]
    if code not in (0, 1) or not found or None in found:
        said = " ".join((err.strip() or out.strip() or f"status {code}").split())
        raise BackupError(
            f"nothing was restored: 'scontrol ping' does not tell which controllers run ({said})."
            " Stop slurmctld on all other machines, then repeat this with --no-other-controller"
        )
    names = [one[1] for one in found if one and one[2] == "UP"]
    return [name for name in names if name.partition(".")[0] != socket.gethostname().partition(".")[0]]


def _is_down(unit: str, host: Host) -> bool:
    """Return whether a unit does not run. Raise BackupError if systemd does not tell."""
    code, out, err = host.run(["systemctl", "is-active", unit])
    state = out.strip()
    if state not in (*_DOWN, *_RUNS):
        said = err.strip() or state or f"status {code}"
        raise BackupError(f"nothing was restored: 'systemctl is-active {unit}' does not tell whether it runs ({said})")
    return state in _DOWN


def _systemctl(verb: str, unit: str, host: Host) -> None:
    code, _out, err = host.run(["systemctl", verb, unit])
    if code:
        raise BackupError(f"systemctl {verb} {unit} failed: {err.strip() or f'status {code}'}")
