# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The steps of a repair. Each can be repeated after an interruption; each is in the journal before and after it."""

from __future__ import annotations

import json
import secrets
import time
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import marker
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file

from . import journal, ladder, node, plan, slurm, states
from .world import Done, Waiting, World, free, short

if t.TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_CAPTURE_SECONDS = 420.0
_RESET_SECONDS = 600.0
_SERVICE_SECONDS = 180.0
_PAIR_SECONDS = 900.0


class Steps:
    """The steps for one case."""

    def __init__(
        self, case: journal.Case, settings: plan.Settings, cluster: slurm.Slurm, world: World, others: Sequence[str]
    ) -> None:
        """I(others) are nodes in repair, which are no partners."""
        self._case = case
        self._settings = settings
        self._slurm = cluster
        self._world = world
        self._others = others

    def do(self, step: str) -> Done:
        """Do a step; raise Waiting if it is not over, SlurmError if Slurm does not answer."""
        known: dict[str, Callable[[], Done]] = {
            plan.CLAIM: self._claim,
            plan.CAPTURE: self._capture,
            plan.HEALTH: self._health,
            plan.PAIR: self._pair,
            plan.RETURN: self._return,
            ladder.GPU_RESET: self._gpu_reset,
            ladder.REBOOT: self._reboot,
        }
        return known[step]() if step in known else self._service(step.partition(" ")[2])

    def end(self, step: str, text: str) -> None:
        """Leave the node drained with a reason, and give up the job and the reservation."""
        found = ladder.plan(self._case.reason, self._settings.rules)
        if step == plan.OUT or plan.mode(self._case, self._settings) == "propose":
            self._ticket(found, text)
        self._free()
        self._slurm.drain(self._case.node, self._reason(text) if step == plan.OUT else self._case.reason)
        self.let_go()

    def let_go(self) -> None:
        """Give up job and reservation of the case; leave the state of the node as it is."""
        if self._slurm.owner(self._case.node) == self._case.id:
            self._slurm.cancel(self._case.node)
            self._slurm.release(self._case.node)

    def _claim(self) -> Done:
        owner = self._slurm.reserve(self._case.node, self._case.id)
        if owner != self._case.id:
            return Done(False, f"{owner} has reserved the node")
        self._mark("claimed")
        return Done(True, "reserved for root")

    def _capture(self) -> Done:
        known = {"node.txt": self._slurm.described(self._case.node), "case.json": json.dumps(self._case._asdict())}
        printed = ""
        if self._now().answers:
            code, printed, err = self._on_node(["/bin/sh", "-c", node.CAPTURE], _CAPTURE_SECONDS)
            if code:
                return Done(False, f"exit status {code}: {short(err)}")
        try:
            found = node.collect(printed, known)
        except node.OutputError as exc:
            return Done(False, str(exc))
        path = Path(self._settings.directory) / "captures" / f"{self._case.id}.tar.gz"
        write(path, found.archive)
        host = f", physical host {found.physical_host}" if found.physical_host else ""
        return Done(True, f"{path}{host}" + ("" if printed else ", without the node, which does not answer"))

    def _service(self, name: str) -> Done:
        if not self._now().answers:
            return Done(False, "the node does not answer")
        code, out, err = self._on_node(["timeout", "120", "systemctl", "restart", name], _SERVICE_SECONDS)
        return Done(code == 0, short(err or out) or f"restarted {name}")

    def _gpu_reset(self) -> Done:
        if not self._now().answers:
            return Done(False, "the node does not answer")
        code, out, err = self._on_node(["/bin/sh", "-c", node.GPU_RESET], _RESET_SECONDS)
        if code == 0:
            forget = [word for name in ("gpu_xid", "nvlink_errors") for word in ("--forget", name)]
            self._on_node(["gpucluster-check", "--quiet", *forget, "gpu_count"], _SERVICE_SECONDS)
        return Done(code == 0, short(out + err))

    def _reboot(self) -> Done:
        """Reboot once. The reboot is over when the node answers with another boot time."""
        now, before = self._now(), self._case.begun_with.get("boot", "")
        if now.answers and not now.rebooting and not states.same_boot(now.boot, before):
            return Done(True, f"booted at {now.boot}")
        if self._waited() > self._settings.reboot_minutes * 60:
            return Done(False, f"did not come back in {self._settings.reboot_minutes:g} minutes")
        if not now.rebooting:
            if not now.answers:
                return Done(False, "the node does not answer")
            self._free()
            self._slurm.reboot(self._case.node, self._reason("reboot"))
        raise Waiting("the reboot")

    def _health(self) -> Done:
        """Check the node again, also with the checks that the drain named if the set does not have them."""
        if not self._now().answers:
            if self._waited() > self._settings.reboot_minutes * 60:
                return Done(False, "the node does not answer")
            raise Waiting("an answer of the node")
        again = self._case.ended(plan.RETURN)
        named = [*marker.named(self._case.reason), *marker.named(again.text if again else "")]
        try:
            found = self._sampled(["--set", self._settings.check_set])
            missing = [name for name in named if name not in {check["check"] for check in found["checks"]}]
            more = self._sampled(missing)["checks"] if missing else []
        except node.OutputError as exc:
            return Done(False, str(exc))
        return Done(*node.judge({"checks": [*found["checks"], *more]}, named))

    def _sampled(self, what: Sequence[str]) -> node.Report:
        return node.sampled(self._on_node, self._world.pause, what)

    def _pair(self) -> Done:
        """Run a test over this node and a node in service, in a job of both."""
        self._free()  # an interrupted run may still have a job on the partner
        name, now = self._case.node, self._now()
        peers = self._peers(now)
        chosen = next((one for one in peers if one.free and not self._slurm.jobs(one.name)), None)
        if chosen is None:
            if self._waited() > self._settings.pair_wait_minutes * 60:
                return Done(False, f"{plan.NOT_RUN} no node of partition {now.partition} was idle")
            self._start_one(peers)
            raise Waiting("an idle node as partner")
        partner = chosen.name
        job = self._hold([partner])
        code, out, err = self._slurm.step(
            job, [partner], ["gpucluster-check", "--strict", "--set", "prolog"], _SERVICE_SECONDS
        )
        if code:
            self._slurm.cancel(name)
            raise Waiting(f"a healthy partner; {partner} is not: {short(err or out)}")
        port = str(node.PAIR_PORTS[secrets.randbelow(len(node.PAIR_PORTS))])
        addresses = [self._world.address(one.address or one.name) for one in (now, chosen)]
        own = ["python3", "-c", node.PAIR, name, *addresses, port]
        command, secret = own, {node.PAIR_TOKEN: secrets.token_hex(32)}
        if self._settings.pair_command:
            command, secret = list(self._settings.pair_command), {}
        code, out, err = self._slurm.step(job, [name, partner], command, _PAIR_SECONDS, secret)
        self._slurm.cancel(name)
        return Done(code == 0, f"with {partner}: {short(out if code == 0 else err or out)}")

    def _peers(self, now: states.Node) -> list[states.Node]:
        """Return the nodes that could be partners, also those with a job or without a machine."""
        others = [one for one in self._slurm.nodes().values() if one.name not in {now.name, *self._others}]
        same = [one for one in others if one.partition == now.partition and one.gpus == now.gpus]
        return [one for one in same if plan.known(one, self._settings)]

    def _start_one(self, peers: Sequence[states.Node]) -> None:
        """Start a machine for a partner if all elastic nodes are without one."""
        elastic = [one for one in peers if one.name in self._settings.elastic]
        resting = [one.name for one in elastic if one.flags == {"IDLE", "CLOUD", "POWERED_DOWN"}]
        if resting and not any(one.starting or one.free for one in peers):
            self._slurm.start(resting[0])

    def _return(self) -> Done:
        """Return the node to service while its reservation still keeps jobs away, then delete the reservation."""
        now = self._now()
        if now.sick:  # the health check found something after an interrupted run had resumed the node
            return Done(False, now.reason)
        self._free()
        if self._now().drained:
            self._slurm.resume(self._case.node)
        if self._now().drained:
            raise Waiting("Slurm, which did not resume the node")
        self._slurm.release(self._case.node)
        return Done(True, "in service")

    def _on_node(self, command: Sequence[str], seconds: float) -> tuple[int, str, str]:
        return self._slurm.step(self._hold([]), [self._case.node], command, seconds)

    def _hold(self, others: Sequence[str]) -> str:
        """
        Return the job of root that has the node, and start it if there is none.

        A drained node takes no job. So it is resumed for the moment in which the job starts, inside a reservation of
        root, and drained again.
        """
        name = self._case.node
        jobs = self._slurm.jobs(name)
        mine = [job.id for job in jobs if job.of(name) and job.state == "RUNNING"]
        if mine:
            if not self._now().mine:  # an interrupted run had no time to drain the node again
                self._mark("in repair")
            return mine[0]
        if jobs:
            raise Waiting(f"the end of jobs: {', '.join(job.id for job in jobs)}")
        if self._slurm.owner(name) != self._case.id:
            raise slurm.SlurmError(f"the reservation of {name} is missing")
        try:
            self._slurm.resume(name)
            return self._slurm.allocate(self._now(), others)
        finally:
            self._mark("in repair")

    def _free(self) -> None:
        free(self._slurm, self._world, self._case.node)

    def _now(self) -> states.Node:
        return self._slurm.node(self._case.node)

    def _mark(self, text: str) -> None:
        self._slurm.drain(self._case.node, self._reason(text))

    def _reason(self, text: str) -> str:
        return plan.reason(text, self._case.reason, states.MINE)

    def _waited(self) -> float:
        """
        Return the seconds since the step began, by the clock of this boot, which nobody can set.

        After a boot of the controller, and on another one, they count from its first look at the step (see loop.py).
        """
        return self._world.uptime() - float(self._case.begun_with["controller"]["uptime"])

    def _ticket(self, found: ladder.Plan, text: str) -> None:
        """Write a ticket, and send it if the site has an address for it. A repeated ticket has the same ID."""
        captured = self._case.ended(plan.CAPTURE)
        ticket = {
            "id": self._case.id,
            "node": self._case.node,
            "reason": self._case.reason,
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._case.since)),
            "text": text,
            "tried": [one._asdict() for one in self._case.tried],
            "capture": captured.text if captured else "",
            "categories": list(found.categories),
            "steps": list(found.steps),
        }
        path = Path(self._settings.directory) / "tickets" / f"{self._case.id}.json"
        write(path, f"{json.dumps(ticket, indent=1)}\n".encode())
        fault = self._world.post(self._settings.webhook, ticket) if self._settings.webhook else ""
        if fault:
            write(path.with_suffix(".not-sent"), f"{fault}\n".encode())


def write(path: Path, content: bytes) -> None:
    """Replace a file; after a crash it has the old or the new content."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    whole_file.replace(str(path), content, 0o600)
