# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
One pass: compare Slurm with the clouds, and correct the difference.

A pass reads both sides first, so a repeated, late or interrupted call does no harm: what it missed, the next finds.
"""

from __future__ import annotations

import time
import typing as t

from . import plan
from .cloud import RETRY, ElasticError

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from .cloud import Cloud, Machine, Set
    from .slurm import Node, Slurm
    from .state import Memory, Store

    # Returns the cloud of a set; it may use the memory of the pass and write it.
    Clouds = Callable[[Set, Memory], Cloud]

_PAUSES = (0.5, 1.0, 2.0, 3.0)  # seconds between two passes; the last one repeats


class Passes:
    """Passes over all sets; say writes one line of the log."""

    def __init__(
        self,
        sets: Sequence[Set],
        clouds: Clouds,
        slurm: Slurm,
        store: Store,
        say: Callable[[str], None],
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """All access to clouds, Slurm, files and clocks is injected."""
        self._sets = sets
        self._clouds = clouds
        self._slurm = slurm
        self._store = store
        self._say = say
        self._clock = clock
        self._sleep = sleep

    def once(self, asked: Iterable[str] = ()) -> bool:
        """
        Run one pass and return whether another one is needed soon.

        O(asked) are nodes that Slurm is resuming. They start even if Slurm is too busy to tell its nodes.
        """
        with self._store.locked() as memory:
            try:
                nodes = self._slurm.nodes()
            except ElasticError as exc:
                self._say(str(exc))
                return self._blind(set(asked), memory)
            # All sets are seen, also after a failure of one.
            busy = [self._set(one, nodes, memory) for one in self._sets]
            return any(busy)

    def until_settled(self, seconds: float, asked: Iterable[str] = ()) -> None:
        """Repeat passes until nothing is left to do, for some seconds; the timer continues afterwards."""
        asked, deadline, turn = list(asked), time.monotonic() + seconds, 0
        while self.once(asked):
            pause = _PAUSES[min(turn, len(_PAUSES) - 1)]
            if time.monotonic() + pause >= deadline:
                return
            self._sleep(pause)
            turn += 1

    def _blind(self, asked: set[str], memory: Memory) -> bool:
        """Start nodes without a look at Slurm. Nothing is deleted, because nothing is known."""
        for one in self._sets:
            nodes = [name for name in one.nodes if name in asked]
            if not nodes:
                continue
            try:
                cloud = self._clouds(one, memory)
                have = {machine.node for machine in cloud.machines()}
                cloud.start([name for name in nodes if name not in have])
            except ElasticError as exc:
                self._say(f"{one.name}: {exc}")
        return bool(asked)

    def _set(self, one: Set, nodes: Mapping[str, Node], memory: Memory) -> bool:
        """Correct one set. A failure of its cloud or of Slurm ends its part of the pass."""
        now = self._clock()
        try:
            if not any(name in nodes for name in one.nodes):
                raise ElasticError("Slurm knows no node of this set; nothing is changed")
            cloud = self._clouds(one, memory)
            machines = cloud.machines()
            found = plan.decide(one, nodes, machines, memory, now)
            self._stopped(one, cloud, [*found.stop, *found.orphans], len(found.orphans))
            failed = self._started(one, cloud, found.start, memory, now)
            self._told(one, found, failed)
        except ElasticError as exc:
            self._say(f"{one.name}: {exc}")
            return True
        return found.open

    def _stopped(self, one: Set, cloud: Cloud, machines: Sequence[Machine], orphans: int) -> None:
        if not machines:
            return
        text = f", {orphans} of them unknown to Slurm" if orphans else ""
        self._say(f"{one.name}: delete {len(machines)} machines{text}: {_some(machine.id for machine in machines)}")
        cloud.stop(machines)

    def _started(self, one: Set, cloud: Cloud, nodes: Sequence[str], memory: Memory, now: float) -> dict[str, str]:
        """Request machines and return the nodes that get none; after a failure the set is not asked again at once."""
        since, reason = (memory.held.get(one.name) or [0.0, ""])[:2]
        if not nodes:
            return {}
        if abs(now - float(since)) < RETRY:
            return dict.fromkeys(nodes, f"{reason} (no new request for {RETRY:g} s)")
        memory.held.pop(one.name, None)
        self._say(f"{one.name}: start {len(nodes)} machines: {_some(nodes)}")
        failed = cloud.start(nodes)
        if failed:
            memory.held[one.name] = [now, next(iter(failed.values()))]
        return failed

    def _told(self, one: Set, found: plan.Plan, failed: Mapping[str, str]) -> None:
        """Tell Slurm about nodes without a machine."""
        for reason in dict.fromkeys(failed.values()):
            nodes = [name for name, why in failed.items() if why == reason]
            self._say(f"{one.name}: {len(nodes)} nodes get no machine, back to idle~: {_some(nodes)}: {reason}")
            self._slurm.power_down(nodes, reason)
        if found.zombies:
            self._say(f"{one.name}: {len(found.zombies)} nodes lost their machine: {_some(found.zombies)}")
            self._slurm.power_down(found.zombies, "the machine is gone")
        if found.release:
            self._slurm.release(found.release)
        if found.power_up:
            self._say(f"{one.name}: start nodes that always run: {_some(found.power_up)}")
            self._slurm.power_up(found.power_up)


def _some(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:10]) + (", ..." if len(found) > 10 else "")
