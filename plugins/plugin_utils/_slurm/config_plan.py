# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Plan the changes that give a controller its configuration. Pure functions: they only transform data."""

from __future__ import annotations

import dataclasses
import json
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import config_state
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import actions, files, settings

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Inputs = Mapping[str, t.Any]

HEADER = "# Ansible managed, role hpcai.gpucluster.slurm\n"
_NOTHING = "nothing"


class Refused(Exception):  # noqa: N818 - named like what it says
    """The inputs do not fit the machine, or jobs would be lost; the message says what to do."""


@dataclasses.dataclass(frozen=True)
class Plan:
    """The files to write, and the actions that apply them."""

    cgroup: bool
    write: dict[str, str]
    actions: list[dict[str, t.Any]]
    pending: list[dict[str, t.Any]]
    configured: bool

    @property
    def needed(self) -> list[dict[str, t.Any]]:
        """Return the pending actions, including those of an interrupted run; without slurm.conf no daemon runs yet."""
        found = [one for one in [*self.pending, *self.actions] if one["action"] != _NOTHING]
        return found if self.configured else []

    @property
    def risky(self) -> bool:
        """Return whether the change puts jobs at risk."""
        return self.configured and any(one["jobs_at_risk"] for one in self.actions)

    @property
    def restarts(self) -> bool:
        """Return whether slurmctld must restart; otherwise it reloads its files."""
        return any("slurmctld" in one["restart"] for one in self.needed)

    def module_files(self) -> list[dict[str, str]]:
        """Return the files in the order of writing: the note of pending actions first, so that no action is lost."""
        note = {"path": config_state.PENDING, "content": json.dumps(self.needed), "mode": "0600"}
        texts = [{"path": f"{config_state.DIRECTORY}/{name}", "content": text} for name, text in self.write.items()]
        return [*([note] if self.needed and self.actions_needed else []), *texts]

    @property
    def actions_needed(self) -> bool:
        """Return whether this run adds pending actions."""
        return any(one["action"] != _NOTHING for one in self.actions)


def plan(inputs: Inputs, present: Mapping[str, t.Any]) -> Plan:
    """Return the plan; O(present) is the result of the module slurm_config_info."""
    cgroup = _cgroup(inputs, present.get("delegated") or ())
    texts = files.texts(inputs, cgroup)
    if inputs["slurm_x11"] and "ProctrackType=proctrack/linuxproc" in texts["slurm.conf"]:
        raise Refused(
            "slurm_x11 is true, but the controller has no control groups (unified cgroup v2), which Slurm wants for"
            " that. Set slurm_x11 to false."
        )
    found = {name: present["files"].get(name) or {"content": "", "right": False} for name in texts}
    version, drained = inputs["slurm_version"], inputs["slurm_drained"]
    return Plan(
        cgroup=cgroup,
        write={
            name: HEADER + text
            for name, text in texts.items()
            if found[name]["content"] != HEADER + text or not found[name]["right"]
        },
        actions=[actions.action(found[name]["content"], text, name, version, drained) for name, text in texts.items()],
        pending=list(present["pending"]),
        configured="slurm.conf" in present["files"],
    )


def refusal(wanted: Plan) -> str:
    """Return the reason why a change that puts jobs at risk is refused."""
    return "\n".join(
        [
            "This change would lose running jobs, and nothing was changed. Drain the cluster and set"
            " slurm_allow_job_loss=true for one run, or take the change back.",
            "A node leaves with the playbook node_remove.",
            *(warning for one in wanted.actions for warning in one["warnings"]),
        ]
    )


def _cgroup(inputs: Inputs, delegated: Sequence[str]) -> bool:
    """Return whether control groups contain jobs; slurmd does not start if one of the controllers is missing."""
    asked = inputs["slurm_containment"]
    missing = [name for name in settings.CONTROLLERS if name not in delegated]
    chosen = asked == "cgroup" or (asked == "auto" and not missing)
    if inputs["slurm_x11"] and not chosen:
        raise Refused(
            f"slurm_x11 is true, but slurmctld refuses it without control groups: slurm_containment is {asked}, and of"
            f" the controllers cpu, cpuset and memory systemd does not delegate {', '.join(missing) or 'none'}. Set"
            " slurm_x11 to false, or slurm_containment to cgroup where the nodes have them."
        )
    return chosen
