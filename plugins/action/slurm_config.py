# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module slurm_config."""

from __future__ import annotations

import time
import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import config_state
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import config_plan, files

_TRIES, _DELAY = 6, 2
# Twice the collection's MessageTimeout.
_RECONFIGURE = ["timeout", "--kill-after=5", "120", "scontrol", "reconfigure"]


class ModuleFailed(Exception):  # noqa: N818
    """A module failed; the message is the reason."""


class ActionModule(ActionBase):
    """Write the configuration of Slurm on a controller, and apply it in the least disruptive way."""

    _supports_check_mode = True
    _variables: dict[str, t.Any]

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Read the current files, decide on the changes or refuse them, write the files and apply them."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        __, arguments = self.validate_argument_spec(argument_spec={"inputs": {"type": "dict", "required": True}})
        self._variables = task_vars or {}
        try:
            result.update(self._bring(plain(arguments["inputs"])))
        except (config_plan.Refused, ModuleFailed, ValueError) as exc:
            result.update(failed=True, msg=str(exc))
        return result

    def _present(self, inputs: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the present configuration of the controller."""
        asked = {"files": files.names(inputs), "delegated": inputs["slurm_containment"] == "auto"}
        return self._module("hpcai.gpucluster.slurm_config_info", asked)

    def _plan(self, inputs: dict[str, t.Any], present: dict[str, t.Any]) -> config_plan.Plan:
        """Return the plan, or refuse what would lose jobs."""
        wanted = config_plan.plan(inputs, present)
        if wanted.risky and not inputs["slurm_allow_job_loss"] and self._has_jobs():
            raise config_plan.Refused(config_plan.refusal(wanted))
        return wanted

    def _bring(self, inputs: dict[str, t.Any]) -> dict[str, t.Any]:
        wanted = self._plan(inputs, self._present(inputs))
        result: dict[str, t.Any] = {
            "changed": bool(wanted.write or wanted.needed),
            "cgroup": wanted.cgroup,
            "files": list(wanted.write),
            "actions": wanted.needed,
        }
        to_write = wanted.module_files()
        if to_write:
            written = self._module("hpcai.gpucluster.file_set", {"files": to_write})
            result["diff"] = [one for one in written.get("diff", []) if one["after_header"] != config_state.PENDING]
        if wanted.needed and not self._task.check_mode:
            self._apply(restart=wanted.restarts)
        return result

    def _has_jobs(self) -> bool:
        """Return whether a change would put nodes or jobs at risk."""
        asked = {"files": [], "jobs": True}
        return bool(self._module("hpcai.gpucluster.slurm_config_info", asked)["at_risk"])

    def _apply(self, restart: bool) -> None:
        """
        Apply the files to the daemons, then remove the record of pending actions.

        A controller that is down is started, because an earlier configuration may have prevented its start.
        """
        way = "slurmctld restarts" if restart else "all daemons read it again"
        self._display.display(f"The configuration of Slurm is written; {way}.")
        state = "restarted" if restart else "started"
        try:
            self._module("ansible.builtin.systemd_service", {"name": "slurmctld", "state": state})
            self._reconfigure()
        except ModuleFailed as exc:
            # It fails, with the reason that slurmctld gives.
            self._module("hpcai.gpucluster.daemon", {"name": "slurmctld", "failure": f"{exc}."})
            raise
        note = {"path": config_state.PENDING, "state": "absent"}
        self._module("hpcai.gpucluster.file_set", {"files": [note]})

    def _reconfigure(self) -> None:
        """Make the controller and all nodes read their files again; retry while the controller starts."""
        for left in reversed(range(_TRIES)):
            try:
                self._module("ansible.builtin.command", {"argv": _RECONFIGURE})
            except ModuleFailed:
                if not left:
                    raise
                time.sleep(_DELAY)
            else:
                return

    def _module(self, name: str, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        """Run a module on the controller."""
        answer: dict[str, t.Any] = self._execute_module(
            module_name=name, module_args=arguments, task_vars=self._variables
        )
        if answer.get("failed"):
            raise ModuleFailed(f"{name.rpartition('.')[2]}: {answer.get('stderr') or answer.get('msg')}")
        return answer
