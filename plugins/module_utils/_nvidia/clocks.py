# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Set the clocks of the GPUs, verify the settings that can be read back, and describe the result."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import plan as nvidia_plan
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import record as nvidia_record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.plan import POWER_TOLERANCE, Change, Plan
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import label

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.record import Lock
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import Gpu, Report
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, Outcome
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import Wanted

    Problems = dict[tuple[str, str], str]  # (UUID of the GPU, setting): the failure

# The order of the calls: without persistence mode, no other setting would last.
ORDER = ("-pm", "-pl", "-rgc", "-rmc", "-rac", "-ac", "-lmc", "-lgc")
MOOT = "nothing to reset on this GPU"
NOT_TRIED = "not tried after the refusal before it"
BUSY = 50  # percent of utilisation from which the current clock shows whether a lock works


class ApplyError(Exception):
    """A setting failed. result describes the settings that were applied."""

    def __init__(self, lines: list[str], result: dict[str, t.Any]) -> None:
        super().__init__("; ".join(lines))
        self.result = result


class Record(t.NamedTuple):
    """The path of the record of locked clocks, and the stamps of this boot and driver."""

    path: str
    stamps: dict[str, str]


def apply(
    smi: NvidiaSmi, wanted: Wanted, record: Record, check_mode: bool, tolerant: bool, report: Report | None = None
) -> dict[str, t.Any]:
    """Set every selected GPU to the wanted clocks and return the module's result. A given report saves a call."""
    report = report or smi.read()
    locks = nvidia_record.load(record.path, record.stamps)
    plans = nvidia_plan.make(report, locks, wanted, tolerant)
    problems: Problems = {(str(plan.gpu["uuid"]), lack.setting): lack.text for plan in plans for lack in plan.missing}
    if not check_mode and any(plan.changes for plan in plans):
        _forget(record, locks, plans)
        problems.update(_act(smi, plans))
        after = smi.read()
        problems.update(_unproven(plans, after, problems))
        _keep(record, locks, plans, problems, after)
    return _result(report, plans, wanted, problems, tolerant, check_mode)


def _act(smi: NvidiaSmi, plans: list[Plan]) -> Problems:
    """Start nvidia-smi once for each different setting, and collect the failures."""
    problems: Problems = {}
    stop = False
    for option, value, group in _groups(plans):
        outcomes = [] if stop else smi.set(option, value, [gpu for gpu, _change in group])
        texts = [_words(option, outcome) for outcome in outcomes] or [NOT_TRIED] * len(group)
        problems.update({(str(gpu["uuid"]), change.setting): text for (gpu, change), text in zip(group, texts) if text})
        stop = stop or any(outcome.problem == "permission" for outcome in outcomes)
    return problems


def _groups(plans: list[Plan]) -> list[tuple[str, str | None, list[tuple[Gpu, Change]]]]:
    groups: dict[tuple[str, str | None], list[tuple[Gpu, Change]]] = {}
    for plan in plans:
        for change in plan.changes:
            groups.setdefault((change.option, change.value), []).append((plan.gpu, change))
    ordered = sorted(groups, key=lambda key: (ORDER.index(key[0]), key[1] or ""))
    return [(option, value, groups[(option, value)]) for option, value in ordered]


def _words(option: str, outcome: Outcome) -> str | None:
    if outcome.problem in ("unsupported", "deprecated") and option.startswith("-r"):
        return MOOT
    if outcome.problem is None:
        return None
    texts = {
        "unsupported": "not supported by this GPU",
        "deprecated": "no longer offered by this driver",
        "permission": "needs root with CAP_SYS_ADMIN; root inside a container is not enough",
    }
    text = texts.get(outcome.problem)
    return f"{text} ({outcome.line})" if text else outcome.line


def _unproven(plans: list[Plan], after: Report, problems: Problems) -> Problems:
    """Return the settings that were accepted but read back differently. Locked clocks cannot be read back."""
    found: Problems = {}
    gpus = {gpu["uuid"]: gpu for gpu in after.gpus}
    for plan in plans:
        gpu = gpus.get(plan.gpu["uuid"])
        for change in plan.changes:
            key = (str(plan.gpu["uuid"]), change.setting)
            if key not in problems:
                text = "the GPU is gone" if gpu is None else _mismatch(change, gpu)
                found.update({key: text} if text else {})
    return found


def _mismatch(change: Change, gpu: Gpu) -> str | None:
    now = _now(change.setting, gpu)
    wanted = change.after
    if change.setting.startswith("locked") or wanted is None:
        return None
    if change.setting == "power_limit_w" and now is not None and abs(now - wanted) <= POWER_TOLERANCE:
        return None
    if now == wanted:
        return None
    hint = "" if gpu["persistence"] else "; persistence mode is off, so settings end with the last client"
    return f"nvidia-smi took {change.setting} {wanted} but reads back {now}{hint}"


def _now(setting: str, gpu: Gpu) -> t.Any:
    return {
        "persistence": gpu["persistence"],
        "power_limit_w": gpu["power_w"]["limit"],
        "application_mhz": {part: gpu["clocks_mhz"]["application"][part] for part in ("memory", "graphics")},
    }.get(setting)


def _keep(
    record: Record,
    locks: dict[str, Lock],
    plans: list[Plan],
    problems: Problems,
    after: Report,
) -> None:
    """Record the current locks. Skip a GPU with a problem or without persistence mode: its state is unknown."""
    persistent = {str(gpu["uuid"]) for gpu in after.gpus if gpu["persistence"]}
    now = dict(locks)
    for plan in plans:
        uuid = str(plan.gpu["uuid"])
        lock = _held(plan, problems) if uuid in persistent else None
        now.pop(uuid, None)
        if lock is not None:
            now[uuid] = lock
    if now != nvidia_record.load(record.path, record.stamps):
        nvidia_record.save(record.path, record.stamps, now)


def _held(plan: Plan, problems: Problems) -> Lock | None:
    """Return the current lock of a GPU, or None if a part of it failed."""
    lock = plan.lock
    for part in ("graphics", "memory"):
        text = problems.get((str(plan.gpu["uuid"]), f"locked_{part}_mhz"))
        if lock is None or (text and not _harmless(text)):
            return None
        if text and text != MOOT:
            lock = lock.without(part)
    return lock


def _forget(record: Record, locks: dict[str, Lock], plans: list[Plan]) -> None:
    """Remove planned changes from the record, so that an interrupted run leaves no false entries."""
    touched = {str(plan.gpu["uuid"]) for plan in plans if plan.changes}
    if touched & set(locks):
        kept = {uuid: lock for uuid, lock in locks.items() if uuid not in touched}
        nvidia_record.save(record.path, record.stamps, kept)


def _result(
    report: Report, plans: list[Plan], wanted: Wanted, problems: Problems, tolerant: bool, check_mode: bool
) -> dict[str, t.Any]:
    gpus = [_gpu_result(plan, wanted, problems, check_mode) for plan in plans]
    result = {
        "changed": any(gpu["changed"] for gpu in gpus),
        "gpus": gpus,
        "lost": report.lost,
        "driver_version": report.driver_version,
        "diff": {
            side: {label(plan.gpu): gpu[side] for plan, gpu in zip(plans, gpus) if gpu["changed"]}
            for side in ("before", "after")
        },
        "warnings": _warnings(report, plans, problems),
    }
    serious = [
        f"{label(plan.gpu)}: {name}: {text}"
        for plan in plans
        for name, text in _of(plan, problems).items()
        if text != MOOT and not (tolerant and _harmless(text))
    ]
    if serious:
        raise ApplyError(serious, result)
    return result


def _of(plan: Plan, problems: Problems) -> dict[str, str]:
    return {name: text for (uuid, name), text in problems.items() if uuid == str(plan.gpu["uuid"])}


def _harmless(text: str) -> bool:
    return text == MOOT or text.startswith(("not supported", "no longer offered"))


def _gpu_result(plan: Plan, wanted: Wanted, problems: Problems, check_mode: bool) -> dict[str, t.Any]:
    own = _of(plan, problems)
    done = [change for change in plan.changes if change.setting not in own]
    return {
        "index": plan.gpu["index"],
        "uuid": plan.gpu["uuid"],
        "pci_bus_id": plan.gpu["pci_bus_id"],
        "name": plan.gpu["name"],
        "method": plan.method,
        "changed": bool(done),
        "before": {change.setting: change.before for change in done},
        "after": {change.setting: change.after for change in done},
        "msg": _message(plan, wanted, own, done, check_mode),
    }


def _message(plan: Plan, wanted: Wanted, problems: dict[str, str], done: list[Change], check_mode: bool) -> str:
    parts = [f"{name}: {text}" for name, text in problems.items()]
    if done:
        verb = "would change" if check_mode else "changed"
        parts.append(f"{verb} {', '.join(f'{change.setting} to {_shown(change.after)}' for change in done)}")
    elif not problems:
        at = {"max": "maximum", "default": "default"}.get(wanted.state, "these values")
        parts.append(f"already at {at} ({plan.target}, {plan.method} clocks)")
    if plan.lock and plan.lock.refused:
        parts.append(f"locking {' and '.join(plan.lock.refused)} clocks is not supported by this GPU")
    return "; ".join(parts)


def _shown(value: t.Any) -> str:
    if isinstance(value, dict):
        return f"memory {value['memory']} MHz, graphics {value['graphics']} MHz"
    return "default" if value is None else str(value)


def _warnings(report: Report, plans: list[Plan], problems: Problems) -> list[str]:
    lines = [f"GPU {entry['pci_bus_id']} is lost: {entry['reason']}" for entry in report.lost]
    lines += [f"nvidia-smi says: {note}" for note in report.notes]
    for plan in plans:
        lines += [
            f"{label(plan.gpu)}: {name}: {text}"
            for name, text in _of(plan, problems).items()
            if text != MOOT and _harmless(text)
        ]
        lines += _lock_warnings(plan)
    return lines


def _lock_warnings(plan: Plan) -> list[str]:
    """Warn about locks without persistence mode, and about a busy GPU that runs outside its lock."""
    name = label(plan.gpu)
    persistent = plan.gpu["persistence"] or any(change.setting == "persistence" for change in plan.changes)
    if plan.method == "locked" and plan.lock and not persistent:
        return [f"{name}: persistence mode is off, so locked clocks end with the last client; set persistence=true"]
    running = plan.gpu["clocks_mhz"]["current"]["sm"]
    busy = (plan.gpu["utilization_percent"]["gpu"] or 0) >= BUSY
    unchanged = not any(change.setting.startswith("locked") for change in plan.changes)
    if plan.lock and plan.lock.graphics and unchanged and busy and running is not None:
        low, high = plan.lock.graphics
        if not low <= running <= high:
            return [f"{name}: locked to {low} to {high} MHz but busy at {running} MHz; this GPU does not keep the lock"]
    return []
