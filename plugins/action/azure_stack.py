# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module azure_stack."""

from __future__ import annotations

import os
import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import inputs, session, stack
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Scope
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain

SPEC: dict[str, t.Any] = {
    "cluster": {"type": "raw", "required": True},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "allow": {"type": "list", "elements": "str", "default": []},
    **session.SPEC,
}


class ActionModule(ActionBase):
    """Create, change or remove the deployment stack of a cluster."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the changes, or one message. Wrong input is refused before the sign-in."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        __, given = self.validate_argument_spec(argument_spec=SPEC)
        try:
            result.update(self._bring(plain(given)))
        except (AzureError, inputs.InputError) as exc:
            result.update(failed=True, changed=False, msg=str(exc))
        if not self._task.diff:
            result.pop("diff", None)
        return result

    def _bring(self, given: dict[str, t.Any]) -> dict[str, t.Any]:
        # The end of a cluster may be in the past when it is removed.
        scope = Scope(inputs.read(given["cluster"], judges_end=given["state"] == "present"))
        options = session.options(os.environ)
        asks = session.opened(scope.cluster["subscription_id"], options, given["timeout"], self._display.display)
        one = stack.Stack(asks, scope, given["allow"], bool(self._task.check_mode))
        return one.present(session.manager(options)) if given["state"] == "present" else one.absent()
