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

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import steady

from . import plan
from .cloud import RETRY, ElasticError
from .slurm import OURS

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
        clock: Callable[[], float] = steady.seconds,
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

    def once(self) -> bool:
        """Run one pass and return whether another one is needed soon."""
        with self._store.locked() as memory:
            try:
                nodes = self._slurm.nodes()
            except ElasticError as exc:
                self._say(str(exc))
                return True
            # All sets are seen, also after a failure of one.
            busy = [self._set(one, nodes, memory) for one in self._sets]
            memory.alarms = {one.name: memory.alarms[one.name] for one in self._sets if one.name in memory.alarms}
            return any(busy)

    def until_settled(self, seconds: float) -> None:
        """Repeat passes until nothing is left to do, for some seconds; the timer continues afterwards."""
        deadline, turn = time.monotonic() + seconds, 0
        while self.once():
            pause = _PAUSES[min(turn, len(_PAUSES) - 1)]
            if time.monotonic() + pause >= deadline:
                return
            self._sleep(pause)
            turn += 1

    def release(self, name: str) -> None:
        """Let a set start machines again that it held back because too many did not register."""
        found = [one for one in self._sets if one.name == name]
        if not found:
            raise ElasticError(f"found no set {name}; there are: {', '.join(one.name for one in self._sets)}")
        with self._store.locked() as memory:
            plan.release(found[0], memory, found[0].nodes)
            memory.alarms.pop(name, None)

    def _set(self, one: Set, nodes: Mapping[str, Node], memory: Memory) -> bool:
        """Correct one set. A failure of its cloud or of Slurm ends its part of the pass."""
        now = self._clock()
        try:
            if not any(name in nodes for name in one.nodes):
                raise ElasticError("Slurm knows no node of this set; nothing is changed")
            plan.follow(one, nodes, memory)
            cloud = self._clouds(one, memory)
            machines = plan.believed(one, cloud.machines(nodes), nodes, memory, now)
            found = plan.decide(one, nodes, machines, memory, now)
            alarms = [_held(one, memory), _too_many(one, found), _spared(found)]
            if alarms[1]:
                found = found._replace(orphans=[], zombies=[])
            self._ended(one, cloud, found, machines, memory)
            self._told(one, found, self._started(one, cloud, found.start, memory, now))
        except ElasticError as exc:
            self._say(f"{one.name}: {exc}")
            memory.alarms[one.name] = str(exc)
            return True
        self._alarm(one, "; ".join(filter(None, alarms)), memory)
        return found.open

    def _alarm(self, one: Set, text: str, memory: Memory) -> None:
        """Note why a set does less than it should, for the monitoring; say it once."""
        if not text:
            memory.alarms.pop(one.name, None)
        elif memory.alarms.get(one.name) != text:
            self._say(f"{one.name}: {text}")
            memory.alarms[one.name] = text

    def _ended(self, one: Set, cloud: Cloud, found: plan.Plan, machines: Sequence[Machine], memory: Memory) -> None:
        """Delete machines and give up nodes, if Slurm still says so right now and no job is on them."""
        if not found.stop and not found.orphans and not found.zombies:
            return
        nodes = self._slurm.nodes()
        unlisted = [name for name in one.nodes if name not in nodes]
        if unlisted:  # nobody can ask for the jobs of a node that the list lacks
            raise ElasticError(f"nothing is deleted, because Slurm's list lacks nodes of the set: {_some(unlisted)}")
        now = plan.unwanted(one, nodes, machines)
        may = {machine.id for machine in (now.stop if now.alone else [*now.stop, *now.strange])}
        leave = [machine for machine in (*found.stop, *found.orphans) if machine.id in may]
        busy = self._slurm.busy([machine.node for machine in leave if machine.node in nodes])
        if busy:
            self._say(f"{one.name}: keep {len(busy)} machines with jobs: {_some(sorted(busy))}")
        leave = [machine for machine in leave if machine.node not in busy]
        if leave:
            orphans = len({machine.id for machine in leave} & {machine.id for machine in found.orphans})
            text = f", {orphans} of them unknown to Slurm" if orphans else ""
            self._say(f"{one.name}: delete {len(leave)} machines{text}: {_some(machine.id for machine in leave)}")
            cloud.stop(leave)
            for machine in leave:  # no list needs to prove that they go
                memory.known.get(one.name, {}).pop(machine.id, None)
        lost = [name for name in found.zombies if name in now.alone and nodes[name].silent]
        if lost:
            self._say(f"{one.name}: {len(lost)} nodes lost their machine: {_some(lost)}")
            self._slurm.power_down(lost, "the machine is gone")

    def _started(self, one: Set, cloud: Cloud, nodes: Sequence[str], memory: Memory, now: float) -> dict[str, str]:
        """Request machines and return the nodes that get none; after a failure the set is not asked again at once."""
        since, reason = memory.held.get(one.name) or [-RETRY, ""]
        held = plan.refused(one, memory)
        refused = {name: "held, because machines did not register" for name in nodes if name in held}
        nodes = [name for name in nodes if name not in held]
        if not nodes:
            return refused
        if 0 <= now - float(since) < RETRY:
            return {**refused, **dict.fromkeys(nodes, f"{reason} (no new request for {RETRY:g} s)")}
        memory.held.pop(one.name, None)
        self._say(f"{one.name}: start {len(nodes)} machines: {_some(nodes)}")
        failed = cloud.start(nodes)
        if failed:
            memory.held[one.name] = [now, next(iter(failed.values()))]
        return {**refused, **failed}

    def _told(self, one: Set, found: plan.Plan, failed: Mapping[str, str]) -> None:
        """Tell Slurm about nodes without a machine."""
        # A machine that no list had may have registered meanwhile.
        nodes = self._slurm.nodes() if failed else {}
        failed = {name: why for name, why in failed.items() if name in nodes and nodes[name].starting}
        for reason in dict.fromkeys(failed.values()):
            names = [name for name, why in failed.items() if why == reason]
            self._say(f"{one.name}: {len(names)} nodes get no machine, back to idle~: {_some(names)}: {reason}")
            self._slurm.power_down(names, reason)
        if found.release:
            self._slurm.release(found.release)
        if found.power_up:
            self._say(f"{one.name}: start nodes that always run: {_some(found.power_up)}")
            self._slurm.power_up(found.power_up)


def _held(one: Set, memory: Memory) -> str:
    """Return why nodes of a set start no machines, if they do not."""
    held = plan.refused(one, memory)
    if not held:
        return ""
    what = "the set is" if len(held) == len(one.nodes) else f"{_some(sorted(held))} are"
    return (
        f"{what} held: {one.start_limit} machines or more were started and did not register. Find the cause, then run"
        f" 'sudo -u slurm {OURS} release {one.name}'"
    )


def _spared(found: plan.Plan) -> str:
    """Return which machines may belong to a node that runs, if there are any."""
    if not found.spared:
        return ""
    names = _some(machine.id for machine in found.spared)
    return (
        f"keep {names}, which Slurm does not expect, because a node runs whose machine is not known. Resume that node,"
        " or power it down"
    )


def _too_many(one: Set, found: plan.Plan) -> str:
    """Return why a pass ends nothing on its own, if it does not."""
    count = len(found.orphans) + len(found.zombies)
    if count <= one.end_limit:
        return ""
    return (
        f"found {len(found.orphans)} machines that Slurm does not expect and {len(found.zombies)} nodes without their"
        f" machine; end_limit allows {one.end_limit} in one pass, so none ends. Look at them"
        f" ({_some([*(machine.id for machine in found.orphans), *found.zombies])}). If they may end, run"
        f" 'sudo -u slurm {OURS} reconcile --end-limit {count}'"
    )


def _some(names: Iterable[str]) -> str:
    found = list(names)
    return ", ".join(found[:10]) + (", ..." if len(found) > 10 else "")
