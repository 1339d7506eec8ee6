# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module validation_stage."""

from __future__ import annotations

import contextlib
import dataclasses
import time
import typing as t

from ansible.errors import AnsibleActionFail, AnsibleActionSkip, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings, stages
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Nodes, Session, StoppedError

# The stages that submit no job.
_ASKING = ("preflight", "after")


class ActionModule(ActionBase):
    """Run the modules of one stage on the host, and evaluate their results."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the stage, and the data about the nodes that the next stages need."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        spec = {
            "stage": {"type": "str", "choices": list(stages.STAGES), "required": True},
            "settings": {"type": "dict", "options": settings.SPEC, "required": True},
            "facts": {"type": "dict", "default": {}},
            "earlier": {"type": "list", "elements": "dict", "default": []},
        }
        arguments = plain(self.validate_argument_spec(argument_spec=spec)[1])
        name = arguments["stage"]
        # Without measurements, the state at the end equals the state at the beginning.
        if self._task.check_mode and name != "preflight":
            raise AnsibleActionSkip("no job runs in check mode")
        nodes = next((Nodes(**found["nodes"]) for found in reversed(arguments["earlier"]) if "nodes" in found), Nodes())
        session = Session(arguments["settings"], nodes, self._caller(task_vars or {}), self._sayer(name))
        stage = self._stage(name, session, arguments["facts"])
        return {**result, "changed": False, "stage": stage, "nodes": dataclasses.asdict(nodes)}

    def _stage(self, name: str, session: Session, facts: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return the stage; its jobs are cancelled on failure, even after the time limit of the task."""
        try:
            raw = stages.run(name, session, facts)
            return stages.build(name, {**raw, "ended": int(time.time())})
        except settings.SettingsError as exc:
            raise AnsibleActionFail(str(exc)) from exc
        except BaseException:
            # Ctrl-C ends this process and its connection. The module notices that without help.
            if session.submits:
                with contextlib.suppress(StoppedError):
                    session.cancel()
            raise

    def _caller(self, task_vars: dict[str, t.Any]) -> t.Callable[[str, dict[str, t.Any]], t.Mapping[str, t.Any]]:
        def call(module: str, arguments: dict[str, t.Any]) -> t.Mapping[str, t.Any]:
            try:
                return t.cast(
                    "t.Mapping[str, t.Any]",
                    plain(self._execute_module(module_name=module, module_args=arguments, task_vars=task_vars)),
                )
            except AnsibleConnectionFailure as exc:
                raise StoppedError(f"the host that submits jobs cannot be reached: {exc}") from exc

        return call

    def _sayer(self, name: str) -> t.Callable[[str], None]:
        def say(text: str) -> None:
            # Standard output may contain the result in some format.
            Display().display(f"{time.strftime('%H:%M:%S')} {name}: {text}", stderr=True)

        return say
