# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read all machines from the lists of Azure Resource Manager, in parallel, and report every gap."""

from __future__ import annotations

import concurrent.futures
import functools
import threading
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import model
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.scope import Scope
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Row = dict[str, t.Any]
    Convert = Callable[[Mapping[str, t.Any]], Row]

_COMPUTE, _NETWORK = "2025-04-01", "2025-05-01"
_SET_NETWORK, _RESOURCES, _SUBSCRIPTIONS = "2018-10-01", "2021-04-01", "2022-12-01"
_NOT_HERE = (403, 404, 405, 501)  # of a cloud that lacks this list, or for a caller that lacks the permission


class Task(t.NamedTuple):
    """A list in progress, and its name in messages."""

    what: str
    future: concurrent.futures.Future[t.Any]


class Work:
    """The threads, and what could not be read. They are daemons: one that hangs does not delay the end of Python."""

    def __init__(self, workers: int, left: Callable[[], float], trouble: Callable[[], str] = str) -> None:
        self.gaps: list[str] = []
        self.notes: list[str] = []
        self._slots = threading.Semaphore(workers)
        self._left, self._trouble = left, trouble

    def start(self, what: str, function: Callable[..., t.Any], *args: t.Any) -> Task:
        """Start to read a list."""
        task = Task(what, concurrent.futures.Future())
        threading.Thread(target=self._run, args=(task.future, function, args), daemon=True).start()
        return task

    def _run(self, future: concurrent.futures.Future[t.Any], function: Callable[..., t.Any], args: t.Any) -> None:
        with self._slots:
            try:
                if not self._left():
                    raise RequestError("not begun within the deadline")
                future.set_result(function(*args))
            except BaseException as exc:
                future.set_exception(exc)

    def result(self, task: Task) -> t.Any:
        """Return a list; raise an error if there is none within the deadline."""
        concurrent.futures.wait([task.future], timeout=self._left())
        if not task.future.done():
            trouble = self._trouble()
            raise RequestError(f"{task.what}: not read within the deadline{'; ' if trouble else ''}{trouble}")
        return task.future.result()

    def optional(self, task: Task) -> t.Any:
        """Return a list, or None and a gap; the hosts are known without it."""
        try:
            return self.result(task)
        except RequestError as exc:
            if exc.status == 401:
                raise
            self.gaps.append(f"{task.what}: {exc}")
            return None

    def root(self, task: Task) -> t.Any:
        """Return a list of machines; a gap if it is refused, an error if it fails, because hosts would be missing."""
        try:
            return self.result(task) or []
        except RequestError as exc:
            if exc.status not in _NOT_HERE:
                raise
            self.gaps.append(f"{task.what}: {exc}")
            return []


class Lists:
    """One method per list; every method follows the next links to the end."""

    def __init__(self, client: Client, gap: Callable[[str], None]) -> None:
        """Use a client; gap receives what is in doubt about a list."""
        self._client, self._gap = client, gap

    def subscriptions(self) -> list[Row]:
        """Return id, name and state of every subscription that the caller can see."""
        found = self._rows("/subscriptions", _SUBSCRIPTIONS, dict)
        return [
            {"id": str(one["subscriptionId"]).lower(), "name": str(one.get("displayName")), "state": one.get("state")}
            for one in found
        ]

    def groups(self, subscription: str) -> list[str]:
        """Return the names of the resource groups that the caller can see."""
        return [
            str(one["name"]) for one in self._rows(f"/subscriptions/{subscription}/resourcegroups", _RESOURCES, dict)
        ]

    def machines(self, subscription: str, group: str = "*") -> list[Row]:
        """Return virtual machines including members of flexible sets; with power state only if a group is given."""
        where = "" if group == "*" else f"/resourceGroups/{group}"
        path = f"/subscriptions/{subscription}{where}/providers/Microsoft.Compute/virtualMachines"
        return self._rows(path, _COMPUTE, model.flat_machine, **({"$expand": "instanceView"} if where else {}))

    def power_states(self, subscription: str) -> dict[str, Row]:
        """Return the instance view of every machine of a subscription, by its id in lower case."""
        path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/virtualMachines"
        found = self._rows(path, _COMPUTE, model.flat_machine, statusOnly="true")
        return {str(one["id"]).lower(): one["instanceView"] for one in found}

    def nics(self, subscription: str) -> list[Row]:
        """Return the network interfaces of a subscription, without those of uniform sets."""
        path = f"/subscriptions/{subscription}/providers/Microsoft.Network/networkInterfaces"
        return self._rows(path, _NETWORK, model.flat_nic)

    def addresses(self, subscription: str) -> list[Row]:
        """Return the public addresses of a subscription, without those of uniform sets."""
        path = f"/subscriptions/{subscription}/providers/Microsoft.Network/publicIPAddresses"
        return self._rows(path, _NETWORK, model.flat_address)

    def scale_sets(self, subscription: str) -> list[Row]:
        """Return the scale sets of a subscription."""
        path = f"/subscriptions/{subscription}/providers/Microsoft.Compute/virtualMachineScaleSets"
        return self._rows(path, _COMPUTE, model.flat_scale_set)

    def instances(self, scale_set: str) -> list[Row]:
        """Return the instances of a uniform set with their power state."""
        return self._rows(f"{scale_set}/virtualMachines", _COMPUTE, model.flat_machine, **{"$expand": "instanceView"})

    def instance_nics(self, scale_set: str) -> list[Row]:
        """Return the network interfaces of all instances of a uniform set."""
        return self._rows(f"{scale_set}/networkInterfaces", _SET_NETWORK, model.flat_nic)

    def instance_addresses(self, scale_set: str) -> list[Row]:
        """Return the public addresses of all instances of a uniform set."""
        return self._rows(f"{scale_set}/publicipaddresses", _SET_NETWORK, model.flat_address)

    def _rows(self, path: str, version: str, convert: Convert, **query: str) -> list[Row]:
        """Return the rows of a list; a list in doubt is read once more, and then a gap."""
        for _attempt in range(2):
            pages = list(self._client.pages(path, {"api-version": version, **query}))
            doubt = _doubt(pages)
            if not doubt:
                break
        else:
            self._gap(f"{doubt} in the list {path}; rows may be missing")
        return [convert(item) for page in pages for item in page if _id(item)]


def _id(item: t.Any) -> str:
    return str(item.get("id") or item.get("subscriptionId") or "").lower() if isinstance(item, dict) else ""


def _doubt(pages: list[list[t.Any]]) -> str:
    """Return what shows that a list moved between its pages, or is broken; empty for a sound list."""
    ids = [_id(item) for page in pages for item in page]
    if not all(ids):
        return f"{ids.count('')} rows are empty or have no id"
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = [model.last(one) or one for one in ids if one in seen or seen.add(one)]  # type: ignore[func-returns-value]
        return f"{words.listed(twice)} is there twice"
    return "the last page is empty, although a link leads to it," if len(pages) > 1 and not pages[-1] else ""


class Found(t.NamedTuple):
    """The rows of all lists."""

    machines: list[Row]
    nics: list[Row]
    addresses: list[Row]
    scale_sets: list[Row]


def read(work: Work, client: Client, settings: Settings) -> list[Row]:
    """Return the records of every machine that the settings select."""
    lists = Lists(client, work.gaps.append)
    scope = Scope(work, lists, settings)
    found = _read(work, lists, scope, settings)
    if work.gaps and not found.machines:
        raise AzureError("no machine could be read: " + "; ".join(work.gaps[:3]))
    scope.tell_unseen([row["id"] for row in [*found.machines, *found.scale_sets]])
    sets, machines = model.by_id(found.scale_sets), model.by_id(found.machines)
    missing = [one for one in settings.filters.get("scale_sets", ()) if one not in _set_names(found)]
    if missing:
        work.notes.append(f"filters.scale_sets: there is no scale set {', '.join(missing)}")
    networks = model.networks(found.nics, found.addresses)
    return [
        model.record(machines[key], networks, sets.get(set_of(machines[key])), settings.vmss_tags)
        for key in sorted(machines)
    ]


def _read(work: Work, lists: Lists, scope: Scope, settings: Settings) -> Found:
    """Start every list before the first answer is awaited."""
    found = Found([], [], [], [])
    groups = {one: scope.vm_groups.of(one) for one in scope.subscriptions}
    sets = [
        work.start(f"scale sets of subscription {one}", lists.scale_sets, one)
        for one in (groups if scope.vmss_groups or settings.vmss_tags else ())
    ]
    machines = {(one, name): _machines(work, lists, one, name) for one, names in groups.items() for name in names}
    states = {
        one: work.start(f"power states of subscription {one}", lists.power_states, one)
        for one, names in groups.items()
        if "*" in names
    }
    around = [(kind, _around(work, lists, kind, one)) for one in groups if groups[one] for kind in _AROUND]
    for task in sets:
        found.scale_sets.extend(work.root(task))
    uniform = [one for one in found.scale_sets if _is_wanted(one, scope, settings.filters)]
    members = [(one, [_member(work, lists, kind, one) for kind in _MEMBERS]) for one in uniform]
    for (subscription, name), task in machines.items():
        view = work.optional(states[subscription]) if name == "*" else {}
        rows = _with_states(work, work.root(task), view, functools.partial(_machines, work, lists, subscription))
        found.machines.extend(row for row in rows if scope.vm_groups.have(row["id"]))
    for kind, task in around:
        getattr(found, kind).extend(work.optional(task) or [])
    for scale_set, tasks in members:
        _add_members(work, found, scale_set, tasks)
    return found


_AROUND = {"nics": "network interfaces", "addresses": "public addresses"}
_MEMBERS = {
    "instances": "instances",
    "instance_nics": "network interfaces",
    "instance_addresses": "public addresses",
}


def _machines(work: Work, lists: Lists, subscription: str, group: str = "*") -> Task:
    where = f"subscription {subscription}" if group == "*" else f"resource group {group} of {subscription}"
    return work.start(f"virtual machines of {where}", lists.machines, subscription, group)


def _around(work: Work, lists: Lists, kind: str, subscription: str) -> Task:
    return work.start(f"{_AROUND[kind]} of subscription {subscription}", getattr(lists, kind), subscription)


def _member(work: Work, lists: Lists, kind: str, scale_set: Row) -> Task:
    return work.start(f"{_MEMBERS[kind]} of scale set {scale_set['name']}", getattr(lists, kind), scale_set["id"])


def _with_states(work: Work, rows: list[Row], states: Mapping[str, Row] | None, again: Callable[[], Task]) -> list[Row]:
    """Return machines with the views of the second list; one that only that list has is a doubt: read once more."""
    known = model.by_id(rows)
    if set(states or {}) - set(known):
        known = {**known, **model.by_id(work.root(again()))}
        unread = [model.last(one) or one for one in states or {} if one not in known]
        if unread:
            work.gaps.append(f"{len(unread)} machines have a power state and are in no list: {words.listed(unread)}")
    for key, machine in known.items():
        if not machine["instanceView"]:
            machine["instanceView"] = (states or {}).get(key) or {}
            machine["stateMissing"] = states is None
    return list(known.values())


def _add_members(work: Work, found: Found, scale_set: Row, tasks: list[Task]) -> None:
    machines = work.root(tasks[0])
    found.machines.extend(machines)
    found.nics.extend(work.optional(tasks[1]) or [])
    found.addresses.extend(work.optional(tasks[2]) or [])
    if len(machines) < (scale_set["capacity"] or 0):
        count = f"counts {scale_set['capacity']} instances and lists {len(machines)}"
        work.notes.append(f"scale set {scale_set['name']} {count}")


def _is_wanted(scale_set: Row, scope: Scope, filters: Mapping[str, t.Any]) -> bool:
    """Return whether a set is uniform, in a selected resource group, and not excluded by a filter."""
    names, locations = filters.get("scale_sets", ()), filters.get("locations", ())
    return (
        str(scale_set["mode"]).lower() != "flexible"
        and scope.vmss_groups.have(scale_set["id"])
        and (not names or str(scale_set["name"]).lower() in names)
        and (not locations or not scale_set["location"] or str(scale_set["location"]).lower() in locations)
    )


def _set_names(found: Found) -> set[str]:
    names = {str(one["name"]).lower() for one in found.scale_sets}
    return names | {str(model.last(set_of(one))) for one in found.machines}


def set_of(machine: Row) -> str:
    """Return the id, in lower case, of the scale set of a machine, or an empty string."""
    machine_id = str(machine["id"]).lower()
    if "/virtualmachinescalesets/" in machine_id:
        return machine_id.rpartition("/virtualmachines/")[0]
    return str(machine.get("vmssId") or "").lower()
