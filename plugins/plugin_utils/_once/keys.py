# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Compute a key of a template and of all that it reads: equal keys mean equal results."""

from __future__ import annotations

import hashlib
import json
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._once import reads

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class OwnNameError(Exception):
    """The value contains the name of its host, so no other host has it."""


class IncomparableError(Exception):
    """What the template reads cannot be compared with that of another host."""


def key(value: t.Any, variables: Mapping[str, t.Any], evaluate: Callable[[t.Any], t.Any]) -> str:
    """
    Return the key of a value with templates, on the host with these variables as they are written; empty without one.

    A variable that reads what each host has of its own, such as its name, is compared by its result, which C(evaluate)
    returns. Raises IncomparableError if such a thing is read by the value itself or by a template file, and
    OwnNameError if such a result is the name of the host.
    """
    root = reads.of(value)
    if root == reads.NOTHING:
        return ""
    if root.own:
        raise IncomparableError
    role = str(variables.get("role_path", ""))
    parts = {" value": _dumped(value), " role": role}
    names, files = set(root.names), set(root.files)
    while names or files:
        if files:
            found = _of_file(Path(role, "templates", files.pop()))
        else:
            name = names.pop()
            if name in parts or name not in variables:
                continue
            found = reads.of(variables[name])
            parts[name] = _dumped(_evaluated(variables, name, evaluate) if found.own else variables[name])
            if found.own:
                continue
        names |= found.names - parts.keys()
        files |= found.files
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _evaluated(variables: Mapping[str, t.Any], name: str, evaluate: Callable[[t.Any], t.Any]) -> t.Any:
    result = plain(evaluate(variables[name]))
    if result == variables.get("inventory_hostname"):
        raise OwnNameError
    return result


def _of_file(path: Path) -> reads.Reads:
    """Return what a template file of the role reads; the files that it names are in the same directory."""
    try:
        found = reads.of_text(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise IncomparableError from exc
    if found.own:
        raise IncomparableError
    return found


def _dumped(value: t.Any) -> str:
    try:
        return json.dumps(value, sort_keys=True)
    except (TypeError, ValueError) as exc:
        raise IncomparableError from exc
