# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the lists of Azure Resource Manager as flat rows."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import model

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Row = dict[str, t.Any]


class Lists:
    """One method per list; every method follows the next links to the end."""

    def __init__(self, client: Client, settings: Settings, gap: Callable[[str], None]) -> None:
        """Use a client; gap receives the rows of a list that cannot be read."""
        self._client = client
        self._settings = settings
        self._gap = gap

    def subscriptions(self) -> list[Row]:
        """Return id, name and state of every subscription that the caller can see."""
        found = self._rows("/subscriptions", "subscriptions", dict)
        return [
            {"id": str(one["subscriptionId"]).lower(), "name": str(one.get("displayName")), "state": one.get("state")}
            for one in found
            if one.get("subscriptionId")
        ]

    def groups(self, subscription: str) -> list[str]:
        """Return the names of the resource groups that the caller can see."""
        return [str(one["name"]) for one in self._rows(f"{_scope(subscription)}/resourcegroups", "resources", dict)]

    def existing(self, subscription: str, group: str = "*") -> list[Row]:
        """Return id, name, location and tags of all machines except instances of uniform sets, a thousand per page."""
        kind = "resourceType eq 'Microsoft.Compute/virtualMachines'"
        path = f"{_scope(subscription, group)}/resources"
        return self._rows(path, "resources", lambda one: {**one, "tags": one.get("tags") or {}}, **{"$filter": kind})

    def machines(self, subscription: str, group: str = "*") -> list[Row]:
        """Return virtual machines including members of flexible sets; with power state only if a group is given."""
        extra = {} if group == "*" else {"$expand": "instanceView"}
        path = f"{_scope(subscription, group)}/providers/Microsoft.Compute/virtualMachines"
        return self._rows(path, "compute", model.flat_machine, **extra)

    def power_states(self, subscription: str) -> dict[str, Row]:
        """Return the instance view of every machine of a subscription, by its id in lower case."""
        path = f"{_scope(subscription)}/providers/Microsoft.Compute/virtualMachines"
        found = self._rows(path, "compute", model.flat_machine, statusOnly="true")
        return {str(one["id"]).lower(): {**one["instanceView"], "id": one["id"]} for one in found}

    def nics(self, subscription: str) -> list[Row]:
        """Return the network interfaces of a subscription, without those of uniform sets."""
        path = f"{_scope(subscription)}/providers/Microsoft.Network/networkInterfaces"
        return self._rows(path, "network", model.flat_nic)

    def addresses(self, subscription: str) -> list[Row]:
        """Return the public addresses of a subscription, without those of uniform sets."""
        path = f"{_scope(subscription)}/providers/Microsoft.Network/publicIPAddresses"
        return self._rows(path, "network", model.flat_address)

    def scale_sets(self, subscription: str) -> list[Row]:
        """Return the scale sets of a subscription."""
        path = f"{_scope(subscription)}/providers/Microsoft.Compute/virtualMachineScaleSets"
        return self._rows(path, "compute", model.flat_scale_set)

    def instances(self, scale_set: str) -> list[Row]:
        """Return the instances of a uniform set with their power state."""
        return self._rows(f"{scale_set}/virtualMachines", "compute", model.flat_machine, **{"$expand": "instanceView"})

    def instance_nics(self, scale_set: str) -> list[Row]:
        """Return the network interfaces of all instances of a uniform set."""
        return self._rows(f"{scale_set}/networkInterfaces", "scale_set_network", model.flat_nic)

    def instance_addresses(self, scale_set: str) -> list[Row]:
        """Return the public addresses of all instances of a uniform set."""
        return self._rows(f"{scale_set}/publicipaddresses", "scale_set_network", model.flat_address)

    def _rows(self, path: str, api: str, convert: Callable[[Mapping[str, t.Any]], Row], **query: str) -> list[Row]:
        version = {"api-version": self._settings.version(api)}
        found, broken, sizes = [], 0, []
        for page in self._client.pages(path, {**version, **query}):
            sizes.append(len(page))
            for item in page:
                if isinstance(item, dict) and (item.get("id") or item.get("subscriptionId")):
                    found.append(convert(item))
                else:
                    broken += 1
        if broken:
            self._gap(f"{broken} rows of the list {path}: they are empty or have no id")
        if len(sizes) > 1 and not sizes[-1]:
            self._gap(f"the last page of the list {path} is empty, although a link leads to it; rows may be missing")
        return found


def _scope(subscription: str, group: str = "*") -> str:
    return f"/subscriptions/{subscription}" + ("" if group == "*" else f"/resourceGroups/{group}")
