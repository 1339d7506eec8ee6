# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find faults in the inputs of one role, also by rules of that role. The values must include defaults."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts import lists
from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import ladder
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import enroot_checks, rules, storage_checks
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.types import is_true, problem
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import pyxis
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Values = Mapping[str, t.Any]

_CHECKSUM = re.compile(r"sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96}|sha512:[0-9a-f]{128}", re.IGNORECASE)


class Applied(t.NamedTuple):
    """
    A role whose inputs are checked for all machines, before the first of them is contacted.

    Its machines are those with one of the tasks of C(cluster.GROUPS), if I(applies) returns true for the variables of
    C(DECIDING).
    """

    role: str
    entry_point: str | None
    tasks: tuple[str, ...]
    applies: Callable[[Values], bool] = lambda _values: True


def _has_containers(values: Values) -> bool:
    return is_true(values.get("gpucluster_containers", True))


def _has_gpus(values: Values) -> bool:
    record = values.get("gpucluster_hardware") or {}
    return int((record.get("gpus") or {}).get("count") or 0) > 0


DECIDING = ("gpucluster_containers", "gpucluster_hardware", "gpucluster_repair")
APPLIED = (
    Applied("nfs", "server", ("servers",)),
    Applied("nfs", "client", ("clients",)),
    Applied("scratch", None, ("computes",)),
    Applied("nccl", None, ("computes",), _has_gpus),
    Applied("health", None, ("computes",)),
    Applied("enroot", None, ("computes", "logins"), _has_containers),
    Applied(
        "nvidia_container_toolkit", None, ("computes",), lambda values: _has_containers(values) and _has_gpus(values)
    ),
    Applied("repair", "main", ("controllers",), lambda values: values.get("gpucluster_repair") == "present"),
)


def problems(role: str, values: Values) -> list[str]:
    """Return one sentence per fault; the keys are names of the role's inputs, and any may be missing."""
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


def _nccl(values: Values) -> list[str]:
    return [] if values.get("nccl_hardware", True) else [records.missing("nccl_hardware")]


def _health(values: Values) -> list[str]:
    faults = []
    if values.get("health_hardware") == {}:
        example = "{{ 'DGX_H100' | hpcai.gpucluster.vm_size }}"
        faults.append(f'health_hardware: found nothing; allowed: a hardware record, such as "{example}"')
    lines, checksum = values.get("health_nhc_lines"), str(values.get("health_nhc_source_checksum", ""))
    if values.get("health_provider") == "builtin" and lines:
        allowed = "an empty list, because health_provider is builtin, which runs none of them"
        faults.append(problem("health_nhc_lines", lines, allowed))
    if values.get("health_provider") == "nhc" and not _CHECKSUM.fullmatch(checksum):
        release = values.get("health_nhc_version")
        allowed = f"sha256:, sha384: or sha512: and the digest, because no checksum of NHC {release} is known"
        faults.append(problem("health_nhc_source_checksum", checksum, allowed))
    return faults


def _repair(values: Values) -> list[str]:
    """Refuse rules that gpucluster-repair would refuse on the controller, such as a step that it has not."""
    try:
        ladder.check_rules(values.get("repair_ladder") or [])
    except ladder.LadderError as exc:
        return [f"repair_ladder: {exc}"]
    return []


_OWN: dict[str, Callable[[Values], list[str]]] = {
    "enroot": enroot_checks.problems,
    "health": _health,
    "nccl": _nccl,
    "nfs": storage_checks.problems,
    "pyxis": _pyxis,
    "repair": _repair,
    "scratch": storage_checks.problems,
    "users": _users,
    "validate": _validate,
}
