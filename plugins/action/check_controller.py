# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module check_controller."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.action import slurm_config
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts import lists
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import config_plan, refusals

_SPEC: dict[str, t.Any] = {
    "inputs": {"type": "dict", "required": True},
    "upgrade": {"type": "bool", "default": False},
    "users": {"type": "list", "elements": "raw", "default": []},
    "removed": {"type": "list", "elements": "raw", "default": []},
    "user_jobs_seconds": {"type": "int", "default": 0},
    "database": {"type": "dict", "default": {}},
    "new_database": {"type": "bool", "default": False},
    "users_only": {"type": "bool", "default": False},
    "silent": {"type": "bool", "default": False},
}
_PAUSE = 15


class ActionModule(slurm_config.ActionModule):
    """Ask a controller once, and refuse what it would refuse after other machines were changed."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Collect all refusals, so that one run shows all of them."""
        result: dict[str, t.Any] = super(slurm_config.ActionModule, self).run(tmp, task_vars)
        __, arguments = self.validate_argument_spec(argument_spec=_SPEC)
        self._variables = task_vars or {}
        try:
            problems = (self._unknown if arguments["silent"] else self._problems)(plain(arguments))
        except (slurm_config.ModuleFailed, ValueError) as exc:
            problems = [str(exc)]
        if problems:
            result.update(failed=True, problems=problems, msg="\n".join([*problems, "Nothing was changed."]))
        return {**result, "changed": False}

    def _problems(self, given: dict[str, t.Any]) -> list[str]:
        inputs = given["inputs"]
        state, users = self._state(given)
        problems = [] if given["users_only"] else self._cluster_problems(given, state)
        # The wait comes last: nobody waits for jobs where the run cannot go on anyway.
        left = 0 if problems else given["user_jobs_seconds"]
        while found := refusals.user_problems(state, users, inputs["slurm_allow_job_loss"]):
            if left <= 0:
                return problems + found
            self._display.display(f"Waiting at most {left} s more. " + "\n".join(found))
            time.sleep(min(_PAUSE, left))
            left -= _PAUSE
            state, users = self._state(given)
        return problems

    def _cluster_problems(self, given: dict[str, t.Any], state: dict[str, t.Any]) -> list[str]:
        inputs = given["inputs"]
        problems: list[str] = []
        try:
            release = {"version": inputs["slurm_version"], "upgrade": given["upgrade"]}
            self._module("hpcai.gpucluster.slurm_release", release)
        except slurm_config.ModuleFailed as exc:
            problems.append(str(exc))
        present = self._present(inputs)
        try:
            self._plan(inputs, present)
        except config_plan.Refused as exc:
            problems.append(str(exc))
        slurm_conf = present["files"].get("slurm.conf", {}).get("content", "")
        database = given["database"]
        host, is_new = inputs["slurm_database"], given["new_database"]
        return problems + (refusals.database_problems(state, database, host, slurm_conf, is_new) if host else [])

    def _unknown(self, given: dict[str, t.Any]) -> list[str]:
        """Refuse each change of a user, on a machine of a cluster whose controllers do not answer."""
        state, users = self._state(given)
        state = {**state, "jobs": {}, "problem": "no controller answers"}
        return refusals.user_problems(state, users, given["inputs"]["slurm_allow_job_loss"])

    def _state(self, given: dict[str, t.Any]) -> tuple[dict[str, t.Any], dict[str, int]]:
        """Return what the controller knows, and the wanted UIDs by name."""
        # check_input has refused lists with faults.
        accounts, __ = lists.parse(given["users"], [], given["removed"], lists.Defaults())
        users = {user.name: user.uid for user in accounts.users}
        asked = {
            "state_directory": given["inputs"]["slurm_state_directory"],
            "users": users,
            # The jobs of a user with force: true end with the processes.
            "removed": [user.name for user in accounts.removed if not user.force],
        }
        return self._module("hpcai.gpucluster.slurm_state_info", asked), users
