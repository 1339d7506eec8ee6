# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Run another action from an action."""

from __future__ import annotations

import typing as t

if t.TYPE_CHECKING:
    from ansible.plugins.action import ActionBase


def run_action(
    caller: ActionBase, name: str, arguments: dict[str, t.Any], task_vars: dict[str, t.Any] | None, **keywords: t.Any
) -> dict[str, t.Any]:
    """
    Return the result of the action O(name) with these arguments, on the machine and connection of the caller.

    O(keywords) are keywords of its task that are not those of the caller's.
    """
    task = caller._task.copy()
    task.args = arguments
    for keyword, value in keywords.items():
        setattr(task, keyword, value)
    action = caller._shared_loader_obj.action_loader.get(
        name,
        task=task,
        connection=caller._connection,
        play_context=caller._play_context,
        loader=caller._loader,
        templar=caller._templar,
        shared_loader_obj=caller._shared_loader_obj,
    )
    return dict(action.run(task_vars=task_vars))
