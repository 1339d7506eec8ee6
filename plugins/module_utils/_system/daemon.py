# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Start a systemd unit, or restart it if the daemon is older than its program or configuration."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import journal

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

# InactiveExit is the time at which systemd began to start the unit. The start time of the process does not serve:
# slurmctld and slurmd reconfigure by starting a new process, which has the environment of the old one.
PROPERTIES = (
    "LoadState",
    "ActiveState",
    "UnitFileState",
    "NeedDaemonReload",
    "MainPID",
    "InactiveExitTimestampMonotonic",
)


class DaemonError(Exception):
    """The daemon cannot reach the wanted state. The message says what to do."""


class Plan(t.NamedTuple):
    """The planned changes to the unit."""

    reload: bool
    enable: bool
    action: str  # start, restart or empty
    reasons: list[str]

    @property
    def changes(self) -> bool:
        """Return whether the plan contains changes. A reload of the systemd configuration alone is no change."""
        return self.enable or bool(self.action)


def status(unit: str, host: Host) -> dict[str, str]:
    """Return the properties of the unit."""
    code, out, err = host.run(["systemctl", "show", f"--property={','.join(PROPERTIES)}", unit])
    if code:
        raise DaemonError(f"systemctl show {unit}: {err.strip() or out.strip()}")
    return dict(line.split("=", 1) for line in out.splitlines() if "=" in line)


def is_missing(found: Mapping[str, str]) -> bool:
    """Return whether the unit is missing."""
    return found.get("LoadState") != "loaded"


def plan(found: Mapping[str, str], files: Sequence[str], host: Host) -> Plan:
    """Return the planned changes to an existing unit."""
    reasons = []
    action = "start"
    if found.get("ActiveState") in ("active", "reloading"):
        reasons = _outdated(found, files, host)
        action = "restart" if reasons else ""
    return Plan(found.get("NeedDaemonReload") == "yes", found.get("UnitFileState") == "disabled", action, reasons)


def _outdated(found: Mapping[str, str], files: Sequence[str], host: Host) -> list[str]:
    reasons = []
    program = host.program(found.get("MainPID", "0"))
    if program.endswith(" (deleted)"):
        reasons.append(f"{program[: -len(' (deleted)')]} was replaced")
    started = host.boot_clock() + int(found.get("InactiveExitTimestampMonotonic") or 0) / 1e6
    return reasons + [f"{path} was changed" for path in files if host.changed_at(path) > started]


def apply(unit: str, wanted: Plan, host: Host) -> None:
    """Apply a plan."""
    if wanted.reload:
        _call(host, "daemon-reload")
    if wanted.enable:
        _call(host, "enable", unit)
    if wanted.action:
        _call(host, wanted.action, unit)


def _call(host: Host, *args: str) -> None:
    code, out, err = host.run(["systemctl", *args])
    if not code:
        return
    log = journal.why(args[1], host) if len(args) > 1 else ""
    raise DaemonError(f"systemctl {' '.join(args)}: {err.strip() or out.strip()}\n{log}".rstrip())
