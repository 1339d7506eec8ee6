# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Do what one task of azure_scale_set asks, and describe the result."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import plan, scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scaler import Outcome, Scaler, unusable

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import Instance, ScaleSet
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scaler import Arm

    Result = dict[str, t.Any]


class Asked(t.NamedTuple):
    """The options of the task; machines is None and remove is empty in a task that only reads."""

    group: str
    cluster: str
    set: str
    machines: int | None = None
    remove: tuple[str, ...] = ()
    limit: int = 0


class ShortError(AzureInventoryError):
    """The set is not as asked; the result describes what there is."""

    def __init__(self, text: str, result: Result) -> None:
        super().__init__(text)
        self.result = result


def check(count: int | None, remove: t.Sequence[str], limit: int) -> None:
    """Refuse options that contradict each other."""
    if count is not None and remove:
        raise scale_sets.ScaleError("count and remove exclude each other: a set grows by count and shrinks by names")
    if count is not None and count < 0:
        raise scale_sets.ScaleError(f"count is {count}; allowed: 0 or more")
    if limit < 0:
        raise scale_sets.ScaleError(f"limit is {limit}; allowed: 0, which is Azure's own limit, or more")


def run(arm: Arm, asked: Asked, left: Callable[[], float], tell: Callable[[str], None], check_mode: bool) -> Result:
    """Return the result of the task, or raise ShortError with it."""

    def read() -> list[ScaleSet]:
        return scale_sets.read(arm, asked.group, asked.cluster, asked.set, asked.limit)

    before = read()
    have = len(scale_sets.instances(before))
    if asked.machines is not None and asked.machines < have:
        raise scale_sets.ScaleError(
            f"the set {asked.set} has {have} machines, and count is {asked.machines}. A set shrinks by the names of "
            "the nodes (remove), because otherwise Azure chooses them; the playbook azure_scale chooses idle nodes"
        )
    scaler = Scaler(arm, read, left, tell)
    outcome = _foreseen(before, asked) if check_mode else _done(scaler, asked, before)
    result = described(asked, before, outcome)
    if outcome.problems and asked.machines is not None:
        raise ShortError(_shortage(asked, outcome), result)
    return result


def _done(scaler: Scaler, asked: Asked, before: list[ScaleSet]) -> Outcome:
    if asked.machines is not None:
        return scaler.grow(asked.machines)
    if asked.remove:
        return scaler.remove(asked.remove)
    return Outcome(before, [], [], unusable(before))


def _foreseen(before: list[ScaleSet], asked: Asked) -> Outcome:
    """Return what a run would do, without a write; the new machines have no names yet."""
    if asked.machines is not None:
        broken = [one for one in scale_sets.instances(before) if one.broken]
        capacities = {growth.scale_set.name: growth.capacity for growth in plan.growths(before, asked.machines)}
        after = [one._replace(capacity=capacities.get(one.name, one.capacity)) for one in before]
        new = [
            scale_sets.Instance(one.scale_set.name, "", "", "", "new", "new", "")
            for one in plan.growths(before, asked.machines)
            for _number in range(one.capacity - sum(not instance.broken for instance in one.scale_set.instances))
        ]
        return Outcome(after, new, broken, [])
    found, _missing = plan.victims(before, asked.remove)
    gone = {(one.scale_set, one.id) for some in found.values() for one in some}
    after = [_without(one, gone) for one in before]
    return Outcome(after, [], [one for some in found.values() for one in some], [])


def _without(scale_set: ScaleSet, gone: set[tuple[str, str]]) -> ScaleSet:
    kept = tuple(one for one in scale_set.instances if (one.scale_set, one.id) not in gone)
    return scale_set._replace(capacity=scale_set.capacity - len(scale_set.instances) + len(kept), instances=kept)


def described(asked: Asked, before: list[ScaleSet], outcome: Outcome) -> Result:
    """Return the result for Ansible."""
    found = scale_sets.instances(outcome.sets)
    return {
        "changed": outcome.changed or _capacities(before) != _capacities(outcome.sets),
        "set": asked.set,
        "scale_sets": [
            {"name": one.name, "capacity": one.capacity, "limit": one.limit, "vm_size": one.size, "spot": one.spot}
            for one in outcome.sets
        ],
        "prefixes": [one.prefix for one in outcome.sets],
        "machines": [_shown(one) for one in found],
        "added": [one.node for one in outcome.added],
        "removed": [one.node for one in outcome.removed],
        "problems": list(outcome.problems),
        "diff": {"before": _text(before), "after": _text(outcome.sets)},
    }


def _shown(one: Instance) -> Result:
    return {**one._asdict(), "usable": one.usable, "broken": one.broken, "stopped": one.stopped}


def _capacities(sets: list[ScaleSet]) -> dict[str, int]:
    return {one.name: one.capacity for one in sets}


def _text(sets: list[ScaleSet]) -> str:
    """Return the capacities and machines of the set for a diff."""
    lines = []
    for one in sets:
        lines.append(f"{one.name}: capacity {one.capacity}")
        lines += [f"{one.name}: {instance.node}" for instance in one.instances if instance.node]
    return "".join(f"{line}\n" for line in lines)


def _shortage(asked: Asked, outcome: Outcome) -> str:
    ready = sum(one.usable for one in scale_sets.instances(outcome.sets))
    more = f" {len(outcome.added)} new machines run and can join." if outcome.added else ""
    return f"the set {asked.set} has {ready} of {asked.machines} machines.{more} {' '.join(outcome.problems)}"
