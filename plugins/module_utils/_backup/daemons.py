# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Stop Slurm's daemons for a restore, and start them afterwards. Running jobs continue meanwhile."""

from __future__ import annotations

import re
import socket
import typing as t

from .store import BackupError

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

_DOWN = ("inactive", "failed", "unknown", "")  # as systemctl is-active prints them
_UP = re.compile(r"^Slurmctld\(\S+\) at (\S+) is UP", re.MULTILINE)


def stop(units: Sequence[str], host: Host) -> list[str]:
    """Stop units in this order, and return those that ran. If one does not stop, the others start again."""
    stopped: list[str] = []
    for unit in units:
        if host.run(["systemctl", "is-active", unit])[1].strip() in _DOWN:
            continue
        try:
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


def controllers_elsewhere(host: Host) -> list[str]:
    """Return the other machines whose slurmctld answers. A machine without Slurm's commands knows none."""
    names = _UP.findall(host.run(["scontrol", "ping"])[1])
    return [name for name in names if name.partition(".")[0] != socket.gethostname().partition(".")[0]]


def _systemctl(verb: str, unit: str, host: Host) -> None:
    code, _out, err = host.run(["systemctl", verb, unit])
    if code:
        raise BackupError(f"systemctl {verb} {unit} failed: {err.strip() or f'status {code}'}")
