# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read machines from the lists of Resource Manager, if Resource Graph is not available or not up to date."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import model, scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.work import Rows, Task, Work

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.arm import Lists
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.scope import Scope
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Row = dict[str, t.Any]


class ListRoute:
    """Reads whole lists."""

    def __init__(self, work: Work, lists: Lists, settings: Settings) -> None:
        self._work = work
        self._lists = lists
        self._settings = settings

    def read(self, scope: Scope) -> Rows:
        """Return every machine of the wanted resource groups."""
        found = Rows([], [], [], [])
        subscriptions = scope.readable()
        sets = self.start_sets(subscriptions) if scope.vmss_groups or self._settings.vmss_tags else []
        groups = {one: scope.vm_groups.of(one) for one in subscriptions}
        machines = self._start_machines(groups)
        states = [
            self._work.start(f"power states of subscription {one}", self._lists.power_states, one)
            for one in subscriptions
            if "*" in groups[one]
        ]
        around = self._start_networks([one for one in subscriptions if groups[one]])
        for task in sets:
            found.scale_sets.extend(self._work.root(task) or [])
        uniform = scale_sets.wanted(found.scale_sets, scope.vmss_groups.have, self._settings.filters)
        reader = scale_sets.Reader(self._work, self._lists)
        instances = reader.start(uniform)
        for task in machines:
            found.machines.extend(row for row in self._work.root(task) or [] if scope.vm_groups.have(row["id"]))
        self._finish_networks(around, found)
        members = reader.finish(instances, roots=True)
        found = scale_sets.replaced(found, members)
        if self._settings.verify != "none":
            self._work.notes += scale_sets.short(members)
        _add_states(found.machines, [self._work.optional(task) for task in states])
        if subscriptions and self._work.gaps and not found.machines:
            raise AzureInventoryError("no machine could be read: " + "; ".join(self._work.gaps[:3]))
        self._tell_nameless(found.machines)
        return found

    def start_sets(self, subscriptions: Iterable[str]) -> list[Task]:
        """Start to read the scale sets of some subscriptions."""
        return [
            self._work.start(f"scale sets of subscription {one}", self._lists.scale_sets, one) for one in subscriptions
        ]

    def read_groups(self, groups: Mapping[str, Iterable[str]]) -> Rows:
        """Return the machines of some resource groups with their resources; a list that cannot be read is a gap."""
        found = Rows([], [], [], [])
        machines = self._start_machines(groups)
        around = self._start_networks(groups)
        for task in machines:
            found.machines.extend(self._work.optional(task) or [])
        self._finish_networks(around, found)
        return found

    def _start_machines(self, groups: Mapping[str, Iterable[str]]) -> list[Task]:
        tasks = []
        for subscription, names in groups.items():
            for group in names:
                where = f"subscription {subscription}" if group == "*" else f"resource group {group} of {subscription}"
                what = f"virtual machines of {where}"
                tasks.append(self._work.start(what, self._lists.machines, subscription, group))
        return tasks

    def _start_networks(self, subscriptions: Iterable[str]) -> list[tuple[str, Task]]:
        tasks = []
        for one in subscriptions:
            what = f"network interfaces of subscription {one}"
            tasks.append(("nics", self._work.start(what, self._lists.nics, one)))
            what = f"public addresses of subscription {one}"
            tasks.append(("addresses", self._work.start(what, self._lists.addresses, one)))
        return tasks

    def _finish_networks(self, tasks: Iterable[tuple[str, Task]], found: Rows) -> None:
        for kind, task in tasks:
            getattr(found, kind).extend(self._work.optional(task) or [])

    def _tell_nameless(self, machines: list[Row]) -> None:
        """Report it if the lists have no host name from inside any machine; that name may differ from the profile."""
        running = [one for one in machines if model.power_state(one["instanceView"]) == "running"]
        if running and not any(one["instanceView"].get("computerName") for one in running):
            self._work.notes.append(
                "the lists of Resource Manager gave no names from inside the machines; OS profiles name them"
            )


def _add_states(machines: Iterable[Row], answers: Iterable[t.Any]) -> None:
    """Add the instance view of the second list to every machine; report it if that list cannot be read."""
    states: dict[str, Row] = {}
    failed = False
    for answer in answers:
        failed = failed or answer is None
        states.update(answer or {})
    for machine in machines:
        if not machine["instanceView"]:
            view = states.get(str(machine["id"]).lower())
            machine["instanceView"] = view or {}
            machine["stateMissing"] = failed and view is None
