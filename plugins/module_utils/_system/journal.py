# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Say why a daemon does not come up: the last lines of its journal, and the next step of a known state."""

from __future__ import annotations

import json
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

# systemd adds some lines to each start, and a daemon that fails is started again and again.
_READ, _SHOWN = 100, 20
_BACKUP = "/etc/gpucluster/backup.json"
# Before its words, a daemon of Slurm writes its name or the time. Text of users stands behind other words.
_OWN = r"(?:\w+: )?(?:\[[^\]]*\] )?"
_NAME = re.compile(r"\d{8}T\d{6}Z\Z")
# By the file that slurmctld names: what it goes on without.
_LOST = {
    "afflicted jobs": "the jobs whose files are missing",
    "job": "all jobs, pending and running",
    "node": "the states of nodes: who drained a node and why, and nodes that scontrol changed",
    "partition": "what scontrol changed in partitions",
    "reservation": "all reservations",
    "trigger": "all triggers of strigger",
}


class _State(t.NamedTuple):
    """A state of a daemon that we know."""

    units: str
    line: str
    step: str | Callable[[re.Match[str], Host], str]


def why(unit: str, host: Host) -> str:
    """Return the last lines of the journal of a unit and the next step; empty if there is no journal."""
    code, out, _err = host.run(["journalctl", "--no-pager", "--output=cat", f"--lines={_READ}", f"--unit={unit}"])
    lines = [line.rstrip() for line in out.splitlines() if line.strip()] if code == 0 else []
    if not lines:
        return f"'journalctl -u {unit}' there says more."
    step = _step(unit, lines, host)
    shown = "\n".join(f"  {line}" for line in lines[-_SHOWN:])
    return f"The last lines of the journal of {unit}:\n{shown}" + (f"\nNext step: {step}" if step else "")


def _step(unit: str, lines: list[str], host: Host) -> str:
    """Return the next step for the newest line that we know."""
    for line in reversed(lines):
        for state in _STATES:
            found = re.search(state.line, line) if re.fullmatch(state.units, unit) else None
            if found:
                return state.step if isinstance(state.step, str) else state.step(found, host)
    return ""


def _incomplete(found: re.Match[str], host: Host) -> str:
    """Return the ways out of a state that slurmctld cannot read: a file is cut, as after a full disk, or too new."""
    line = found[0].lower()
    if "incompatible" in line:
        return (
            "the state files are those of a release that this slurmctld does not read. Set slurm_version to the release"
            " that wrote them."
        )
    lost = next((lost for kind, lost in _LOST.items() if kind in line), "what this file had")
    newest = _newest_backup(host)
    restore = (
        f"the newest backup of this machine is {newest}; jobs since then are lost: 'gpucluster-backup restore {newest}"
        " --part state'."
        if newest
        else "there is no backup on this machine, and 'gpucluster-backup list' on others shows theirs."
    )
    return (
        f"a state file of slurmctld is incomplete or missing. Restore it: {restore} Or start once without the file,"
        f" which loses {lost}: 'echo SLURMCTLD_OPTIONS=-i > /etc/default/slurmctld', 'systemctl restart slurmctld', and"
        " remove the file again."
    )


def _newest_backup(host: Host) -> str:
    """Return the name of the newest complete backup, or an empty string."""
    try:
        directory = json.loads(host.read(_BACKUP) or "{}").get("directory", "")
    except (OSError, ValueError, AttributeError):
        return ""
    names = [name for name in (host.entries(directory) or [] if directory else []) if _NAME.match(name)]
    whole = [name for name in names if "manifest.json" in (host.entries(f"{directory}/{name}") or [])]
    return max(whole, default="")


_STATES = (
    _State("slurmctld", rf"(?i)^{_OWN}fatal: .*start with '-i' to ignore.*", _incomplete),
    _State(
        "slurmctld",
        rf"(?i)^{_OWN}fatal: CLUSTER NAME MISMATCH",
        "set slurm_cluster_name to the name that the state directory has, which the journal shows.",
    ),
    _State(
        ".*",
        r"(?i)No space left on device|Errcode: 28\b|Disk is full",
        "the disk is full. 'df -h' shows which; free space there and run the playbook again.",
    ),
    _State(
        "slurm.*|sackd",
        r"(?i)Expired credential|Rewound credential|credential expired",
        "the clocks of the machines differ. Compare 'timedatectl' on both, and run the playbook base.yml.",
    ),
    _State(
        "slurm.*|sackd",
        r"(?i)Invalid credential",
        "the munge keys of the machines differ. Run the playbook slurm.yml without --limit.",
    ),
    _State(
        "slurm.*|sackd",
        r"(?i)If munged is up|munge.*(Failed to access|socket)",
        "munge does not run. 'systemctl status munge' says why; start it first.",
    ),
    _State(
        "slurmdbd",
        r"(?i)Access denied for user|Can't connect to .*(server|MySQL)|Connection refused.*mysql",
        "slurmdbd cannot use its database. 'systemctl status mariadb' says whether that runs. The playbook slurm.yml"
        " grants the rights.",
    ),
    _State(
        "slurmd",
        r"(?i)Unable to determine this slurmd's NodeName",
        "the host name of the machine is no name of a node. Make 'hostname -s' the name in the inventory.",
    ),
    _State(
        "slurmd|sackd",
        r"(?i)(unable to|failed to|could not) .*(fetch|load|retrieve).*conf",
        "the machine gets no configuration. slurmctld must run, and its port 6817 must be reachable from here.",
    ),
    _State(
        "munge",
        r"(?i)is insecure",
        "only root and munge may write to the path in this line, and to the directories above it. Correct its owner and"
        " mode.",
    ),
    _State(
        "mariadb",
        r"(?i)Can't init tc log|Bad magic header in tc log",
        "the log of interrupted transactions is damaged. Move /var/lib/mysql/tc.log away, and start mariadb.",
    ),
)
