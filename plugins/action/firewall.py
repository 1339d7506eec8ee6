# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module firewall."""

from __future__ import annotations

import contextlib
import time
import typing as t

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

MODULE = "hpcai.gpucluster.firewall"
_PAUSE = 2  # seconds between two attempts to connect
_MARGIN = 30  # seconds after the rollback for the last attempt


class ActionModule(ActionBase):
    """Load rules on trial, connect anew, and confirm them."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the result of the module. It failed if no new connection could be made with the rules."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        loaded = self._execute_module(module_name=MODULE, module_args=self._task.args, task_vars=task_vars)
        result.update(loaded)
        if not loaded.get("pending"):
            return result
        confirmed = self._confirm(int(self._task.args.get("seconds", 60)), task_vars)
        if confirmed.get("failed"):
            return {**confirmed, "changed": False}
        return {**result, "pending": False}

    def _confirm(self, seconds: int, task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Return the result of the confirmation, through a connection that was made after the rules were loaded."""
        deadline = time.monotonic() + seconds + _MARGIN
        arguments = {**self._task.args, "step": "confirm"}
        while True:
            with contextlib.suppress(AnsibleConnectionFailure, AttributeError):
                self._connection.reset()
            try:
                return dict(self._execute_module(module_name=MODULE, module_args=arguments, task_vars=task_vars))
            except AnsibleConnectionFailure as exc:
                if time.monotonic() > deadline:
                    return {"failed": True, "msg": f"the machine does not answer after the rollback: {exc}"}
                time.sleep(_PAUSE)
