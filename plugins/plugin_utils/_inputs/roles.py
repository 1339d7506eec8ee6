# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What is wrong with the inputs of one role, by the role's own rules too. They hold for values with their defaults."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts import lists
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import enroot_checks, rules, storage_checks
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.types import is_true
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import pyxis
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, t.Any]


def problems(role: str, values: Values) -> list[str]:
    """Return one sentence per fault; the keys are the names of the role's inputs, each of which may be missing."""
    judged = rules.judge(values)
    own = _OWN.get(role)
    return [*judged.faults, *(own(judged.good) if own else [])]


def _users(values: Values) -> list[str]:
    defaults = lists.Defaults(
        per_user_group=is_true(values.get("users_create_per_user_group", True)),
        primary_group=values.get("users_group", "users"),
        users="users_accounts",
        groups="users_groups",
        removed="users_deleted",
    )
    users, groups, removed = (values.get(name) for name in (defaults.users, defaults.groups, defaults.removed))
    accounts, faults = lists.parse(users, groups, removed, defaults)
    machine_groups = values.get("users_machine_groups")
    if machine_groups is not None:
        hint = f" or one that every machine has ({', '.join(machine_groups)})"
        faults += lists.unknown_groups(accounts, machine_groups, defaults, hint)
    return faults


def _pyxis(values: Values) -> list[str]:
    if not {"pyxis_options", "pyxis_version"} <= set(values):
        return []
    faults = pyxis.problems(values["pyxis_options"], values["pyxis_version"])
    return [f"pyxis_options: {fault}; every job would fail" for fault in faults]


def _validate(values: Values) -> list[str]:
    return settings.problems(values.get("validate_thresholds") or {}, values.get("validate_relative") or {})


_OWN: dict[str, Callable[[Values], list[str]]] = {
    "enroot": enroot_checks.problems,
    "nfs": storage_checks.problems,
    "pyxis": _pyxis,
    "scratch": storage_checks.problems,
    "users": _users,
    "validate": _validate,
}
