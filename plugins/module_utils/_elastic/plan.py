# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Decide what one pass does, from the nodes of Slurm and the machines of a cloud. Only the memory changes here."""

from __future__ import annotations

import typing as t

from .cloud import GRACE, Machine

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .cloud import Set
    from .slurm import Node
    from .state import Memory


class Plan(t.NamedTuple):
    """The actions of one pass for one set, in names of nodes, and machines that leave."""

    start: list[str]
    stop: list[Machine]
    orphans: list[Machine]
    zombies: list[str]
    release: list[str]
    power_up: list[str]
    waiting: list[str]
    spared: list[Machine]

    @property
    def open(self) -> bool:
        """Return whether another pass is needed soon."""
        return bool(self.start or self.stop or self.orphans or self.zombies or self.release or self.waiting)


class Leaving(t.NamedTuple):
    """Machines that Slurm wants to end, those that it does not expect, and nodes that run without a machine."""

    stop: list[Machine]
    strange: list[Machine]
    alone: set[str]


def believed(
    one: Set, listed: Sequence[Machine], nodes: Mapping[str, Node], memory: Memory, now: float
) -> list[Machine]:
    """
    Return the machines of a list, and those that the list may lack because it is incomplete.

    A known machine is gone when two lists, some time apart, did not have it and its node does not answer Slurm.
    """
    known = memory.known.get(one.name, {})
    absent = {key: node for key, node in known.items() if key not in {machine.id for machine in listed}}
    old = memory.lasting(set(absent), f"absent {one.name}", now, GRACE)
    gone = {key for key in old if not (absent[key] in nodes and nodes[absent[key]].answers)}
    for key in gone:
        memory.assigned.pop(key, None)
        if absent[key] in nodes and nodes[absent[key]].starting:
            _failed(one, absent[key], memory, nodes)
    left = {key: node for key, node in absent.items() if key not in gone}
    memory.known[one.name] = {**left, **{machine.id: machine.node for machine in listed if not machine.gone}}
    return [*listed, *(Machine(key, node, absent=True) for key, node in sorted(left.items()))]


def follow(one: Set, nodes: Mapping[str, Node], memory: Memory) -> None:
    """Count the machines that did not register, until one registers."""
    before = [nodes[name] for name in memory.starting.get(one.name, []) if name in nodes]
    memory.starting[one.name] = [name for name in one.nodes if name in nodes and nodes[name].starting]
    for node in before:
        if node.timed_out:
            _failed(one, node.name, memory, nodes)
    for node in before:
        if node.answers:
            release(one, memory, [node.name])


def release(one: Set, memory: Memory, nodes: Sequence[str]) -> None:
    """Forget the failures of the set and of some nodes."""
    for key in (f"set {one.name}", *(f"node {name}" for name in nodes)):
        memory.failed.pop(key, None)


def _failed(one: Set, node: str, memory: Memory, nodes: Mapping[str, Node]) -> None:
    """Count a machine that did not register. While others of the set answer, the fault is that of the node."""
    works = any(name in nodes and nodes[name].answers for name in one.nodes)
    for key in (f"node {node}", *(() if works else (f"set {one.name}",))):
        memory.failed[key] = memory.failed.get(key, 0) + 1


def refused(one: Set, memory: Memory) -> set[str]:
    """Return the nodes that start no machine because too many did not register: those of the set, or some."""
    if memory.failed.get(f"set {one.name}", 0) >= one.start_limit:
        return set(one.nodes)
    return {name for name in one.nodes if memory.failed.get(f"node {name}", 0) >= one.start_limit}


def decide(one: Set, nodes: Mapping[str, Node], machines: Sequence[Machine], memory: Memory, now: float) -> Plan:
    """Return the actions for a set. O(memory) learns since when something unexpected is there."""
    mine = {name: nodes[name] for name in one.nodes if name in nodes}
    have = {machine.node for machine in machines if machine.node and not machine.gone}
    leaving = {machine.node for machine in machines if machine.gone}
    found = unwanted(one, nodes, machines)
    ending = _ending(mine)
    orphans = memory.lasting({machine.id for machine in found.strange}, f"orphan {one.name}", now, GRACE)
    lasting = [machine for machine in found.strange if machine.id in orphans]
    lost = {name for name in found.alone if mine[name].silent and _may_end(mine[name])}
    zombies = memory.lasting(lost, f"zombie {one.name}", now, GRACE)
    without = ending - have - leaving
    held = refused(one, memory)
    return Plan(
        # A machine of the last run of the node may still be leaving: another one with this name cannot start.
        start=[name for name, node in mine.items() if node.starting and name not in have | leaving],
        stop=found.stop,
        # The machine of a node that runs may be one whose node is not known.
        orphans=[] if found.alone else lasting,
        zombies=sorted(zombies),
        release=sorted(name for name in without if "DRAIN" not in mine[name].flags),
        power_up=[
            name for name in one.nodes[: one.min_count] if name in mine and _rests(mine[name]) and name not in held
        ],
        waiting=sorted(
            (ending & (have | leaving)) | {name for name in leaving if name in mine and mine[name].starting}
        ),
        spared=lasting if found.alone else [],
    )


def unwanted(one: Set, nodes: Mapping[str, Node], machines: Sequence[Machine]) -> Leaving:
    """Return what Slurm and a list of machines say about machines that may leave."""
    mine = {name: nodes[name] for name in one.nodes if name in nodes}
    have = {machine.node for machine in machines if machine.node and not machine.gone}
    hosts = {node.host: name for name, node in nodes.items() if node.runs}
    ending = _ending(mine)
    stop, strange = [], []
    for machine in machines:
        node = mine.get(machine.node)
        if machine.gone or machine.absent or (machine.host and hosts.get(machine.host, machine.node) != machine.node):
            continue
        if machine.node in ending:
            stop.append(machine)
        elif node is None or node.off:
            strange.append(machine)
    return Leaving(stop, strange, {name for name, node in mine.items() if node.runs and name not in have})


def _ending(mine: Mapping[str, Node]) -> set[str]:
    return {name for name, node in mine.items() if "POWERING_DOWN" in node.flags or node.lost}


def _may_end(node: Node) -> bool:
    """Return whether Slurm may be told that the machine is gone: not of what an administrator or a check took out."""
    return not ("DRAIN" in node.flags or node.set_down)


def _rests(node: Node) -> bool:
    return node.off and not node.flags & {"DOWN", "DRAIN", "POWERING_DOWN", "POWER_DOWN", "POWER_UP"}
