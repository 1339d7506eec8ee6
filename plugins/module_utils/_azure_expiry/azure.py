# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The resource group of the cluster: its tags, its resources and its deletion."""

from __future__ import annotations

import contextlib
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import (
    Answer,
    AzureError,
    Client,
    Place,
    RefusedError,
)

from .plan import ExpiryError

if t.TYPE_CHECKING:
    from .plan import Settings

    Body = dict[str, t.Any]

_VERSION = {"api-version": "2021-04-01"}


class Azure:
    """Requests for one resource group."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._client = Client(Place(settings.resource_manager, settings.metadata, settings.client_id))

    def check_place(self) -> None:
        """Refuse to act on another resource group than that of this machine."""
        with _failures():
            found = self._client.metadata("/metadata/instance", {"api-version": "2021-02-01"}).get("compute") or {}
        wanted = (self._settings.subscription_id.lower(), self._settings.resource_group.lower())
        here = (str(found.get("subscriptionId")).lower(), str(found.get("resourceGroupName")).lower())
        if here != wanted:
            raise ExpiryError(
                f"this machine is in the resource group {'/'.join(here)}, but the configuration names"
                f" {'/'.join(wanted)}"
            )

    def group(self) -> Answer | None:
        """Return the resource group with its tags, or None if it is gone."""
        with _failures():
            try:
                return self._client.ask("GET", self._settings.group, _VERSION)
            except RefusedError as exc:
                if exc.status != 404:
                    raise
                return None

    def foreign(self) -> list[str]:
        """Return the resources of the group that are not of the cluster."""
        with _failures():
            found = self._client.rows(f"{self._settings.group}/resources", _VERSION)
        ours = [f"{one.get('id')}/".lower() for one in found if self._is_ours(one)]
        # An extension of a machine has the ID of the machine at its beginning, and no tags.
        return [str(one.get("id")) for one in found if not f"{one.get('id')}/".lower().startswith(tuple(ours))]

    def set_tag(self, name: str, value: str) -> None:
        """Set one tag of the group, and leave the others."""
        body = {"operation": "Merge", "properties": {"tags": {name: value}}}
        self._ask("PATCH", f"{self._settings.group}/providers/Microsoft.Resources/tags/default", body)

    def delete(self) -> None:
        """Start the deletion of the group, which Azure completes without this machine."""
        self._ask("DELETE", self._settings.group)

    def _is_ours(self, resource: Body) -> bool:
        """Return whether a resource has the tag of the cluster, or belongs to a machine of the group, as its disk."""
        tags = {str(key).lower(): str(value) for key, value in (resource.get("tags") or {}).items()}
        owner = str(resource.get("managedBy") or "").lower()
        return tags.get("gpucluster_cluster") == self._settings.cluster or owner.startswith(
            f"{self._settings.group.lower()}/"
        )

    def _ask(self, method: str, path: str, body: Body | None = None) -> None:
        with _failures():
            self._client.ask(method, path, _VERSION, body)


@contextlib.contextmanager
def _failures() -> t.Iterator[None]:
    """Raise a failed request as ExpiryError: nothing may be deleted then."""
    try:
        yield
    except AzureError as exc:
        raise ExpiryError(str(exc)) from None
