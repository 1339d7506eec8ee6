# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read machines from Resource Graph with a few queries, a thousand machines each."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import graph, model, scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import ConfigError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.work import (
    GRAPH,
    NOT_HERE,
    Rows,
    Task,
    Work,
    flat,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.arm import Lists
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.scope import Scope
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Row = dict[str, t.Any]

_SCALE_SETS = graph.query(graph.SCALE_SET, graph.SCALE_SET_COLUMNS)
_MISSED = 200  # interfaces that one query names; more of them are read as one list


class GraphRoute:
    """Reads machines with their interfaces from Resource Graph, and scale sets from Resource Manager."""

    def __init__(self, work: Work, lists: Lists, client: Client, settings: Settings, scope: Scope) -> None:
        self._work = work
        self._lists = lists
        self._client = client
        self._settings = settings
        self._scope = scope
        self._queries = scope.queries()
        # If only Resource Graph is wanted, it can use the whole time.
        self._share = GRAPH if settings.source == "auto" else 1.0
        self._many = 4 if settings.concurrency > 1 else 0  # number of pages from which they are read in parallel
        self._used = 0
        self.from_lists = False  # whether the instances of uniform sets are those of Resource Manager

    def read(self) -> Rows:
        """Return the machines in Resource Graph."""
        s, scope = self._settings, self._scope
        sets = self._start_sets() if scope.vmss_groups or s.vmss_tags else []
        machines = self._start(graph.VM) if scope.vm_groups else []
        found = Rows([], [], [], flat(self._sets(task) for task in sets))
        uniform = scale_sets.wanted(found.scale_sets, scope.vmss_groups.have, s.filters) if scope.vmss_groups else []
        more = self._start_instances(uniform) if uniform else {}
        self._finish(graph.VM, machines, found)
        found.machines[:] = [one for one in found.machines if scope.vm_groups.have(one["id"])]
        addresses = self._start_addresses(graph.ADDRESS, found.nics)
        if more:
            found = self._finish_instances(found, uniform, more)
        found.addresses.extend(self._rows(addresses, model.flat_address))
        return found

    def ids(self, kind: str) -> set[str]:
        """Return the ids, in lower case, of all machines of a type in Resource Graph, regardless of tags."""
        groups = self._scope.vm_groups if kind == graph.VM else self._scope.vmss_groups
        filters = {name: value for name, value in self._filters().items() if name != "tags"}
        where = graph.conditions(filters, groups.everywhere())
        return {str(row["id"]).lower() for row in self._rows(self._ask(graph.ids(kind, where), dict))}

    def _filters(self) -> dict[str, t.Any]:
        """Return the filters that Resource Graph can apply, with the existing resource groups."""
        found = dict(self._settings.filters)
        if self._settings.vmss_tags:
            found.pop("tags", None)  # the row does not contain the tags of the set
        if found.pop("resource_groups", None) and "*" not in self._scope.filtered.everywhere():
            found["resource_groups"] = self._scope.filtered.everywhere()
        return found

    # Queries

    def _ask(self, asked: graph.Query, convert: Callable[[Row], t.Any]) -> list[Task]:
        version = self._settings.version("resource_graph")
        what = f"Resource Graph's {asked.text.split(maxsplit=1)[0]}"
        return [
            self._work.start(what, graph.begin, self._client, version, scope, asked, convert, self._many)
            for scope in self._queries
        ]

    def _rows(self, tasks: Iterable[Task], convert: Callable[[Row], t.Any] = dict) -> list[t.Any]:
        found = []
        for task in tasks:
            rows = self._work.result(task, self._share)
            if isinstance(rows, graph.Begun):
                rows = self._rest(rows, convert)
            self._used += len(rows) // graph.PAGE + 1
            found += rows
        return found

    def _rest(self, begun: graph.Begun, convert: Callable[[Row], t.Any]) -> list[t.Any]:
        """Return all rows of an answer with many pages; its last page shows whether rows can be skipped."""
        try:
            found = self._side_by_side(begun, convert)
        except RequestError as exc:
            if exc.status not in (200, 400):
                raise
            found = None
        if found is not None:
            return found
        version = self._settings.version("resource_graph")
        asked = (self._client, version, begun.scope, graph.Query(begun.text, begun.text), convert)
        task = self._work.start("Resource Graph's pages in turn", graph.rows, *asked)
        return t.cast("list[t.Any]", self._work.result(task, self._share))

    def _side_by_side(self, begun: graph.Begun, convert: Callable[[Row], t.Any]) -> list[t.Any] | None:
        version, first = self._settings.version("resource_graph"), begun.first
        starts = list(range(2 * begun.size, first.total, begun.size))

        def begin(skip: int, token: str = "") -> Task:
            return self._work.start(
                "Resource Graph's pages", graph.page, self._client, version, begun, convert, skip, token
            )

        tasks = [begin(0, first.token), begin(starts[-1])]
        pages = [self._work.result(task, self._share) for task in tasks]
        if len(pages[1].rows) != first.total - starts[-1] or pages[1].ids & first.ids:
            return None
        tasks = [begin(start) for start in starts[:-1]]
        return graph.together(begun, [*pages, *(self._work.result(task, self._share) for task in tasks)])

    def _where(self, kind: str, tags: bool = True) -> list[str]:
        groups = self._scope.vm_groups if kind == graph.VM else self._scope.vmss_groups
        filters = {name: value for name, value in self._filters().items() if tags or name != "tags"}
        return graph.conditions(filters, groups.everywhere(), self._settings.graph_where)

    def _start(self, kind: str) -> list[Task]:
        return self._ask(graph.joined(kind, self._where(kind)), _pair)

    def _finish(self, kind: str, tasks: list[Task], found: Rows) -> None:
        """
        Add the machines and their interfaces.

        If Azure refuses that query, both are read separately, and the client filters by tags.
        """
        try:
            pairs = self._rows(tasks, _pair)
        except RequestError as exc:
            if exc.status != 400:
                raise
            nic_kind = graph.NIC if kind == graph.VM else graph.INSTANCE_NIC
            apart = self._ask(graph.query(kind, graph.MACHINE, self._where(kind, tags=False)), _machine)
            others = self._ask(graph.query(nic_kind, graph.NIC_COLUMNS), model.flat_nic)
            found.machines.extend(self._rows(apart, _machine))
            found.nics.extend(self._rows(others, model.flat_nic))
            return
        known = model.by_id(machine for machine, _nic in pairs)
        nics = [nic for _machine, nic in pairs if nic]
        found.machines.extend(known.values())
        found.nics.extend(nics)
        if kind == graph.VM:
            found.nics.extend(self._missed(known.values(), nics))

    def _missed(self, machines: Iterable[Row], nics: Iterable[Row]) -> list[Row]:
        """Return the interfaces that a machine names and that do not name it, because the query does not join them."""
        read = {str(one["id"]).lower() for one in nics}
        named = {str(one.get("id") or "").lower() for row in machines for one in model.nics_of(row)}
        missed = sorted(named - read - {""})
        if not missed:
            return []
        where = [f"id in~ ({', '.join(map(graph.literal, missed))})"] if len(missed) <= _MISSED else []
        return self._rows(self._ask(graph.query(graph.NIC, graph.NIC_COLUMNS, where), model.flat_nic), model.flat_nic)

    def _start_addresses(self, kind: str, nics: list[Row]) -> list[Task]:
        """Start to read public addresses; from the lists if queries would use up the quota."""
        wanted = sum(1 for nic in nics for ip in nic["ips"] if ip["public"])
        if not wanted:
            return []
        pages = wanted // graph.PAGE + 1
        if kind == graph.ADDRESS and self._scope.subscriptions and self._used + pages > graph.QUOTA:
            return [
                self._work.start(f"public addresses of subscription {one}", self._lists.addresses, one)
                for one in self._scope.subscriptions
            ]
        self._used += pages
        return self._ask(graph.query(kind, graph.ADDRESS_COLUMNS), model.flat_address)

    # Scale sets

    def _start_sets(self) -> list[tuple[str, Task]]:
        """Start to read scale sets from Resource Manager, which knows their exact capacity, or from Resource Graph."""
        if self._scope.subscriptions and self._settings.verify != "none":
            return [
                (one, self._work.start(f"scale sets of subscription {one}", self._lists.scale_sets, one))
                for one in self._scope.subscriptions
            ]
        return [("", task) for task in self._ask(_SCALE_SETS, model.flat_scale_set)]

    def _sets(self, started: tuple[str, Task]) -> list[Row]:
        """Return the scale sets; those of Resource Graph if their list cannot be read."""
        subscription, task = started
        if not subscription:
            return self._rows([task], model.flat_scale_set)
        try:
            return t.cast("list[Row]", self._work.result(task, self._share / 2))
        except RequestError as exc:
            if exc.status == 401:
                raise
            text, refused = f"{task.what}: {exc}", exc.status in NOT_HERE
        version, scope = self._settings.version("resource_graph"), {"subscriptions": [subscription]}
        asked = (self._client, version, scope, _SCALE_SETS, model.flat_scale_set)
        try:
            found = self._work.result(self._work.start("Resource Graph's scale sets", graph.rows, *asked), self._share)
        except RequestError as exc:
            if exc.status not in NOT_HERE:
                raise
            self._work.gaps.append(text)
            return []
        if not refused:
            self._work.gaps.append(f"{text}; those of Resource Graph are taken, and nothing confirms their sizes")
        elif found:
            self._work.notes.append(f"{text}; those of Resource Graph are taken")
        return t.cast("list[Row]", found)

    def _start_instances(self, uniform: list[Row]) -> dict[str, t.Any]:
        s = self._settings
        if s.cloud.lower() == "azurechinacloud":
            if s.graph_where:
                raise ConfigError(
                    "graph_where cannot pick instances of uniform scale sets in AzureChinaCloud, whose Resource Graph "
                    "does not have them; use filters or query instead, or leave include_vmss_resource_groups empty"
                )
            return {"lists": scale_sets.Reader(self._work, self._lists).start(uniform)}
        return {"machines": self._start(graph.INSTANCE)}

    def _finish_instances(self, found: Rows, uniform: list[Row], more: dict[str, t.Any]) -> Rows:
        try:
            if "lists" not in more:
                return self._instances(found, uniform, more)
        except RequestError as exc:
            if self._settings.source == "graph" or exc.status == 401:
                raise
            self._work.notes.append(f"Resource Graph has no scale-set instances ({exc}); they are read set by set")
            more = {"lists": scale_sets.Reader(self._work, self._lists).start(uniform)}
        members = scale_sets.Reader(self._work, self._lists).finish(more["lists"], roots=True)
        self.from_lists = True
        return scale_sets.replaced(found, members)

    def _instances(self, found: Rows, uniform: list[Row], more: dict[str, t.Any]) -> Rows:
        read = Rows([], [], [], [])
        self._finish(graph.INSTANCE, more["machines"], read)
        # If the list does not yet contain a set, keep its instances.
        unwanted = set(model.by_id(found.scale_sets)) - set(model.by_id(uniform))
        machines = [
            one
            for one in read.machines
            if scale_sets.set_of(one) not in unwanted and self._scope.vmss_groups.have(one["id"])
        ]
        addresses = self._rows(self._start_addresses(graph.INSTANCE_ADDRESS, read.nics), model.flat_address)
        return found._replace(
            machines=found.machines + machines,
            nics=found.nics + read.nics,
            addresses=found.addresses + addresses,
        )


def _pair(row: Row) -> tuple[Row, Row | None]:
    nic = graph.nic_of(row)
    return _machine(row), model.flat_nic(nic) if nic else None


def _machine(row: Row) -> Row:
    """Return a row of Resource Graph; it has all properties if Azure refused the exact columns."""
    if "properties" in row:
        return model.flat_machine(row)
    row["instanceView"] = row["instanceView"] if isinstance(row.get("instanceView"), dict) else {}
    return row
