# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Which machines there are: choose a route per subscription, ask in parallel, join, and name every gap."""

from __future__ import annotations

import concurrent.futures
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils import _azure_graph as graph
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils import _azure_model as model
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils import _azure_scale_sets as scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_arm import Lists
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_client import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_pipeline import ThrottledError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_settings import (
    AzureInventoryError,
    ConfigError,
    is_guid,
)

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_client import Client
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_settings import Settings

    Row = dict[str, t.Any]
    Answer = tuple[str, list[Row]]

_ROOTS = ("machines", "scale_sets")
_SCALE_SETS = graph.query(graph.SCALE_SET, graph.SCALE_SET_COLUMNS)
_NOT_HERE = (403, 404, 405, 501)  # what a cloud or a caller without Resource Graph answers


class Found(t.NamedTuple):
    """The records, what could not be read (empty if the list is complete), and what is worth a remark."""

    records: list[Row]
    gaps: list[str]
    notes: list[str]


class _Rows(t.NamedTuple):
    machines: list[Row]
    nics: list[Row]
    addresses: list[Row]
    scale_sets: list[Row]


class Fetcher:
    """One run against one cloud."""

    def __init__(self, client: Client, settings: Settings) -> None:
        self._client = client
        self._settings = settings
        self._lists = Lists(client, settings)
        self._gaps: list[str] = []
        self._notes: list[str] = []
        self._pool: concurrent.futures.ThreadPoolExecutor

    def run(self) -> Found:
        """Return every machine that the settings ask for."""
        workers = max(1, self._settings.concurrency)
        with concurrent.futures.ThreadPoolExecutor(workers, thread_name_prefix="azure") as self._pool:
            try:
                rows = self._rows()
            except BaseException:
                self._pool.shutdown(wait=False, cancel_futures=True)
                raise
        records = _join(rows, self._settings)
        return Found(records, self._gaps, self._notes)

    def _rows(self) -> _Rows:
        visible = self._pool.submit(self._visible)
        chosen = self._choose(visible)
        if self._settings.source == "arm":
            return self._by_lists(self._readable(chosen, visible))
        try:
            return self._by_graph(chosen, visible)
        except (RequestError, graph.GraphError, ThrottledError) as exc:
            if self._settings.source == "graph" or not _lists_may_help(exc):
                raise AzureInventoryError(f"Resource Graph cannot answer: {exc}") from None
            self._notes.append(f"Resource Graph cannot answer ({exc}); the lists of Resource Manager are read instead")
        return self._by_lists(self._readable(chosen, visible))

    # Subscriptions

    def _visible(self) -> list[Row] | None:
        """Return what the caller can see, or None where even that may not be asked."""
        try:
            return self._lists.subscriptions()
        except RequestError as exc:
            if exc.status == 401:
                raise
            return None

    def _choose(self, visible: t.Any) -> list[str]:
        """Return the ids to ask; an empty list stands for management groups."""
        wanted = self._settings.subscriptions
        if not wanted and self._settings.management_groups:
            return []
        if wanted and all(is_guid(one) for one in wanted):
            return [one.lower() for one in wanted]
        known = visible.result() or []
        enabled = [one for one in known if str(one["state"] or "Enabled") != "Disabled"]
        if "all" in wanted:
            chosen = [one["id"] for one in enabled]
        elif wanted:
            chosen = [_by_name(one, known) for one in wanted]
        elif len(enabled) > 1:
            listed = ", ".join(f"{one['name']} ({one['id']})" for one in enabled[:10])
            raise ConfigError(f"set subscription_id, or subscriptions: [all]; the caller can see {listed}")
        else:
            chosen = [one["id"] for one in enabled]
        if not chosen:
            raise AzureInventoryError("the caller can see no subscription; assign it the role Reader on one")
        return chosen

    def _readable(self, chosen: list[str], visible: t.Any) -> list[str]:
        """Return the chosen subscriptions that the caller can see; name the others."""
        known = visible.result()
        if not chosen:
            return [one["id"] for one in known or []]
        if not known:
            return chosen
        ids = {one["id"] for one in known}
        hidden = [one for one in chosen if one not in ids]
        if len(hidden) == len(chosen):
            raise AzureInventoryError(
                f"the caller cannot see subscription {', '.join(hidden)}; check the id and assign the role Reader"
            )
        self._gaps += [f"subscription {one}: the caller cannot see it; assign the role Reader" for one in hidden]
        return [one for one in chosen if one in ids]

    # Resource Graph

    def _by_graph(self, chosen: list[str], visible: t.Any) -> _Rows:
        s = self._settings
        scopes = _scopes(chosen, s.management_groups)
        where = graph.conditions(s.filters, s.vm_groups, s.graph_where)
        sets = self._start_sets(chosen, scopes) if s.vmss_groups else []
        machines = self._ask(scopes, graph.query(graph.VM, graph.MACHINE, where), _graph_machine) if s.vm_groups else []
        nics = self._ask(scopes, graph.nic_query(graph.NIC, graph.VM, where), model.flat_nic) if s.vm_groups else []
        found = _Rows([], [], [], _flatten(one.result() for one in sets))
        uniform = scale_sets.wanted(found.scale_sets, s.vmss_groups, s.filters.get("scale_sets", ()))
        more = self._start_instances(scopes, uniform) if uniform else {}
        found.machines.extend(_flatten(one.result() for one in machines))
        found.nics.extend(_flatten(one.result() for one in nics))
        addresses = self._start_addresses(scopes, graph.ADDRESS, found.nics)
        if more:
            self._finish_instances(found, uniform, more, scopes)
        found.addresses.extend(_flatten(one.result() for one in addresses))
        if chosen:
            self._readable(chosen, visible)
        return self._verified(found, chosen)

    def _ask(self, scopes: Iterable[Row], asked: graph.Query, convert: Callable[[Row], Row]) -> list[t.Any]:
        version = self._settings.version("resource_graph")
        return [self._pool.submit(graph.rows, self._client, version, scope, asked, convert) for scope in scopes]

    def _start_sets(self, chosen: list[str], scopes: Iterable[Row]) -> list[t.Any]:
        """Read the scale sets from Resource Manager, which knows their true capacity, or else from the graph."""
        if chosen and self._settings.verify != "none":
            return [self._pool.submit(self._sets_of, one) for one in chosen]
        return self._ask(scopes, _SCALE_SETS, model.flat_scale_set)

    def _sets_of(self, subscription: str) -> list[Row]:
        """Read the scale sets from Resource Manager; from the graph where that list is refused."""
        try:
            return self._lists.scale_sets(subscription)
        except RequestError as exc:
            if exc.status not in _NOT_HERE:
                raise
            refused = f"scale sets of subscription {subscription}: {exc}"
        version, scope = self._settings.version("resource_graph"), {"subscriptions": [subscription]}
        try:
            found = graph.rows(self._client, version, scope, _SCALE_SETS, model.flat_scale_set)
        except RequestError as exc:
            if exc.status not in _NOT_HERE:
                raise
            self._gaps.append(refused)
            return []
        if found:
            self._notes.append(f"{refused}; those of Resource Graph are taken")
        return found

    def _start_instances(self, scopes: Sequence[Row], uniform: list[Row]) -> dict[str, list[t.Any]]:
        s = self._settings
        if s.cloud.lower() == "azurechinacloud":
            if s.graph_where:
                raise ConfigError(
                    "graph_where cannot pick instances of uniform scale sets in AzureChinaCloud, whose Resource Graph "
                    "does not have them; use filters or query instead, or leave include_vmss_resource_groups empty"
                )
            return {"lists": scale_sets.read(self._lists, uniform, self._start)}
        where = graph.conditions({**s.filters, "tags": {} if s.vmss_tags else s.filters.get("tags")}, s.vmss_groups)
        where += [f"({' '.join(s.graph_where.split())})"] if s.graph_where else []
        return {
            "machines": self._ask(scopes, graph.query(graph.INSTANCE, graph.MACHINE, where), _graph_machine),
            "nics": self._ask(scopes, graph.nic_query(graph.INSTANCE_NIC, graph.INSTANCE, []), model.flat_nic),
        }

    def _finish_instances(
        self, found: _Rows, uniform: list[Row], more: dict[str, list[t.Any]], scopes: Sequence[Row]
    ) -> None:
        try:
            if "lists" not in more:
                machines = _flatten(one.result() for one in more["machines"])
                nics = _flatten(one.result() for one in more["nics"])
                addresses = self._start_addresses(scopes, graph.INSTANCE_ADDRESS, nics)
                # A set that the list does not have yet is no reason to lose its instances.
                unwanted = set(model.by_id(found.scale_sets)) - set(model.by_id(uniform))
                found.machines.extend(one for one in machines if scale_sets.set_of(one) not in unwanted)
                found.nics.extend(nics)
                found.addresses.extend(_flatten(one.result() for one in addresses))
                return
        except (RequestError, graph.GraphError) as exc:
            if self._settings.source == "graph" or not _lists_may_help(exc):
                raise
            self._notes.append(f"Resource Graph has no scale-set instances ({exc}); they are read set by set")
            more = {"lists": scale_sets.read(self._lists, uniform, self._start)}
        self._take(found, more["lists"])

    def _start_addresses(self, scopes: Sequence[Row], kind: str, nics: Iterable[Row]) -> list[t.Any]:
        if not any(ip["public"] for nic in nics for ip in nic["ips"]):
            return []
        return self._ask(scopes, graph.query(kind, graph.ADDRESS_COLUMNS), model.flat_address)

    def _verified(self, found: _Rows, chosen: list[str]) -> _Rows:
        """Read again from Resource Manager what Resource Graph may not know yet."""
        s = self._settings
        if not chosen:
            return found
        if s.placement_groups:
            spread = [one for one in found.scale_sets if scale_sets.is_uniform(one) and not one["single"]]
            found = self._read_again(found, scale_sets.wanted(spread, s.vmss_groups, s.filters.get("scale_sets", ())))
        if s.verify == "none":
            return found
        narrowed = bool(s.filters or s.graph_where)
        uniform = scale_sets.wanted(found.scale_sets, s.vmss_groups)
        stale = [] if narrowed else scale_sets.outdated(uniform, found.machines)
        if stale:
            names = ", ".join(str(one["name"]) for one in stale[:10])
            self._notes.append(
                f"Resource Graph is behind for {len(stale)} scale sets ({names}); they are read set by set"
            )
            found = self._read_again(found, stale)
        return self._with_true_states(found, chosen) if s.verify == "all" else found

    def _read_again(self, found: _Rows, chosen: list[Row]) -> _Rows:
        """Replace what lies below some scale sets by what Resource Manager says, list by list if one is refused."""
        waiting = [(one, answer) for one in chosen for answer in scale_sets.read(self._lists, [one], self._start)]
        answers = [(one, *answer.result()) for one, answer in waiting]
        known = {str(one["id"]).lower() for one in found.machines}
        for kind in ("machines", "nics", "addresses"):
            read = [(one, rows) for one, about, rows in answers if about == kind and rows is not None]
            kept = scale_sets.without(getattr(found, kind), [one for one, _rows in read])
            found = found._replace(**{kind: kept + _flatten(rows for _one, rows in read)})
        if self._settings.graph_where:  # which only Resource Graph can decide
            found = found._replace(machines=[one for one in found.machines if str(one["id"]).lower() in known])
        return found

    def _with_true_states(self, found: _Rows, chosen: list[str]) -> _Rows:
        waiting = [
            (one, self._start(f"power states of subscription {one}", "", self._lists.power_states, one))
            for one in chosen
        ]
        answers = {one: answer.result()[1] for one, answer in waiting}
        states: dict[str, Row] = {}
        for answer in answers.values():
            states.update(answer or {})
        known = {str(machine["id"]).lower() for machine in found.machines}
        unknown = sorted(set(states) - known) if not (self._settings.filters or self._settings.graph_where) else []
        if unknown:
            self._gaps.append(
                f"{len(unknown)} machines are not in Resource Graph yet, such as {model.last(unknown[0])}"
            )
        kept = [
            {**one, "instanceView": states.get(str(one["id"]).lower(), one["instanceView"])}
            for one in found.machines
            if str(one["id"]).lower() in states
            or "/virtualmachinescalesets/" in str(one["id"]).lower()
            or not answers.get(model.part(one["id"], "subscriptions").lower())
        ]
        return found._replace(machines=kept)

    # Resource Manager

    def _by_lists(self, readable: list[str]) -> _Rows:
        found = _Rows([], [], [], [])
        s = self._settings
        sets = [
            self._start(f"scale sets of subscription {one}", "scale_sets", self._lists.scale_sets, one)
            for one in readable
            if s.vmss_groups
        ]
        waiting = [self._start_machines(one, group) for one in readable for group in s.vm_groups]
        views = [
            self._start(f"power states of subscription {one}", "", self._lists.power_states, one)
            for one in readable
            if "*" in s.vm_groups
        ]
        for one in readable if s.vm_groups else []:
            waiting.append(self._start(f"network interfaces of subscription {one}", "nics", self._lists.nics, one))
            waiting.append(
                self._start(f"public addresses of subscription {one}", "addresses", self._lists.addresses, one)
            )
        self._take(found, sets)
        uniform = scale_sets.wanted(found.scale_sets, s.vmss_groups, s.filters.get("scale_sets", ()))
        waiting += scale_sets.read(self._lists, uniform, self._start)
        self._take(found, waiting)
        _add_states(found.machines, [view.result()[1] for view in views])
        if readable and len(self._gaps) and not found.machines:
            raise AzureInventoryError("no machine could be read: " + "; ".join(self._gaps[:3]))
        return found

    def _start_machines(self, subscription: str, group: str) -> t.Any:
        where = f"subscription {subscription}" if group == "*" else f"resource group {group} of {subscription}"
        return self._start(f"virtual machines of {where}", "machines", self._lists.machines, subscription, group)

    # Work

    def _start(self, what: str, kind: str, function: Callable[..., t.Any], *args: t.Any) -> t.Any:
        """
        Start a list whose refusal is a gap, not the end; the answer is (kind, rows or None).

        A list of machines that fails for another reason than a right is an error: hosts would be missing.
        """

        def call() -> tuple[str, t.Any]:
            try:
                return kind, function(*args)
            except RequestError as exc:
                if exc.status == 401 or (kind in _ROOTS and exc.status not in _NOT_HERE):
                    raise
                if exc.status == 404 and "instances of" in what:
                    return kind, []  # the set went away between two calls
                self._gaps.append(f"{what}: {exc}")
                return kind, None

        return self._pool.submit(call)

    @staticmethod
    def _take(found: _Rows, waiting: Iterable[t.Any]) -> None:
        for one in waiting:
            kind, rows = one.result()
            getattr(found, kind).extend(rows or [])


def _graph_machine(row: Row) -> Row:
    """Return a row of Resource Graph; the whole properties come when the exact columns were refused."""
    if "properties" in row:
        return model.flat_machine(row)
    row["instanceView"] = row.get("instanceView") or {}
    return row


def _add_states(machines: Iterable[Row], answers: Sequence[t.Any]) -> None:
    """Give every machine the instance view of the second list; say so where that list could not be read."""
    states: dict[str, Row] = {}
    for answer in answers:
        states.update(answer or {})
    failed = None in answers
    for machine in machines:
        if not machine["instanceView"]:
            view = states.get(str(machine["id"]).lower())
            machine["instanceView"] = view or {}
            machine["stateMissing"] = failed and view is None


def _join(rows: _Rows, settings: Settings) -> list[Row]:
    networks = model.networks(rows.nics, rows.addresses)
    sets = model.by_id(rows.scale_sets)
    machines = {str(one["id"]).lower(): one for one in rows.machines}
    return [
        model.record(machines[key], networks, sets.get(scale_sets.set_of(machines[key])), settings.vmss_tags)
        for key in sorted(machines)
    ]


def _lists_may_help(exc: Exception) -> bool:
    if isinstance(exc, RequestError):
        return exc.status in _NOT_HERE or exc.status == 400 or exc.status == 429 or exc.status >= 500
    return True


def _scopes(chosen: list[str], management_groups: Sequence[str]) -> list[Row]:
    if not chosen:
        return [{"managementGroups": list(management_groups)}]
    return [{"subscriptions": chosen[start : start + graph.SCOPE]} for start in range(0, len(chosen), graph.SCOPE)]


def _by_name(wanted: str, known: Iterable[Row]) -> str:
    matches = [one["id"] for one in known if wanted.lower() in (one["id"], one["name"].lower())]
    if len(matches) == 1:
        return str(matches[0])
    if is_guid(wanted):
        return wanted.lower()
    problem = "no subscription that the caller can see" if not matches else f"{len(matches)} subscriptions"
    raise ConfigError(f"subscriptions: the name {wanted!r} fits {problem}; use the id")


def _flatten(parts: Iterable[Iterable[Row]]) -> list[Row]:
    return [row for one in parts for row in one]
