# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Write files of which some are copied from the control node, with one module if the copies are in place already."""

from __future__ import annotations

import typing as t

from ansible.utils.hashing import checksum

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs.other_action import run_action

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ansible.plugins.action import ActionBase

MODULE = "hpcai.gpucluster.file_set"


class Copy(t.NamedTuple):
    """A file of the control node, and its place on the managed node."""

    src: str
    dest: str
    mode: str


def write(
    caller: ActionBase, copies: Sequence[Copy], arguments: Mapping[str, t.Any], task_vars: dict[str, t.Any] | None
) -> dict[str, t.Any]:
    """
    Return the result of file_set with these arguments, after the copies are in place.

    The files of C(arguments) are written after the copies, because they may make something use a copy.
    """
    required = [{"path": one.dest, "sha1": checksum(one.src), "mode": one.mode} for one in copies]
    found = dict(caller._execute_module(MODULE, {**arguments, "requires": required}, task_vars=task_vars))
    lacking = set(found.get("lacking") or [])
    if not lacking:
        return found
    result: dict[str, t.Any] = {"changed": False}
    for one in copies:
        if one.dest in lacking and not result.get("failed"):
            owner = {name: arguments.get(name) or "root" for name in ("owner", "group")}
            copy = {"src": one.src, "dest": one.dest, "mode": one.mode, **owner}
            result = merged(result, run_action(caller, "ansible.legacy.copy", copy, task_vars))
    if (arguments["files"] or arguments.get("absent")) and not result.get("failed"):
        result = merged(result, dict(caller._execute_module(MODULE, dict(arguments), task_vars=task_vars)))
    return result


def merged(first: Mapping[str, t.Any], second: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return the result of both steps; a failure of the second one fails the task."""
    diff = [*_differences(first), *_differences(second)]
    return {
        **first,
        **second,
        "changed": bool(first.get("changed") or second.get("changed")),
        **({"diff": diff} if diff else {}),
    }


def _differences(result: Mapping[str, t.Any]) -> list[t.Any]:
    found = result.get("diff") or []
    return found if isinstance(found, list) else [found]
