# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Check completeness: compare the answer of Resource Graph with Resource Manager.

Resource Graph can be out of date. Resource Manager returns the number of instances of uniform scale sets, and the names
of all other machines. Differences are read from its lists. What cannot be compared or read is a gap.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import filters, model, scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.work import OPTIONAL, Rows, Task, Work

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.arm import Lists
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.by_graph import GraphRoute
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.by_lists import ListRoute
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.scope import Scope
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Row = dict[str, t.Any]

_FEW_GROUPS = 8  # read one by one; more of them are selected from the list of the subscription


class Check:
    """One comparison, started before Resource Graph answers."""

    def __init__(  # the two lists differ only in the patience of their client
        self, work: Work, lists: Lists, hasty: Lists, by_lists: ListRoute, scope: Scope, settings: Settings
    ) -> None:
        self._work = work
        self._lists = lists
        self._hasty = hasty
        self._by_lists = by_lists
        self._scope = scope
        self._settings = settings
        self._reader = scale_sets.Reader(work, lists)
        self._states: dict[str, Task] = {}
        self._existing: dict[str, Task] = {}
        if scope.vm_groups and settings.verify != "none":
            for one in scope.subscriptions:
                self._existing[one] = work.start(f"the names of the machines of {one}", self._names, one)
        if settings.verify == "all" or settings.exact_ids:
            for one in scope.subscriptions:
                self._start_states(one)

    def complete(self, found: Rows, by_graph: GraphRoute) -> Rows:
        """Return the rows of Resource Graph with those that only Resource Manager has."""
        s = self._settings
        uniform = scale_sets.wanted(found.scale_sets, self._scope.vmss_groups.have, s.filters)
        found = self._with_sets(found, uniform, by_graph)
        if s.verify == "none":
            return self._with_exact_ids(found, uniform) if s.exact_ids else found
        if self._scope.vm_groups:
            found = self._with_new_machines(found, by_graph)
        if s.verify == "all":
            found = self._with_true_states(found)
        return self._with_exact_ids(found, uniform) if s.exact_ids else found

    # Scale sets

    def _with_sets(self, found: Rows, uniform: list[Row], by_graph: GraphRoute) -> Rows:
        """Read sets again that Resource Graph does not know completely, and sets whose placement groups are needed."""
        s = self._settings
        chosen = model.by_id(one for one in uniform if s.placement_groups and not one["single"])
        if s.verify != "none":
            behind = scale_sets.outdated(uniform, by_graph.members)
            if behind:
                names = ", ".join(str(one["name"]) for one in behind[:10])
                self._work.notes.append(
                    f"Resource Graph is behind for {len(behind)} scale sets ({names}); they are read set by set"
                )
            chosen.update(model.by_id(behind))
        if not chosen:
            return found
        members = self._reader.finish(self._reader.start(chosen.values()))
        if s.graph_where:
            members = [self._known_only(one, found, by_graph) for one in members]
        return scale_sets.replaced(found, members)

    def _known_only(self, members: scale_sets.Members, found: Rows, by_graph: GraphRoute) -> scale_sets.Members:
        """Return the instances that graph_where has selected; report how many it could not decide."""
        if members.machines is None:
            return members
        known = {str(one["id"]).lower() for one in found.machines}
        undecided = len(members.machines) - by_graph.members.get(members.scale_set["id"].lower(), 0)
        if undecided > 0:
            self._work.gaps.append(
                f"{undecided} instances of scale set {members.scale_set['name']}: Resource Graph does not know them "
                "yet, so that graph_where cannot decide about them"
            )
        return members._replace(machines=[one for one in members.machines if str(one["id"]).lower() in known])

    # Separate machines and members of flexible sets

    def _names(self, subscription: str) -> list[Row] | None:
        """Return what exists in a subscription, a thousand names per page; None if only the states can answer."""
        groups = self._scope.vm_groups.of(subscription)
        groups = groups if len(groups) <= _FEW_GROUPS else ("*",)
        try:
            return [row for group in groups for row in self._hasty.existing(subscription, group)]
        except RequestError as exc:
            if exc.status == 401:
                raise
            return None

    def _start_states(self, subscription: str) -> Task:
        if subscription not in self._states:
            what = f"power states of subscription {subscription}"
            self._states[subscription] = self._work.start(what, self._lists.power_states, subscription)
        return self._states[subscription]

    def _with_new_machines(self, found: Rows, by_graph: GraphRoute) -> Rows:
        s = self._settings
        graph_ids = {str(one["id"]).lower() for one in found.machines if not _is_instance(one)}
        # Members get the tags of their set later.
        rules = {name: value for name, value in s.filters.items() if not (s.vmss_tags and name == "tags")}
        rows = {
            str(row["id"]).lower(): row
            for one in self._existing
            for row in self._rows_of(one, graph_ids)
            if self._scope.vm_groups.have(row["id"]) and filters.may_meet(row, rules)
        }
        unknown = sorted(set(rows) - graph_ids)
        undecided = s.graph_where or (rules.get("tags") and not all("tags" in rows[one] for one in unknown))
        if unknown and undecided:
            unknown = sorted(set(unknown) - by_graph.ids())
        if unknown and s.graph_where:
            self._work.gaps.append(
                f"{len(unknown)} machines are not in Resource Graph yet, so that graph_where cannot decide about them: "
                f"{_named(unknown)}"
            )
        elif unknown:
            self._work.notes.append(
                f"{len(unknown)} machines are not in Resource Graph yet ({_named(unknown)}); "
                "they are read from Resource Manager"
            )
            found = self._added(found, _groups_of(unknown), set(unknown))
        return self._with_flexible_members(found)

    def _rows_of(self, subscription: str, graph_ids: set[str]) -> list[Row]:
        """Return what exists, from the list of states if the list of names is refused or contradicts Resource Graph."""
        try:
            rows = self._work.result(self._existing[subscription], OPTIONAL / 2)
        except RequestError as exc:
            if exc.status == 401:
                raise
            rows = None
        start = f"/subscriptions/{subscription}/"
        listed = {str(row["id"]).lower() for row in rows or []}
        doubted = rows is not None and any(one.startswith(start) and one not in listed for one in graph_ids)
        if rows is not None and not doubted:
            return t.cast("list[Row]", rows)
        task = self._start_states(subscription)
        if rows is None:
            return [{"id": one} for one in self._work.optional(task) or {}]
        try:
            return [*rows, *({"id": one} for one in self._work.result(task, OPTIONAL) if one not in listed)]
        except RequestError:
            return t.cast("list[Row]", rows)

    def _added(self, found: Rows, groups: dict[str, set[str]], wanted: set[str] | None) -> Rows:
        """Return the known rows with those machines of some groups that are selected and new."""
        known = {str(one["id"]).lower() for one in found.machines}
        gaps = len(self._work.gaps)
        read = self._by_lists.read_groups(groups)
        new = [one for one in read.machines if str(one["id"]).lower() not in known]
        if wanted is not None:
            new = [one for one in new if str(one["id"]).lower() in wanted]
            missing = sorted(wanted - {str(one["id"]).lower() for one in new})
            if missing and any("virtual machines of" in gap for gap in self._work.gaps[gaps:]):
                self._work.gaps.append(
                    f"{len(missing)} machines that Resource Graph does not know yet: {_named(missing)}"
                )
        if not new:
            return found
        return found._replace(
            machines=found.machines + new, nics=found.nics + read.nics, addresses=found.addresses + read.addresses
        )

    def _with_flexible_members(self, found: Rows) -> Rows:
        """Read the groups of flexible sets that have more members than are known."""
        if self._settings.filters or self._settings.graph_where:
            return found
        sets = [
            one
            for one in found.scale_sets
            if not scale_sets.is_uniform(one) and self._scope.vm_groups.have(one["id"]) and one["capacity"]
        ]
        members = scale_sets.seen(found.machines)
        short = [one for one in sets if members.get(one["id"].lower(), 0) < one["capacity"]]
        if not short:
            return found
        before = len(found.machines)
        found = self._added(found, _groups_of(one["id"] for one in short), None)
        if len(found.machines) > before:
            names = ", ".join(str(one["name"]) for one in short[:10])
            self._work.notes.append(
                f"Resource Graph is behind for flexible scale sets ({names}); their groups were read"
            )
        return found

    # States and ids

    def _with_true_states(self, found: Rows) -> Rows:
        """Read power states from Resource Manager, and drop machines that it no longer has."""
        answers = {one: self._work.optional(self._start_states(one)) for one in self._scope.subscriptions}
        states: dict[str, Row] = {}
        for answer in answers.values():
            states.update(answer or {})
        kept = [
            {**one, "instanceView": _merged(one["instanceView"], states.get(str(one["id"]).lower()))}
            for one in found.machines
            if str(one["id"]).lower() in states
            or _is_instance(one)
            or not answers.get(model.part(one["id"], "subscriptions").lower())
        ]
        return found._replace(machines=kept)

    def _with_exact_ids(self, found: Rows, uniform: list[Row]) -> Rows:
        """Write ids with the case of Compute, from which azure_rm derives its names."""
        found = scale_sets.replaced(found, self._reader.finish(self._reader.start(uniform)))
        exact: dict[str, str] = {}
        for one in self._scope.subscriptions:
            states = self._work.optional(self._start_states(one)) or {}
            exact.update({key: str(view["id"]) for key, view in states.items() if view.get("id")})
        unsure = [one for one in found.machines if not _is_instance(one) and str(one["id"]).lower() not in exact]
        if unsure:
            named = _named([str(one["id"]) for one in unsure])
            self._work.gaps.append(f"{len(unsure)} machines may have other default names than with azure_rm: {named}")
        machines = [{**one, "id": exact.get(str(one["id"]).lower(), one["id"])} for one in found.machines]
        return found._replace(machines=machines)


def _merged(known: Row, true: Row | None) -> Row:
    """Return the state of Resource Manager, and take values that its short list lacks from Resource Graph."""
    if true is None:
        return known
    kept = {name: value for name, value in known.items() if name not in ("powerState", "statuses")}
    return {**kept, **{name: value for name, value in true.items() if value is not None}}


def _groups_of(ids: Iterable[t.Any]) -> dict[str, set[str]]:
    """Return the resource groups of some resources by their subscription."""
    found: dict[str, set[str]] = {}
    for one in ids:
        group = model.part(one, "resourcegroups").lower()
        found.setdefault(model.part(one, "subscriptions").lower(), set()).add(group)
    return found


def _is_instance(machine: Row) -> bool:
    return "/virtualmachinescalesets/" in str(machine["id"]).lower()


def _named(ids: Iterable[str]) -> str:
    return words.listed([model.last(one) for one in ids])
