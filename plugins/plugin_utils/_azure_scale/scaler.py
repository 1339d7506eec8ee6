# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Grow a set by one request per scale set, and remove instances by their names."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import plan, scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import VERSION

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import Instance, ScaleSet

    Body = dict[str, t.Any]

_PAUSE = 10.0  # seconds between two looks at new machines


class Arm(t.Protocol):
    """The requests to Resource Manager; each returns when Azure is done and raises the error of a failed operation."""

    def get(self, path: str, version: str, **query: str) -> Body | None:
        """Return a resource, or nothing if it does not exist."""

    def rows(self, path: str, version: str, **query: str) -> list[Body]:
        """Return all rows of a list."""

    def patch(self, path: str, version: str, body: t.Any) -> Body:
        """Change a resource."""

    def post(self, path: str, version: str, body: t.Any = None, **query: str) -> Body:
        """Run an action of a resource."""

    def settled(self, path: str, version: str, what: str = "") -> Body | None:
        """Wait until nobody changes a resource any more."""


class Outcome(t.NamedTuple):
    """The set afterwards, the instances that came and went, and what went wrong, one sentence each."""

    sets: list[ScaleSet]
    added: list[Instance]
    removed: list[Instance]
    problems: list[str]

    @property
    def changed(self) -> bool:
        """Return whether instances came or went."""
        return bool(self.added or self.removed)


class Scaler:
    """One set of nodes: its scale sets in their order."""

    def __init__(
        self,
        arm: Arm,
        read: Callable[[], list[ScaleSet]],
        left: Callable[[], float],
        tell: Callable[[str], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Read returns the current scale sets, left the seconds until the deadline, tell prints one line."""
        self._arm = arm
        self._read = read
        self._left = left
        self._tell = tell
        self._sleep = sleep

    def grow(self, count: int) -> Outcome:
        """
        Grow the set to count machines.

        A failure of Azure stops it. Machines that came stay; what Azure could not make is deleted by name, so that the
        capacity is the number of machines and Azure does not try on.
        """
        before = self._begun(count)
        broken = [one for one in scale_sets.instances(before) if one.broken]
        sets = self._without(broken, before)
        problems = self._started(sets)
        wanted = plan.growths(sets, count)
        for growth in wanted:
            if not problems:
                problems += self._patched(growth)
        stopped = any(one.stopped for one in scale_sets.instances(sets))
        after = self._finished(count, problems, sets) if wanted or broken or stopped else sets
        known = {(one.scale_set, one.id) for one in scale_sets.instances(before)}
        added = [one for one in scale_sets.instances(after) if (one.scale_set, one.id) not in known and one.usable]
        return Outcome(after, added, broken, problems + unusable(after))

    def _begun(self, count: int) -> list[ScaleSet]:
        """Return the set when nobody changes it, or refuse before anything is changed."""
        before = self._read()
        plan.growths(before, count)
        return self._restored(before)

    def _patched(self, growth: plan.Growth) -> list[str]:
        """Send the one request that grows a scale set; return what went wrong."""
        one = growth.scale_set
        self._tell(f"{one.name}: {len(one.instances)} -> {growth.capacity} instances")
        try:
            self._arm.patch(one.path, VERSION, one.body(growth.capacity))
        except RequestError as exc:
            return [f"{one.name}: {plan.explained(exc, one.spot)}"]
        return []

    def remove(self, nodes: Sequence[str]) -> Outcome:
        """Delete the machines of some nodes by their instance IDs; one that is gone already is no error."""
        before = self._read()
        found, _missing = plan.victims(before, nodes)
        removed = [one for some in found.values() for one in some]
        return Outcome(self._without(removed, before), [], removed, [])

    def _without(self, leaving: Sequence[Instance], sets: list[ScaleSet]) -> list[ScaleSet]:
        """Delete instances, by one request per scale set; Azure lowers the capacity by their number."""
        for one in sets:
            ids = [instance.id for instance in leaving if instance.scale_set == one.name]
            if ids:
                self._tell(f"{one.name}: delete {len(ids)} of {len(one.instances)} instances")
                self._arm.post(f"{one.path}/delete", VERSION, {"instanceIds": ids})
        return self._read() if leaving else sets

    def _started(self, sets: Sequence[ScaleSet]) -> list[str]:
        """Start machines that exist but do not run, such as evicted spot machines; return what went wrong."""
        for one in sets:
            ids = [instance.id for instance in one.instances if instance.stopped]
            if not ids:
                continue
            self._tell(f"{one.name}: start {len(ids)} instances that do not run")
            try:
                self._arm.post(f"{one.path}/start", VERSION, {"instanceIds": ids})
            except RequestError as exc:
                return [f"{one.name}: Azure cannot start machines that do not run: {plan.explained(exc, one.spot)}"]
        return []

    def _finished(self, count: int, problems: list[str], after: list[ScaleSet]) -> list[ScaleSet]:
        """Return the set when its machines run; after a problem, bring its capacity back to what exists."""
        try:
            after = self._quiet() if problems else self._waited(count)
            failed = [one for one in scale_sets.instances(after) if one.broken]
            if failed:
                names = ", ".join(one.name for one in failed[:10])
                problems.append(f"Azure could not make {len(failed)} machines ({names}); they are deleted")
            return self._restored(self._without(failed, after))
        except RequestError as exc:
            problems.append(f"the set could not be put in order, run it again: {exc}")
            return after

    def _quiet(self) -> list[ScaleSet]:
        for one in self._read():
            self._arm.settled(one.path, VERSION, f"{one.name}: wait for Azure")
        return self._read()

    def _waited(self, count: int) -> list[ScaleSet]:
        """Return the set when all machines run, or none can follow, or the time is over."""
        while True:
            after = self._read()
            found = scale_sets.instances(after)
            ready = sum(one.usable for one in found)
            final = all(one.usable or one.broken or one.stopped for one in found)
            if ready >= count or final or self._left() <= _PAUSE:
                return after
            self._tell(f"{ready} of {count} machines run")
            self._sleep(_PAUSE)

    def _restored(self, sets: list[ScaleSet]) -> list[ScaleSet]:
        """Set a capacity above the number of machines to that number, so that Azure does not try on."""
        if not _stale(sets):
            return sets
        sets = self._quiet()  # somebody may be growing it now
        for one in _stale(sets):
            counted, listed = self._counted(one), len(one.instances)
            if counted != listed:  # with a capacity below the number of machines, Azure would choose which ones go
                number = "an unknown number of" if counted is None else counted
                self._tell(f"{one.name}: Azure counts {number} machines and lists {listed}; the capacity stays")
                continue
            self._tell(f"{one.name}: capacity {one.capacity} -> {listed}, as many as exist")
            self._arm.patch(one.path, VERSION, one.body(listed))
        return self._read() if _stale(sets) else sets

    def _counted(self, one: ScaleSet) -> int | None:
        """Return how many machines Azure counts, which it does apart from the list; nothing if it does not say."""
        view = self._arm.get(f"{one.path}/instanceView", VERSION) or {}
        try:
            rows = view["virtualMachine"]["statusesSummary"]
            counts: list[int] = [row["count"] for row in rows if row["code"].startswith("ProvisioningState/")]
            return sum(counts)
        except (KeyError, TypeError, AttributeError):
            return None


def _stale(sets: Sequence[ScaleSet]) -> list[ScaleSet]:
    """Return the scale sets whose capacity is larger than the number of their machines."""
    return [one for one in sets if one.capacity > len(one.instances)]


def unusable(sets: Sequence[ScaleSet]) -> list[str]:
    """Return one sentence per scale set with machines that do not run."""
    found = []
    for one in sets:
        bad = [f"{instance.node} ({instance.provisioning}, {instance.power})" for instance in one.instances]
        bad = [text for text, instance in zip(bad, one.instances) if not instance.usable]
        cause = "; spot machines that Azure evicted look like this" if one.spot else ""
        if bad:
            found.append(f"{one.name}: machines that do not run: {', '.join(bad[:20])}{cause}")
    return found
