# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Decide what one pass does, from the nodes of Slurm and the machines of a cloud. Nothing here changes anything."""

from __future__ import annotations

import typing as t

from .cloud import GRACE

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from .cloud import Machine, Set
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

    @property
    def open(self) -> bool:
        """Return whether another pass is needed soon."""
        return bool(self.start or self.stop or self.orphans or self.zombies or self.release or self.waiting)


def decide(one: Set, nodes: Mapping[str, Node], machines: Sequence[Machine], memory: Memory, now: float) -> Plan:
    """Return the actions for a set. O(memory) learns since when something unexpected is there."""
    mine = {name: nodes[name] for name in one.nodes if name in nodes}
    have = {machine.node for machine in machines if machine.node and not machine.gone}
    leaving = {machine.node for machine in machines if machine.gone}
    ending = {name for name, node in mine.items() if "POWERING_DOWN" in node.flags or node.lost}
    stop, strange = _unwanted(machines, mine, ending)
    orphans = memory.lasting({machine.id for machine in strange}, f"orphan {one.name}", now, GRACE)
    alone = {name for name, node in mine.items() if _runs(node) and name not in have}
    zombies = memory.lasting(alone, f"zombie {one.name}", now, GRACE)
    without = ending - have - leaving
    return Plan(
        # A machine of the last run of the node may still be leaving: another one with this name cannot start.
        start=[name for name, node in mine.items() if node.starting and name not in have | leaving],
        stop=stop,
        orphans=[machine for machine in strange if machine.id in orphans],
        zombies=sorted(zombies),
        release=sorted(name for name in without if "DRAIN" not in mine[name].flags),
        power_up=[name for name in one.nodes[: one.min_count] if name in mine and _rests(mine[name])],
        waiting=sorted(
            (ending & (have | leaving)) | {name for name in leaving if name in mine and mine[name].starting}
        ),
    )


def _unwanted(
    machines: Sequence[Machine], mine: Mapping[str, Node], ending: set[str]
) -> tuple[list[Machine], list[Machine]]:
    """Return the machines that Slurm wants to end, and those that it does not know of."""
    stop, strange = [], []
    for machine in machines:
        node = mine.get(machine.node)
        if machine.gone:
            continue
        if machine.node in ending:
            stop.append(machine)
        elif node is None or node.off:
            strange.append(machine)
    return stop, strange


def _runs(node: Node) -> bool:
    """Return whether Slurm expects a machine. What an administrator or a health check drained is not changed."""
    return not (node.starting or node.ending or node.off or "DRAIN" in node.flags or node.set_down)


def _rests(node: Node) -> bool:
    return node.off and not node.flags & {"DOWN", "DRAIN", "POWERING_DOWN", "POWER_DOWN", "POWER_UP"}
