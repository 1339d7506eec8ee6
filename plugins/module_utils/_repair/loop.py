# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""One pass over the cluster: go on with open cases, then claim nodes that the health check drained."""

from __future__ import annotations

import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import marker

from . import journal, ladder, plan, slurm
from .steps import Steps
from .world import Waiting, World

if t.TYPE_CHECKING:
    from collections.abc import Callable

    from . import states

_STEPS_A_PASS = 20
_HOLDING = (plan.CAPTURE, plan.HEALTH, plan.PAIR, ladder.GPU_RESET)


class Repair:
    """The loop."""

    def __init__(self, settings: plan.Settings, cluster: slurm.Slurm, world: World, say: Callable[[str], None]) -> None:
        """All access to Slurm, nodes and time is injected."""
        self._settings = settings
        self._slurm = cluster
        self._world = world
        self._journal = journal.Journal(settings.directory, world.clock)
        self._say = say

    def run(self, only: str = "") -> None:
        """Do what can be done now. I(only) limits the pass to one node."""
        nodes, worked = self._slurm.nodes(), set()
        for case in self.cases().values():
            if case.open and only in ("", case.node):
                self._advance(case.node, nodes)
                worked.add(case.node)  # its state in nodes is old now
            elif case.state in (journal.OUT, journal.PARKED) and only in ("", case.node):
                self._notice_release(case, nodes)
        for node in nodes.values():
            if node.sick and only in ("", node.name) and node.name not in worked and plan.known(node, self._settings):
                self._consider(node, nodes)

    def cases(self) -> dict[str, journal.Case]:
        """Return the last case of each node."""
        return journal.cases(self._journal.events())

    def retry(self, node: str) -> str:
        """Let a node that stayed drained begin again, from its own reason; return what was done."""
        case = self.cases().get(node)
        now = self._slurm.node(node)
        if not case or case.state != journal.OUT or not now.mine:
            return f"{node} is not a node that this program has given up"
        self._journal.add(node, case.id, journal.RELEASED, text=journal.RETRY)
        self._slurm.drain(node, case.reason)
        return f"{node} begins again: {case.reason}"

    def stop(self) -> None:
        """End all repairs: each node stays drained with its first reason, and has neither a job nor a reservation."""
        nodes = self._slurm.nodes()
        for case in self.cases().values():
            if case.open and self._still_ours(case, nodes):
                self._journal.add(case.node, case.id, journal.BEGIN, step=plan.PARK)
                self._end(case, plan.PARK, self._steps(case))
                self._say(f"{case.node}: ends the repair; it stays drained: {case.reason}")

    def _consider(self, node: states.Node, nodes: dict[str, states.Node]) -> None:
        """Claim a node that the health check drained, if its jobs are over and the limit allows it."""
        known = self.cases()
        case = known.get(node.name)
        if case and (case.open or self._parked(case, node)):
            return
        found = ladder.plan(node.reason, self._settings.rules)
        what = f"{node.name}: {node.reason}; steps: {', '.join(found.steps) or 'none, a person must look'}"
        if self._settings.mode == "observe":
            self._say(f"observed {what}")
            return
        busy = [one.node for one in known.values() if one.open]
        most = plan.limit(self._settings.max_nodes, len(nodes))
        if len(busy) >= most:
            self._say(f"{node.name} waits: {', '.join(busy)} in repair, at most {most} at a time")
        elif node.busy or self._slurm.jobs(node.name):
            self._say(f"{node.name} waits until its jobs are over")
        elif self._slurm.owner(node.name):
            self._say(f"{node.name} is reserved by the case {self._slurm.owner(node.name)}, which is not ours")
        else:
            self._say(f"claims {what}")
            self._claim(node)
            self._advance(node.name, nodes)

    def _claim(self, node: states.Node) -> None:
        day = 86400
        since = self._world.clock() - self._settings.returns_days * day
        times = journal.returns(self._journal.events(), node.name, since)
        case = f"{node.name}-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(self._world.clock()))}"
        mode = self._settings.mode
        self._journal.add(node.name, case, journal.CLAIMED, reason=node.reason, mode=mode, returns=times)

    def _parked(self, case: journal.Case, node: states.Node) -> bool:
        """Return whether a parked case has all that the present mode would do."""
        same = set(marker.named(case.reason)) >= set(marker.named(node.reason))
        seen = plan.MODES.index(case.mode) >= plan.MODES.index(self._settings.mode)
        return case.state == journal.PARKED and same and seen

    def _notice_release(self, case: journal.Case, nodes: dict[str, states.Node]) -> None:
        """Close a case whose node somebody has returned to service."""
        now = nodes.get(case.node)
        if self._slurm.gone(case.node) if now is None else not now.drained:
            self._journal.add(case.node, case.id, journal.RELEASED, text="in service" if now else "gone")

    def _advance(self, name: str, nodes: dict[str, states.Node]) -> None:
        """Do steps of a case until one must wait. A fault of one node does not stop the others."""
        try:
            for _step in range(_STEPS_A_PASS):
                case = self.cases()[name]
                if not case.open or not self._still_ours(case, nodes):
                    return
                self._step(case)
        except Waiting as exc:
            self._say(f"{name} waits for {exc}")
        except slurm.SlurmError as exc:
            self._say(f"{name}: {exc}")

    def _step(self, case: journal.Case) -> None:
        step = plan.next_step(case, self._settings, self._person(case))
        here = {"id": self._world.boot(), "uptime": round(self._world.uptime(), 3)}
        if not case.begun or case.begun_with.get("controller", {}).get("id") != here["id"]:
            # A clock counts within one boot of one machine: the time limit of a step begins again after it.
            boot = case.begun_with.get("boot") or self._slurm.node(case.node).boot
            self._journal.add(case.node, case.id, journal.BEGIN, step=step, boot=boot, controller=here)
            case = self.cases()[case.node]
        steps = self._steps(case)
        if step in (plan.OUT, plan.PARK):
            self._end(case, step, steps)
            return
        done = steps.do(step)
        self._say(f"{case.node}: {step}{'' if done.ok else ' failed'}: {done.text}")
        self._journal.add(case.node, case.id, journal.END, step=step, ok=done.ok, text=done.text)
        if step == plan.CLAIM and not done.ok:
            self._journal.add(case.node, case.id, journal.HANDED_OVER, text=done.text)
        if step == plan.RETURN and done.ok:
            self._journal.add(case.node, case.id, journal.RETURNED, text=plan.tried(case))

    def _end(self, case: journal.Case, step: str, steps: Steps) -> None:
        if step == plan.PARK:
            steps.end(step, "proposed")
            self._journal.add(case.node, case.id, journal.PARKED, mode=plan.mode(case, self._settings))
            return
        person = self._person(case)
        days = f"{self._settings.returns_days:g}"
        text = f"needs a person, {self._settings.returns_max} returns in {days} days" if person else "needs a person"
        text = f"{text}, tried {plan.tried(case)}; when mended, '{self._command(case, person)}'"
        steps.end(step, text)
        self._journal.add(case.node, case.id, journal.OUT, text=text)
        self._say(f"{case.node} stays drained: {text}")

    def _command(self, case: journal.Case, person: bool) -> str:
        """Return what a person types when the node is mended; nothing begins again without a step of the ladder."""
        if person or not ladder.plan(case.reason, self._settings.rules).steps:
            return f"scontrol update NodeName={case.node} State=RESUME"
        return f"gpucluster-repair retry {case.node}"

    def _steps(self, case: journal.Case) -> Steps:
        busy = [one.node for one in self.cases().values() if one.open]
        return Steps(case, self._settings, self._slurm, self._world, busy)

    def _person(self, case: journal.Case) -> bool:
        """Return whether the node came back too often before this case."""
        since = case.since - self._settings.returns_days * 86400
        return journal.returns(self._journal.events(), case.node, since) >= self._settings.returns_max

    def _still_ours(self, case: journal.Case, nodes: dict[str, states.Node]) -> bool:
        """Return whether the state of the node is the work of this program; a person's decision ends the case."""
        if case.node not in nodes and self._slurm.gone(case.node):
            self._journal.add(case.node, case.id, journal.HANDED_OVER, text="Slurm does not know the node")
            return False
        now = self._slurm.node(case.node)
        if now.mine or now.slurms or self._unfinished(case, now):
            return True
        text = f"somebody else has set the state: {'+'.join(sorted(now.flags))} {now.reason}"
        self._steps(case).let_go()
        self._journal.add(case.node, case.id, journal.HANDED_OVER, text=text)
        self._say(f"{case.node}: {text}")
        return False

    def _unfinished(self, case: journal.Case, now: states.Node) -> bool:
        """Return whether an interrupted step explains the state."""
        if case.ended(plan.CLAIM) is None or case.begun == plan.PARK:
            return now.sick
        if now.sick and self._slurm.owner(case.node) == case.id:
            return True  # the health check has drained the node again, with its own reason
        if case.begun == plan.RETURN:
            return not now.drained
        holding = case.begun in _HOLDING or case.begun.startswith(ladder.SERVICE)
        # The node is resumed only for the moment in which the job of the step starts.
        undrained = not now.drained or bool(marker.named(now.reason))
        return holding and undrained and self._slurm.owner(case.node) == case.id
