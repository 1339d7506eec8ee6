# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module long_step."""

from __future__ import annotations

import time
import typing as t
import uuid
from pathlib import Path

from ansible import constants
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs.other_action import run_action
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import inside

_SPEC = {
    "module": {"type": "str", "required": True},
    "arguments": {"type": "dict", "required": True},
    "watch": {"type": "str", "required": True},
    "lines": {"type": "int", "default": 0},
    "bytes": {"type": "int", "default": 0},
    "seconds": {"type": "int", "default": 7200},
}
_JOB_KEYS = ("ansible_job_id", "results_file", "started", "finished")


class ActionModule(ActionBase):
    """Start a module in the background, and look now and then how far it is."""

    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the result of the module."""
        super().run(tmp, task_vars)
        __, options = self.validate_argument_spec(argument_spec=_SPEC, mutually_exclusive=[("lines", "bytes")])
        if self._task.check_mode:
            return dict(self._execute_module(options["module"], options["arguments"], task_vars=task_vars))
        self._mark = uuid.uuid4().hex
        started = self._start(options, task_vars)
        if started.get("failed") or "ansible_job_id" not in started:
            return started
        try:
            result = self._wait(started["ansible_job_id"], options, task_vars)
        finally:
            inside.forget(self._reports())
        return {key: value for key, value in result.items() if key not in _JOB_KEYS}

    def _start(self, options: dict[str, t.Any], task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Start the module as a task with C(async) does."""
        environment = [*(self._task.environment or []), {inside.MARK: self._mark}]
        return run_action(
            self,
            "ansible.legacy.normal",
            options["arguments"],
            task_vars,
            action=options["module"],
            async_val=options["seconds"],
            environment=environment,
        )

    def _wait(self, job: str, options: dict[str, t.Any], task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Return the result of the module when it has ended; a connection that breaks for a while does not end it."""
        deadline = time.monotonic() + options["seconds"] + inside.MOST_PAUSE
        for pause in inside.pauses():
            time.sleep(pause)
            if time.monotonic() > deadline:
                self._kill()
                raise AnsibleActionFail(f"{options['module']} did not end within {options['seconds']} s")
            try:
                status = self._status({"jid": job}, task_vars)
                if "child_pid" in status:  # its time was over
                    self._kill()
                if status.get("finished"):
                    self._status({"jid": job, "mode": "cleanup"}, task_vars)
                    return status
                if status.get("failed") and status.get("_ansible_parsed"):
                    return status
                self._report(options)
            except AnsibleConnectionFailure as exc:
                self._display.vvv(f"long_step: {exc}")
        raise AssertionError("there is always a next pause")

    def _kill(self) -> None:
        """Kill what is left of a module whose time was over."""
        self._low_level_execute_command(inside.kill_command(f"{inside.MARK}={self._mark}"))

    def _report(self, options: dict[str, t.Any]) -> None:
        """Tell the callback how far the step is."""
        command = inside.command(self._connection._shell.quote(options["watch"]), options["lines"] > 0)
        found = self._low_level_execute_command(command)
        count = inside.count(str(found.get("stdout", "")))
        if count is not None:
            inside.report(self._reports(), count, options["lines"], options["bytes"])

    @staticmethod
    def _reports() -> Path:
        """Return the file that this run of Ansible removes at its end."""
        return inside.path(Path(constants.DEFAULT_LOCAL_TMP))  # type: ignore[attr-defined]

    def _status(self, arguments: dict[str, t.Any], task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Return the state of the job, by the action async_status."""
        return run_action(self, "ansible.legacy.async_status", arguments, task_vars)
