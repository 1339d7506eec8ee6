# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Match the subscriptions and resource groups of the inventory file with the existing ones."""

from __future__ import annotations

import json
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import model
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import (
    ConfigError,
    fits,
    is_guid,
    meant,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.lists import Lists, Work
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Row = dict[str, t.Any]


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

    def check(self) -> None:
        """Refuse a name that matches no group, because the cluster would look smaller than it is."""
        missing = [] if None in self._known.values() else self._absent(self._names())
        if missing:
            names = sorted(self._names(), key=str.lower)
            raise ConfigError(
                f"{self.option}: no resource group fits {missing[0]!r}{meant(missing[0], map(str.lower, names))}; "
                f"the caller can see: {words.listed(names, 10) or 'none'}"
            )

    def of(self, subscription: str) -> tuple[str, ...]:
        """Return the names to request in a subscription; a star if the groups are matched later."""
        known = self._known.get(subscription)
        if known is not None and "*" not in self.wanted:
            return tuple(name for name in known if fits(name, self.wanted))
        return ("*",) if self.wanted else ()

    def have(self, resource_id: t.Any) -> bool:
        """Return whether a resource is in a selected group."""
        return "*" in self.wanted or fits(model.part(resource_id, "resourcegroups"), self.wanted)

    def unseen(self, resources: Iterable[t.Any]) -> list[str]:
        """Return the names that could not be checked and that contain none of the resources."""
        groups = {model.part(one, "resourcegroups") for one in resources}
        return self._absent(groups | self._names()) if None in self._known.values() else []

    def _names(self) -> set[str]:
        return {name for names in self._known.values() for name in names or []}

    def _absent(self, names: Iterable[str]) -> list[str]:
        there = list(names)
        return [one for one in self.wanted if one != "*" and not any(fits(name, [one]) for name in there)]


class Scope:
    """The subscriptions and resource groups of one run."""

    def __init__(self, work: Work, lists: Lists, settings: Settings) -> None:
        self._work, self._lists = work, lists
        self.subscriptions = self._choose(settings.subscriptions)
        options = {
            "include_vm_resource_groups": settings.vm_groups,
            "include_vmss_resource_groups": settings.vmss_groups,
            "filters.resource_groups": tuple(settings.filters.get("resource_groups", ())) or ("*",),
        }
        named = any(wanted and "*" not in wanted for wanted in options.values())
        known = self._known_groups() if named else {}
        self._groups = [Groups(option, wanted, known) for option, wanted in options.items()]
        self.vm_groups, self.vmss_groups, _filtered = self._groups
        for one in self._groups:
            one.check()

    def tell_unseen(self, resources: Iterable[t.Any]) -> None:
        """Report group names that could not be checked and that contain no resources."""
        seen = list(resources)
        for groups in self._groups:
            for name in groups.unseen(seen):
                self._work.gaps.append(
                    f"{groups.option} names {name!r}, nothing lies in it, and the resource groups cannot be listed"
                )

    def _choose(self, wanted: Sequence[str]) -> list[str]:
        """Return the ids to read."""
        if wanted and all(is_guid(one) for one in wanted):
            return list(dict.fromkeys(one.lower() for one in wanted))
        known = self._work.result(self._work.start("the list of subscriptions", self._lists.subscriptions))
        enabled = [one for one in known if str(one["state"] or "Enabled") != "Disabled"]
        if wanted and "all" not in wanted:
            return list(dict.fromkeys(_by_name(one, known) for one in wanted))
        if len(enabled) > 1 and not wanted:
            listed = ", ".join(f"{one['name']} ({one['id']})" for one in enabled[:10])
            raise ConfigError(f"set subscription_id, or subscriptions: [all]; the caller can see {listed}")
        if not enabled:
            raise AzureError("the caller can see no subscription; assign it the role Reader on one")
        return [one["id"] for one in enabled]

    def _known_groups(self) -> dict[str, list[str] | None]:
        tasks = [
            self._work.start(f"resource groups of subscription {one}", self._lists.groups, one)
            for one in self.subscriptions
        ]
        known: dict[str, list[str] | None] = {}
        for one, task in zip(self.subscriptions, tasks):
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


def cli_subscription(environ: Mapping[str, str]) -> str:
    """Return the id of the default subscription of the Azure CLI, or an empty string."""
    directory = Path(environ.get("AZURE_CONFIG_DIR") or "~/.azure").expanduser()
    try:
        profile = json.loads((directory / "azureProfile.json").read_text(encoding="utf-8-sig"))
        return next((str(entry["id"]) for entry in profile["subscriptions"] if entry.get("isDefault")), "")
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""
