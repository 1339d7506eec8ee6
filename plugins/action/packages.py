# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Action of the module packages."""

from __future__ import annotations

import re
import typing as t

from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

# What apt says in check mode of packages that it would install after it has read new lists, or its library for Python.
_UNSEEN = re.compile(r"must be installed to use check mode|No package matching|no available installation candidate")


class ActionModule(ActionBase):
    """Ask the managed node what is missing, and run apt for it."""

    def run(self, tmp: str | None = None, task_vars: dict[str, t.Any] | None = None) -> dict[str, t.Any]:
        """Return the result of apt with what was missing, or that nothing was."""
        result: dict[str, t.Any] = super().run(tmp, task_vars)
        arguments = dict(self._task.args)
        found = self._execute_module("hpcai.gpucluster.packages", arguments, task_vars=task_vars)
        if found.get("missing"):
            # Arguments without a value are those of apt.
            given = {key: value for key, value in arguments.items() if value is not None}
            apt = {"install_recommends": False, "update_cache_retries": 2, **given}
            answer = self._execute_module("ansible.builtin.apt", apt, task_vars=task_vars)
            if self._task.check_mode:
                answer = _seen(answer, found["missing"], boolean(arguments.get("update_cache"), strict=False))
            return {**result, **answer, "missing": found["missing"]}
        return {**result, **found}


def _seen(answer: dict[str, t.Any], missing: t.Sequence[str], lists: bool) -> dict[str, t.Any]:
    """Return what check mode knows: it reads no lists and installs no library, so apt may not know the packages."""
    said = str(answer.get("msg"))
    known = "must be installed" in said or lists
    if not answer.get("failed") or not known or not _UNSEEN.search(said):
        return answer
    text = f"{', '.join(missing)} would be installed; not seen in check mode, which reads no package lists: {said}"
    return {"changed": True, "msg": text, "warnings": [text]}
