# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module azure_scale_set."""

from __future__ import annotations

import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import task
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import session

_OPTIONS: dict[str, t.Any] = {
    "resource_group": {"type": "str", "required": True},
    "cluster": {"type": "str", "required": True},
    "set": {"type": "str", "required": True},
    "count": {"type": "int"},
    "remove": {"type": "list", "elements": "str", "default": []},
    "limit": {"type": "int", "default": 0},
}


class ActionModule(ActionBase):
    """Read a set of nodes in Azure, grow it, or remove named nodes from it."""

    _requires_connection = False
    _supports_check_mode = True

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the set after the task."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        __, arguments = self.validate_argument_spec(argument_spec={**session.argument_spec(), **_OPTIONS})
        try:
            session.refuse_empty(arguments, ("resource_group", "cluster", "set"))
            task.check(arguments["count"], arguments["remove"], arguments["limit"])
            result.update(session.run(arguments, lambda found: self._scaled(found, arguments), self._tell))
        except task.ShortError as exc:
            result.update(exc.result, failed=True, msg=str(exc))
        except AzureInventoryError as exc:
            result.update(failed=True, msg=str(exc))
        return result

    def _scaled(self, found: session.Session, arguments: dict[str, t.Any]) -> dict[str, t.Any]:
        deadline = Deadline(float(arguments["timeout"]))
        asked = task.Asked(
            group=f"/subscriptions/{found.subscription}/resourceGroups/{arguments['resource_group']}",
            cluster=arguments["cluster"],
            set=arguments["set"],
            machines=arguments["count"],
            remove=tuple(arguments["remove"]),
            limit=arguments["limit"],
        )
        done = task.run(found.writer, asked, deadline.left, self._tell, bool(self._task.check_mode))
        return {**done, "requests": found.counter.value}

    def _tell(self, line: str) -> None:
        self._display.display(line)
