# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Plan the changes of each GPU from its read state and the record, without side effects."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import wanted as nvidia_wanted
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.record import Lock
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import (
    Clocks,
    Refused,
    Unsupported,
    Wanted,
    label,
)

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import Gpu, Report

UNKNOWN = "unknown"
POWER_TOLERANCE = 0.5  # W; the board rounds values


class Change(t.NamedTuple):
    """One setting of one GPU that must change, and the option of nvidia-smi that changes it."""

    setting: str
    before: t.Any
    after: t.Any
    option: str
    value: str | None


class Plan(t.NamedTuple):
    """The planned changes of one GPU."""

    gpu: Gpu
    method: str
    target: str
    changes: list[Change]
    lock: Lock | None
    missing: t.Sequence[Unsupported] = ()


def make(report: Report, locks: dict[str, Lock], wanted: Wanted, tolerant: bool = False) -> list[Plan]:
    """Return a plan for each GPU, or refuse with all faults. With I(tolerant), skip unsupported settings."""
    nvidia_wanted.check(wanted)
    plans, refused = [], []
    for gpu in nvidia_wanted.select(report, wanted.gpus):
        try:
            plans.append(_plan(gpu, locks.get(str(gpu["uuid"])), wanted, report.driver_version))
        except Refused as exc:
            refused += exc.lines
    if not tolerant:
        refused += [line for plan in plans for lack in plan.missing for line in lack.lines]
    if refused:
        raise Refused(refused)
    return plans


def _plan(gpu: Gpu, lock: Lock | None, wanted: Wanted, driver: str | None) -> Plan:
    if gpu["faults"]:
        raise Refused([f"{label(gpu)}: cannot be set in this state: {', '.join(gpu['faults'])}"])
    changes: list[Change] = []
    missing: list[Unsupported] = []
    for setting in (_persistence, _power):
        try:
            changes += setting(gpu, wanted)
        except Unsupported as exc:
            missing.append(exc)
    known = lock if gpu["persistence"] else None  # without persistence mode, every lock ended with the last client
    plan = Plan(gpu, wanted.method, "no clocks asked for", changes, known, missing)
    try:
        plan = plan._replace(method=nvidia_wanted.method(gpu, wanted, driver))
        return _clocks(plan, wanted)
    except Unsupported as exc:
        return plan._replace(missing=[*missing, exc])


def _clocks(plan: Plan, wanted: Wanted) -> Plan:
    """Return the plan with the changes of the clocks."""
    gpu, known = plan.gpu, plan.lock
    if wanted.state == "default":
        return _default(plan._replace(target="default"), wanted)
    pair = nvidia_wanted.clocks(gpu, wanted)
    if pair is None:
        return plan
    after: Lock | None
    if plan.method == "application":
        more, after = _application(gpu, pair, known, wanted)
    else:
        refused = known.refused if known and not wanted.force else ()
        after = Lock((wanted.graphics_min or pair.graphics, pair.graphics), _memory_lock(gpu, pair)).without(*refused)
        more = _locking(known, after, wanted)
    return plan._replace(target=str(pair), changes=[*plan.changes, *more], lock=after)


def _persistence(gpu: Gpu, wanted: Wanted) -> list[Change]:
    if wanted.persistence is None or gpu["persistence"] is wanted.persistence:
        return []
    if gpu["persistence"] is None:
        raise Unsupported(gpu, "persistence", "persistence mode is", " or driver")
    return [Change("persistence", gpu["persistence"], wanted.persistence, "-pm", str(int(wanted.persistence)))]


def _power(gpu: Gpu, wanted: Wanted) -> list[Change]:
    watts = nvidia_wanted.power(gpu, wanted)
    now = gpu["power_w"]["limit"]
    if watts is None or abs(now - watts) <= POWER_TOLERANCE:
        return []
    return [Change("power_limit_w", now, watts, "-pl", f"{watts:g}")]


def _application(gpu: Gpu, pair: Clocks, known: Lock | None, wanted: Wanted) -> tuple[list[Change], Lock | None]:
    """Plan application clocks. First remove recorded locks, because they would override the application clocks."""
    changes = _unlocking(known) if known else []
    now = _pair(gpu["clocks_mhz"]["application"])
    if now != pair or wanted.force:
        changes.append(_change("application_mhz", now, pair, "-ac", f"{pair.memory},{pair.graphics}"))
    return changes, (Lock(None, None) if known else None)


def _default(plan: Plan, wanted: Wanted) -> Plan:
    gpu, known = plan.gpu, plan.lock
    changes = list(plan.changes)
    lock: Lock | None = Lock(None, None)
    if plan.method == "application":
        changes += _unlocking(known) if known else []
        now, default = (_pair(gpu["clocks_mhz"][kind]) for kind in ("application", "default_application"))
        if now != default or wanted.force:
            changes.append(_change("application_mhz", now, default, "-rac", None))
        lock = lock if known else None
    elif known is None or known.graphics or known.memory or wanted.force:
        changes += _unlocking(None if wanted.force else known)
    return plan._replace(changes=changes, lock=lock)


def _memory_lock(gpu: Gpu, pair: Clocks) -> int | None:
    """Return the memory clock to lock. A GPU with only one needs no lock, and many such GPUs refuse it."""
    return pair.memory if len(gpu["supported_clocks_mhz"]) > 1 else None


def _locking(known: Lock | None, after: Lock, wanted: Wanted) -> list[Change]:
    changes = []
    stale = known is None or wanted.force
    if after.graphics and (stale or (known and known.graphics != after.graphics)):
        before = list(known.graphics or []) or None if known else UNKNOWN
        text = f"{after.graphics[0]},{after.graphics[1]}"
        changes.append(Change("locked_graphics_mhz", before, list(after.graphics), "-lgc", text))
    if after.memory and (stale or (known and known.memory != after.memory)):
        text = f"{after.memory},{after.memory}"
        changes.append(
            Change("locked_memory_mhz", known.memory if known else UNKNOWN, after.memory, "-lmc", text),
        )
    if known and known.memory and not after.memory:
        changes.append(Change("locked_memory_mhz", known.memory, None, "-rmc", None))
    return changes


def _unlocking(known: Lock | None) -> list[Change]:
    """Plan the removal of the locks that are or may be set."""
    changes = []
    if known is None or known.graphics:
        before = list(known.graphics or []) if known else UNKNOWN
        changes.append(Change("locked_graphics_mhz", before, None, "-rgc", None))
    if known is None or known.memory:
        changes.append(Change("locked_memory_mhz", known.memory if known else UNKNOWN, None, "-rmc", None))
    return changes


def _pair(clocks: dict[str, int | None]) -> Clocks | None:
    memory, graphics = clocks["memory"], clocks["graphics"]
    return None if memory is None or graphics is None else Clocks(memory, graphics)


def _change(setting: str, before: Clocks | None, after: Clocks | None, option: str, value: str | None) -> Change:
    shown = [None if clocks is None else clocks._asdict() for clocks in (before, after)]
    return Change(setting, shown[0], shown[1], option, value)
