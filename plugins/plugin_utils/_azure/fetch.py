# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find all machines: choose a route, send requests in parallel, join the answers, and report every gap."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import model, scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.arm import Lists
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.by_graph import GraphRoute
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.by_lists import ListRoute
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.scope import Scope
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.verify import Check
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.work import Rows, Work

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import Settings

    Row = dict[str, t.Any]


class Found(t.NamedTuple):
    """The records, the gaps (empty if the list is complete) and the remarks."""

    records: list[Row]
    gaps: list[str]
    notes: list[str]


class Fetcher:
    """One run against one cloud."""

    def __init__(
        self, client: Client, settings: Settings, work: Work | None = None, hasty: Client | None = None
    ) -> None:
        """Use a client; hasty is a client with short limits, for requests that only save time."""
        self._client = client
        self._settings = settings
        self._work = work or Work(Deadline(settings.deadline), settings.concurrency)
        self._lists = Lists(client, settings, self._work.gaps.append)
        self._hasty = Lists(hasty or client, settings, self._work.gaps.append)

    def run(self) -> Found:
        """Return every machine that the settings select."""
        try:
            rows = self._rows()
        finally:
            self._work.close()
        return Found(_join(rows, self._settings), self._work.gaps, self._work.notes)

    def _rows(self) -> Rows:
        scope = Scope(self._work, self._lists, self._client, self._settings)
        by_lists = ListRoute(self._work, self._lists, self._settings)
        rows = None if self._settings.source == "arm" else self._by_graph(scope, by_lists)
        if rows is None:
            rows = by_lists.read(scope)
        scope.unchecked([*rows.machines, *rows.scale_sets])
        self._tell_unknown_sets(rows)
        return rows

    def _by_graph(self, scope: Scope, by_lists: ListRoute) -> Rows | None:
        """Return the completed answer of Resource Graph, or None if it fails and the lists can replace it."""
        check = Check(self._work, self._lists, self._hasty, by_lists, scope, self._settings)
        route = GraphRoute(self._work, self._lists, self._client, self._settings, scope)
        try:
            found = route.read()
        except RequestError as exc:
            if self._settings.source == "graph" or exc.status == 401:
                raise AzureInventoryError(f"Resource Graph cannot answer: {exc}") from None
            self._work.renew()
            self._work.notes.append(
                f"Resource Graph cannot answer ({exc}); the lists of Resource Manager are read instead"
            )
            return None
        scope.readable()
        return check.complete(found, route)

    def _tell_unknown_sets(self, rows: Rows) -> None:
        """Report scale sets of the filter that do not exist, because a wrong name looks like an empty set."""
        known = {str(one["name"]).lower() for one in rows.scale_sets}
        known |= {str(model.last(scale_sets.set_of(one))) for one in rows.machines}
        missing = [one for one in self._settings.filters.get("scale_sets", ()) if one not in known]
        if missing:
            self._work.notes.append(f"filters.scale_sets: there is no scale set {', '.join(missing)}")


def _join(rows: Rows, settings: Settings) -> list[Row]:
    networks = model.networks(rows.nics, rows.addresses)
    sets = model.by_id(rows.scale_sets)
    machines = {str(one["id"]).lower(): one for one in rows.machines}
    return [
        model.record(
            machines[key],
            networks,
            sets.get(scale_sets.set_of(machines[key])),
            settings.vmss_tags,
            settings.exact_ids,
        )
        for key in sorted(machines)
    ]
