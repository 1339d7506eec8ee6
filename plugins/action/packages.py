# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module packages."""

from __future__ import annotations

import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Ask the managed node what is missing, and run apt for it."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the result of apt with what was missing, or that nothing was."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        if self._task.check_mode and boolean(arguments.get("update_cache"), strict=False):
            updated = self._update(arguments, task_vars)
            if updated.get("failed") or updated.get("unreachable"):
                return {**result, **updated}
        found = self._execute_module("hpcai.gpucluster.packages", arguments, task_vars=task_vars)
        if found.get("missing"):
            # Arguments without a value are those of apt.
            given = {key: value for key, value in arguments.items() if value is not None}
            apt = {"install_recommends": False, "update_cache_retries": 2, **given}
            result.update(self._execute_module("ansible.builtin.apt", apt, task_vars=task_vars))
            return {**result, "missing": found["missing"]}
        return {**result, **found}

    def _update(self, arguments: dict[str, t.Any], task_vars: dict[str, t.Any] | None) -> dict[str, t.Any]:
        """Read the package lists in check mode, because apt tells nothing without them. Nothing else is written."""
        apt = {name: arguments[name] for name in ("cache_valid_time", "update_cache_retries") if arguments.get(name)}
        self._task.check_mode = False
        try:
            lists = {"update_cache": True, "update_cache_retries": 2, **apt}
            found: dict[str, t.Any] = self._execute_module("ansible.builtin.apt", lists, task_vars=task_vars)
        finally:
            self._task.check_mode = True
        return found
