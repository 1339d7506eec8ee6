# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module file_set."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import copied


class ActionModule(ActionBase):
    """Run the module after it copied files of the control node."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the result of the module, or that of the copies as well."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        files = self._task.args.get("files")
        if not isinstance(files, list) or not all(isinstance(one, dict) for one in files):
            files = []  # The module refuses it.
        with_source = [one for one in files if "src" in one]
        if not with_source:
            return {**result, **self._execute_module(copied.MODULE, dict(self._task.args), task_vars=task_vars)}
        for one in with_source:
            if set(one) - {"path", "src", "mode"}:
                raise AnsibleActionFail(f"{one.get('path')}: a file with src has no other options than path and mode")
        copies = [copied.Copy(str(one["src"]), one["path"], one.get("mode", "0644")) for one in with_source]
        others = [one for one in files if "src" not in one]
        return {**result, **copied.write(self, copies, {**self._task.args, "files": others}, task_vars)}
