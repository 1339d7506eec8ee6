# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Replace the machine of a node: by its elastic set, or by a spare of the site.

The set: Slurm powers the node down, gpucluster-elastic deletes the machine, and after POWER_UP it makes another one.
The spare: a node that a reservation of root keeps from jobs. It leaves this reservation; the sick node stays drained.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.slurm import OURS as ELASTIC
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import marker

from . import node, slurm, states
from .world import Done, World, free, short

if t.TYPE_CHECKING:
    from . import journal

OFF, ON, WAIT, DONE = "POWER_DOWN", "POWER_UP", "wait", "done"
_CHANGING = {"POWER_DOWN", "POWERING_DOWN", "POWER_UP", "POWERING_UP"}
# Reasons of a node whose new machine did not come: gpucluster-elastic brings such a node to idle~.
_NO_MACHINE = (ELASTIC, "ResumeTimeout reached")


def power(now: states.Node, boot: str) -> str:
    """
    Return what a node of an elastic set needs for a new machine; I(boot) is the boot time of the old one.

    Each answer is safe to repeat. Slurm ends the drain of a node that it powers down: only the reservation of the case
    keeps jobs away until the new machine answers.
    """
    if now.flags & _CHANGING or (now.off and "DOWN" in now.flags):
        return WAIT
    if now.off:
        return ON
    if states.same_boot(now.boot, boot):
        return OFF
    return DONE if now.answers else WAIT


def powered(now: states.Node, boot: str) -> bool:
    """Return whether the replacement of the machine explains a state without the drain of this program."""
    if now.drained:
        return now.reason.startswith(_NO_MACHINE) or bool(marker.named(now.reason))
    return now.off or bool(now.flags & _CHANGING) or not states.same_boot(now.boot, boot)


def fits(spare: states.Node, sick: states.Node) -> bool:
    """Return whether jobs that fit a node fit the spare: partitions, GRES and features."""
    return (
        spare.partitions >= sick.partitions
        and spare.gres == sick.gres
        and spare.features >= sick.features
        and not spare.cloud  # power saving would take its machine
    )


class Spares:
    """The spares of the site, for one case."""

    def __init__(self, name: str, case: journal.Case, cluster: slurm.Slurm, world: World, check_set: str) -> None:
        """I(name) is the reservation of the spares."""
        self._name = name
        self._case = case
        self._slurm = cluster
        self._world = world
        self._check_set = check_set

    def choose(self) -> Done:
        """
        Reserve one idle and healthy spare for the case; the text of the result is its name.

        The name of the reservation is that of a repair, so no other case and no other controller has this spare. The
        case keeps the reservations of refused spares until its end.
        """
        pool = self._slurm.members(self._name)
        for name in sorted(pool & self._slurm.held(self._case.id)):
            free(self._slurm, self._world, name)  # an interrupted run may still have its job there
        nodes = self._slurm.nodes()
        sick = nodes[self._case.node]
        if sick.name in pool:
            return Done(False, f"the node is a spare of {self._name}")
        refused = []
        for name in sorted(pool):
            fault = self._unfit(nodes.get(name), sick) or self._unreserved(name) or self._sick(name)
            if not fault:
                return Done(True, name)
            refused.append(f"{name}: {fault}")
        return Done(False, short(f"no spare in {self._name}: {', '.join(refused) or 'it is empty'}"))

    def hand_over(self, spare: str) -> Done:
        """Give the spare to the jobs of users: it leaves the reservation of the spares, then that of the case."""
        pool = self._slurm.members(self._name)
        if spare in pool:
            self._slurm.remove_member(self._name, spare, last=len(pool) == 1)
        if self._slurm.owner(spare) == self._case.id:
            self._slurm.release(spare)
        return Done(True, f"{spare} is in service for {self._case.node}")

    @staticmethod
    def _unfit(spare: states.Node | None, sick: states.Node) -> str:
        if spare is None or not fits(spare, sick):
            return "other partitions, GRES or features"
        return "" if spare.idle else "not idle"

    def _unreserved(self, spare: str) -> str:
        """Reserve a spare for the case; return why not. Another case may have taken it before it was reserved."""
        owner = self._slurm.reserve(spare, self._case.id)
        if owner != self._case.id:
            return f"reserved by {owner}"
        return "" if spare in self._slurm.members(self._name) else "no spare any more"

    def _sick(self, spare: str) -> str:
        """Check a reserved spare in a job of root; return what is wrong."""
        try:
            job = self._slurm.allocate(self._slurm.node(spare), [])
        except slurm.SlurmError as exc:
            return short(str(exc))
        try:
            found = node.sampled(
                lambda command, seconds: self._slurm.step(job, [spare], command, seconds),
                self._world.pause,
                ["--set", self._check_set],
            )
        except node.OutputError as exc:
            return short(str(exc))
        finally:
            free(self._slurm, self._world, spare)
        healthy, text = node.judge(found, [])
        return "" if healthy else text
