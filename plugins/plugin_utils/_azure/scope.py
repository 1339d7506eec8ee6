# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Match the subscriptions and resource groups of the inventory file with the existing ones."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import graph, model
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import (
    AzureInventoryError,
    ConfigError,
    fits,
    is_guid,
    is_pattern,
    meant,
)

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.arm import Lists
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.work import Work

    Row = dict[str, t.Any]

_ALL = ("*",)


class Groups:
    """The resource groups of an option, matched with the groups that the subscriptions list."""

    def __init__(self, option: str, wanted: Sequence[str], known: Mapping[str, list[str] | None]) -> None:
        """Accept the names in every subscription; None if they cannot be read."""
        self.option = option
        self.wanted = tuple(wanted)
        self._known = known

    def __bool__(self) -> bool:
        """Return whether any group is selected."""
        return bool(self.wanted)

    @property
    def every(self) -> bool:
        """Return whether all groups are selected."""
        return "*" in self.wanted

    def unmatched(self) -> list[str]:
        """Return the names that match no group; empty if a subscription does not list its groups."""
        if self.every or None in self._known.values():
            return []
        names = {name for groups in self._known.values() for name in groups or []}
        return [one for one in self.wanted if not any(fits(name, [one]) for name in names)]

    def check(self) -> None:
        """Refuse a name that matches no group, because the cluster would look smaller than it is."""
        missing = self.unmatched()
        if missing:
            names = sorted({name for groups in self._known.values() for name in groups or []}, key=str.lower)
            seen = words.listed(names, 10)
            raise ConfigError(
                f"{self.option}: no resource group fits {missing[0]!r}{meant(missing[0], map(str.lower, names))}; "
                f"the caller can see: {seen or 'none'}"
            )

    def of(self, subscription: str) -> tuple[str, ...]:
        """Return the names to request in a subscription; a star if the client must match a pattern."""
        if self.every:
            return _ALL
        known = self._known.get(subscription)
        if known is not None:
            return tuple(name for name in known if fits(name, self.wanted))
        return _ALL if any(map(is_pattern, self.wanted)) else self.wanted

    def everywhere(self) -> tuple[str, ...]:
        """Return the names for one query over all subscriptions."""
        if not self._known:
            return _ALL if any(map(is_pattern, self.wanted)) else self.wanted
        found = dict.fromkeys(name.lower() for one in self._known for name in self.of(one))
        return _ALL if "*" in found else tuple(found)

    def have(self, resource_id: t.Any) -> bool:
        """Return whether a resource is in a selected group."""
        return self.every or fits(model.part(resource_id, "resourcegroups"), self.wanted)

    def silent(self, seen: Iterable[t.Any]) -> list[str]:
        """Return the names that could not be checked and that contain none of the resources."""
        if self.every or None not in self._known.values():
            return []
        groups = {model.part(one, "resourcegroups") for one in seen}
        groups |= {name for names in self._known.values() for name in names or []}
        return [one for one in self.wanted if not any(fits(name, [one]) for name in groups)]


class Scope:
    """The subscriptions of one run."""

    def __init__(self, work: Work, lists: Lists, client: Client, settings: Settings) -> None:
        self._work = work
        self._lists = lists
        self._client = client
        self._settings = settings
        self._visible = work.start("the list of subscriptions", self._read_visible)
        self.subscriptions = self._choose()
        self.by_management_group = not self.subscriptions
        if self.by_management_group:
            self.subscriptions = self._below_management_groups()
        self.vm_groups, self.vmss_groups, self.filtered = self._groups()

    def queries(self) -> list[Row]:
        """Return the scope of each query to Resource Graph."""
        if self.by_management_group:
            return [{"managementGroups": list(self._settings.management_groups)}]
        ids = self.subscriptions
        return [{"subscriptions": ids[start : start + graph.SCOPE]} for start in range(0, len(ids), graph.SCOPE)]

    def readable(self) -> list[str]:
        """Return the subscriptions that the caller can see, and report the others."""
        known = self._work.result(self._visible)
        if not known or self.by_management_group:
            return self.subscriptions
        ids = {one["id"] for one in known}
        hidden = [one for one in self.subscriptions if one not in ids]
        if len(hidden) == len(self.subscriptions):
            raise AzureInventoryError(
                f"the caller cannot see subscription {', '.join(hidden)}; check the id and assign the role Reader"
            )
        for one in hidden:
            self._work.gaps.append(f"subscription {one}: the caller cannot see it; assign the role Reader")
        self.subscriptions = [one for one in self.subscriptions if one in ids]
        return self.subscriptions

    def unchecked(self, rows: Iterable[Row]) -> None:
        """Report group names that could not be checked and that contain no resources."""
        seen = [row["id"] for row in rows]
        for groups in (self.vm_groups, self.vmss_groups):
            for name in groups.silent(seen):
                self._work.gaps.append(
                    f"{groups.option} names {name!r}, nothing lies in it, and the resource groups cannot be listed"
                )

    def _read_visible(self) -> list[Row] | None:
        """Return the subscriptions that the caller can see, or None if Azure refuses this request."""
        try:
            return self._lists.subscriptions()
        except RequestError as exc:
            if exc.status == 401:
                raise
            return None

    def _choose(self) -> list[str]:
        """Return the ids to read; an empty list means management groups."""
        wanted = self._settings.subscriptions
        if not wanted and self._settings.management_groups:
            return []
        if wanted and all(is_guid(one) for one in wanted):
            return list(dict.fromkeys(one.lower() for one in wanted))
        known = self._work.result(self._visible) or []
        enabled = [one for one in known if str(one["state"] or "Enabled") != "Disabled"]
        if "all" in wanted:
            chosen = [one["id"] for one in enabled]
        elif wanted:
            chosen = list(dict.fromkeys(_by_name(one, known) for one in wanted))
        elif len(enabled) > 1:
            listed = ", ".join(f"{one['name']} ({one['id']})" for one in enabled[:10])
            raise ConfigError(f"set subscription_id, or subscriptions: [all]; the caller can see {listed}")
        else:
            chosen = [one["id"] for one in enabled]
        if not chosen:
            raise AzureInventoryError("the caller can see no subscription; assign it the role Reader on one")
        return chosen

    def _below_management_groups(self) -> list[str]:
        """Return the subscriptions below the management groups; only Resource Graph knows them."""
        version = self._settings.version("resource_graph")
        asked = (self._client, version, self.queries()[0], graph.SUBSCRIPTIONS, dict)
        try:
            rows = self._work.result(self._work.start("the subscriptions of the management groups", graph.rows, *asked))
        except RequestError as exc:
            if exc.status == 401:
                raise
            self._work.gaps.append(f"the subscriptions of the management groups, so nothing can be compared: {exc}")
            return []
        return sorted({str(row["subscriptionId"]).lower() for row in rows})

    def _groups(self) -> tuple[Groups, Groups, Groups]:
        s = self._settings
        options = {
            "include_vm_resource_groups": s.vm_groups,
            "include_vmss_resource_groups": s.vmss_groups,
            "filters.resource_groups": tuple(s.filters.get("resource_groups", ())) or _ALL,
        }
        named = any(wanted and "*" not in wanted for wanted in options.values())
        known = self._known_groups() if named else dict.fromkeys(self.subscriptions)
        found = [Groups(option, wanted, known) for option, wanted in options.items()]
        for one in found:
            one.check()
        return found[0], found[1], found[2]

    def _known_groups(self) -> dict[str, list[str] | None]:
        tasks = {
            one: self._work.start(f"resource groups of subscription {one}", self._lists.groups, one)
            for one in self.subscriptions
        }
        known: dict[str, list[str] | None] = {}
        for one, task in tasks.items():
            try:
                known[one] = self._work.result(task)
            except RequestError as exc:
                if exc.status == 401:
                    raise
                known[one] = None
        return known


def _by_name(wanted: str, known: Iterable[Row]) -> str:
    matches = [one["id"] for one in known if wanted.lower() in (one["id"], one["name"].lower())]
    if len(matches) == 1:
        return str(matches[0])
    if is_guid(wanted):
        return wanted.lower()
    problem = "no subscription that the caller can see" if not matches else f"{len(matches)} subscriptions"
    raise ConfigError(f"subscriptions: the name {wanted!r} fits {problem}; use the id")
