# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Check completeness: compare the answer of Resource Graph with Resource Manager.

Resource Graph can be out of date. Resource Manager returns the instances of uniform scale sets, and the names of all
other machines; ids are compared, because members change while their number stays. Differences are read from its lists.
What cannot be compared or read is a gap.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import filters, graph, model, scale_sets
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
        self._instance_views: dict[str, Row] = {}
        self._gone: set[str] = set()  # machines that two lists of Resource Manager lack
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
        """Read sets again whose instances Resource Graph does not know, and sets whose placement groups are needed."""
        s = self._settings
        chosen = model.by_id(one for one in uniform if s.placement_groups and not one["single"])
        lists: dict[str, Task] = {}
        known = {str(one["id"]).lower() for one in found.machines if _is_instance(one)}
        in_graph = by_graph.ids(graph.INSTANCE) if s.graph_where and uniform and not by_graph.from_lists else known
        if s.verify != "none" and not by_graph.from_lists:
            lists = {one["id"].lower(): self._reader.instances(one) for one in uniform}
            behind = [one for one in uniform if self._differs(lists[one["id"].lower()], one, known, in_graph)]
            if behind:
                names = ", ".join(str(one["name"]) for one in behind[:10])
                self._work.notes.append(
                    f"Resource Graph is behind for {len(behind)} scale sets ({names}); they are read set by set"
                )
            chosen.update(model.by_id(behind))
        if not chosen:
            return found
        members = self._reader.finish(self._reader.start(chosen.values(), lists))
        if s.verify != "none":
            self._work.notes += scale_sets.short(members)
        if s.graph_where:
            members = [self._known_only(one, known, in_graph) for one in members]
        return scale_sets.replaced(found, members)

    def _differs(self, task: Task, scale_set: Row, known: set[str], in_graph: set[str]) -> bool:
        """Return whether the list of a set has other instances than Resource Graph, or cannot be read."""
        try:
            rows = model.by_id(self._work.result(task, OPTIONAL))
        except RequestError:
            return True  # the reader of the set reports it
        self._instance_views.update({key: row["instanceView"] for key, row in rows.items()})
        owner = f"{scale_set['id'].lower()}/"
        new = {key for key, row in rows.items() if key not in in_graph and filters.may_meet(row, self._rules())}
        return bool(new or {key for key in known - set(rows) if key.startswith(owner)})

    def _rules(self) -> Row:
        """Return the filters that a row can be held against; members get the tags of their set later."""
        s = self._settings
        return {name: value for name, value in s.filters.items() if not (s.vmss_tags and name == "tags")}

    def _known_only(self, members: scale_sets.Members, known: set[str], in_graph: set[str]) -> scale_sets.Members:
        """Return the instances that graph_where has selected; report how many it could not decide."""
        if members.machines is None:
            return members
        undecided = len(set(model.by_id(members.machines)) - in_graph)
        if undecided:
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
        rules = self._rules()
        rows = {
            str(row["id"]).lower(): row
            for one in self._existing
            for row in self._rows_of(one, graph_ids)
            if self._scope.vm_groups.have(row["id"]) and filters.may_meet(row, rules)
        }
        if self._gone:
            found = found._replace(machines=[one for one in found.machines if str(one["id"]).lower() not in self._gone])
        unknown = sorted(set(rows) - graph_ids)
        undecided = s.graph_where or (rules.get("tags") and not all("tags" in rows[one] for one in unknown))
        if unknown and undecided:
            unknown = sorted(set(unknown) - by_graph.ids(graph.VM))
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
        """Return what exists; the list of states counts where it is read, or where the list of names is in doubt."""
        try:
            rows = self._work.result(self._existing[subscription], OPTIONAL / 2)
        except RequestError as exc:
            if exc.status == 401:
                raise
            rows = None
        listed = set(model.by_id(rows or []))
        missing = {one for one in graph_ids - listed if one.startswith(f"/subscriptions/{subscription}/")}
        if rows is not None and not missing and self._settings.verify != "all":
            return t.cast("list[Row]", rows)
        task = self._start_states(subscription)
        if rows is None:
            return [{"id": one} for one in self._work.optional(task) or {}]
        try:
            states = self._work.result(task, OPTIONAL)
        except RequestError:
            return t.cast("list[Row]", rows)
        if rows and states:
            self._gone |= missing - set(states)
        return [*rows, *({"id": one} for one in states if one not in listed)]

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
        """Read power states from Resource Manager."""
        states = dict(self._instance_views)
        for one in self._scope.subscriptions:
            states.update(self._work.optional(self._start_states(one)) or {})
        merged = [
            {**one, "instanceView": _merged(one["instanceView"], states.get(str(one["id"]).lower()))}
            for one in found.machines
        ]
        return found._replace(machines=merged)

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
