# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module azure_nodes_absent."""

from __future__ import annotations

import os
import typing as t

from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import inputs, removal, session
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain

SPEC: dict[str, t.Any] = {
    "cluster": {"type": "raw", "required": True},
    "nodes": {"type": "list", "elements": "str", "required": True},
    "removed": {"type": "list", "elements": "str", "required": True},
    "in_slurm": {"type": "list", "elements": "str", "required": True},
    **session.SPEC,
}


class ActionModule(ActionBase):
    """Delete the machines of nodes that a person names."""

    _supports_check_mode = True
    _requires_connection = False

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the names of the machines that went."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        __, given = self.validate_argument_spec(argument_spec=SPEC)
        try:
            result.update(self._remove(plain(given)))
        except (AzureError, inputs.InputError) as exc:
            result.update(failed=True, changed=False, msg=str(exc))
        return result

    def _remove(self, given: dict[str, t.Any]) -> dict[str, t.Any]:
        cluster = inputs.read(given["cluster"], judges_end=False)
        options = session.options(os.environ)
        asks = session.opened(cluster["subscription_id"], options, given["timeout"], self._display.display)
        where = cluster["resource_group"], cluster["name"]
        left = removal.Removed(given["removed"], given["in_slurm"])
        return removal.remove(asks, where, given["nodes"], left, bool(self._task.check_mode))
