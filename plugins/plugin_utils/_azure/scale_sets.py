# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read uniform scale sets: instances, interfaces and addresses are lists below each set."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import model
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.work import OPTIONAL, flat

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.arm import Lists
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.work import Rows, Task, Work

    Row = dict[str, t.Any]


class Members(t.NamedTuple):
    """The members of one scale set; None is a list that cannot be read."""

    scale_set: Row
    machines: list[Row] | None
    nics: list[Row] | None
    addresses: list[Row] | None


def is_uniform(scale_set: Row) -> bool:
    """Return whether a set is uniform: its instances are not separate machines, as members of flexible sets are."""
    return str(scale_set["mode"]).lower() != "flexible"


def wanted(scale_sets: Iterable[Row], have: Callable[[t.Any], bool], filters: Mapping[str, t.Any]) -> list[Row]:
    """Return the uniform sets in the selected resource groups that the filters do not exclude."""
    names, locations = filters.get("scale_sets", ()), filters.get("locations", ())
    return [
        one
        for one in scale_sets
        if is_uniform(one)
        and have(one["id"])
        and (not names or str(one["name"]).lower() in names)
        and (not locations or not one["location"] or str(one["location"]).lower() in locations)
    ]


def set_of(machine: Row) -> str:
    """Return the id, in lower case, of the scale set of a machine, or an empty string."""
    machine_id = str(machine["id"]).lower()
    if "/virtualmachinescalesets/" in machine_id:
        return machine_id.rpartition("/virtualmachines/")[0]
    return str(machine.get("vmssId") or "").lower()


def seen(machines: Iterable[Row]) -> dict[str, int]:
    """Return the number of members of each set."""
    found: dict[str, int] = {}
    for machine in machines:
        owner = set_of(machine)
        found[owner] = found.get(owner, 0) + 1
    return found


def is_short(members: Members) -> bool:
    """Return whether the list of a set has fewer instances than its capacity, so that it may be incomplete."""
    return members.machines is not None and len(members.machines) < (members.scale_set["capacity"] or 0)


def short(answers: Iterable[Members]) -> list[str]:
    """Return a remark for each set whose list is short."""
    return [
        f"scale set {one.scale_set['name']} counts {one.scale_set['capacity']} instances and lists "
        f"{len(one.machines or [])}"
        for one in answers
        if is_short(one)
    ]


def without(rows: Iterable[Row], scale_sets: Iterable[Row]) -> list[Row]:
    """Return the rows that are not below any of the sets."""
    dropped = {one["id"].lower() for one in scale_sets}
    return [row for row in rows if str(row["id"]).lower().partition("/virtualmachines/")[0] not in dropped]


def replaced(found: Rows, answers: Iterable[Members]) -> Rows:
    """
    Return the rows with those of some sets replaced by the lists of these sets.

    A failed list changes nothing, and a short list drops nothing.
    """
    members = list(answers)
    for kind in ("machines", "nics", "addresses"):
        read = [one for one in members if getattr(one, kind) is not None]
        new = flat(getattr(one, kind) for one in read)
        kept = without(getattr(found, kind), [one.scale_set for one in read if not is_short(one)])
        listed = model.by_id(new)
        found = found._replace(**{kind: [row for row in kept if str(row["id"]).lower() not in listed] + new})
    return found


class Reader:
    """Reads sets from Resource Manager, three lists for each."""

    def __init__(self, work: Work, lists: Lists) -> None:
        self._work = work
        self._lists = lists

    def instances(self, scale_set: Row) -> Task:
        """Start to read the instances of a set."""
        return self._start("instances", self._lists.instances, scale_set)

    def start(self, scale_sets: Iterable[Row], begun: Mapping[str, Task] | None = None) -> list[tuple[Row, list[Task]]]:
        """Start to read instances, interfaces and addresses of each set; begun are lists of instances in progress."""
        return [
            (
                one,
                [
                    (begun or {}).get(one["id"].lower()) or self.instances(one),
                    self._start("network interfaces", self._lists.instance_nics, one),
                    self._start("public addresses", self._lists.instance_addresses, one),
                ],
            )
            for one in scale_sets
        ]

    def _start(self, kind: str, function: Callable[[str], list[Row]], scale_set: Row) -> Task:
        return self._work.start(f"{kind} of scale set {scale_set['name']}", function, scale_set["id"])

    def finish(self, started: Iterable[tuple[Row, list[Task]]], roots: bool = False) -> list[Members]:
        """
        Return the answers. Instances that cannot be read are a gap that names the set; their known rows remain.

        With roots there are no known rows, so that only a refusal is a gap and a failure is an error; a set that was
        deleted in the meantime is neither.
        """
        found = []
        refused: list[tuple[Row, str]] = []
        for one, (instances, *others) in started:
            try:
                machines = self._work.result(instances) if roots else self._work.result(instances, OPTIONAL)
            except RequestError as exc:
                if exc.status == 401 or (roots and exc.status not in (403, 404, 405, 501)):
                    raise
                refused.append((one, f"{instances.what}: {exc}"))
                found.append(Members(one, None, None, None))
                continue
            found.append(Members(one, machines, *(self._work.optional(task) for task in others)))
        gone = self._gone([one for one, text in refused if roots and " answered 404 " in text])
        self._work.gaps += [text for one, text in refused if one["id"].lower() not in gone]
        return found

    def _gone(self, scale_sets: list[Row]) -> set[str]:
        """Return the sets that the current list no longer contains: they were deleted in the meantime."""
        asked = {model.part(one["id"], "subscriptions") for one in scale_sets}
        tasks = [self._work.start("the list of scale sets", self._lists.scale_sets, one) for one in asked]
        try:
            there = {row["id"].lower() for task in tasks for row in self._work.result(task, OPTIONAL)}
        except RequestError:
            return set()
        return {one["id"].lower() for one in scale_sets} - there
