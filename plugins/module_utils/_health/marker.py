# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Mark the node in Slurm: drain an unhealthy node; resume a healthy one only if a health check drained it."""

from __future__ import annotations

import re
import typing as t

from .process import DONE
from .verdict import HEALTHY, NOT_APPLICABLE, NOT_RUN, UNHEALTHY, Verdict, tidy

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from .machine import Machine

LEADER = "NHC:"
# Reasons that slurmctld sets when a prolog fails or hangs. No person decided them, so the checks may replace them.
_SLURMS_OWN = ("Prolog error", "Prolog/Epilog failure")
_LONGEST = 240
_LOOK_EVERY = 12  # a healthy node queries Slurm once in this number of runs
_STATE = re.compile(r"\bState=(\S+)")
_REASON = re.compile(r"^\s*Reason=(.*?)(?: \[[^\[\]]*@[^\[\]]*\])?\s*$", re.MULTILINE)
_WORDS = re.compile(r"[A-Z_+*~#!%$@^-]+")
_NAME = re.compile(r"[a-z0-9_]+")
# States in which Slurm itself removes the node or brings it back.
HANDS_OFF = {
    "REBOOT_ISSUED",
    "REBOOT_REQUESTED",
    "POWERING_DOWN",
    "POWERED_DOWN",
    "POWER_DOWN",
    "POWERING_UP",
    "FUTURE",
}


class Node(t.NamedTuple):
    """State of the node in Slurm."""

    flags: frozenset[str]
    reason: str

    @property
    def drained(self) -> bool:
        """Return whether the node is drained, so that it accepts no new jobs."""
        return any(flag.startswith("DRAIN") for flag in self.flags)

    @property
    def failed(self) -> bool:
        """Return whether a person set the node to FAIL, so that it accepts no new jobs."""
        return any(flag.startswith("FAIL") for flag in self.flags)

    @property
    def ours(self) -> bool:
        """Return whether a health check drained the node; the drain of a person stays unchanged."""
        return self.drained and self.reason.startswith(LEADER)

    @property
    def slurms(self) -> bool:
        """Return whether Slurm drained the node after a failed prolog; FAIL is always the decision of a person."""
        return self.drained and not self.failed and self.reason in _SLURMS_OWN


class Action(t.NamedTuple):
    """What to do with the node, and the reason."""

    kind: str  # drain, resume or leave
    text: str


class MarkError(Exception):
    """A query or change in Slurm failed; the next run tries again."""


def node(text: str) -> Node:
    """Parse the output of `scontrol show node`."""
    state, reason = _STATE.search(text), _REASON.search(text)
    if not state or not _WORDS.fullmatch(state[1]) or not text.endswith("\n"):
        raise MarkError(f"scontrol shows no state, or is cut: {tidy(text, 120)!r}")
    flags = re.split(r"[+]", state[1].rstrip("*~#!%$@^-"))
    return Node(frozenset(flag.rstrip("*~#!%$@^-") for flag in flags), reason[1].strip() if reason else "")


def reason(verdicts: Sequence[Verdict], also: Sequence[str] = ()) -> str:
    """Return the drain reason: failed checks, earlier ones that have not passed since, expected and found values."""
    names = ", ".join([*(verdict.check for verdict in verdicts), *also])
    details = "; ".join(verdict.reason for verdict in verdicts)
    return tidy(f"{LEADER} {names}: {details}".replace('"', "'"), _LONGEST)


def named(text: str) -> list[str]:
    """Return the checks that a reason of a health check names; ignore a name that was truncated."""
    head, colon, _details = text[len(LEADER) :].strip().partition(": ")
    names = head.split(", ") if colon else head.split(", ")[:-1] if head.endswith("...") else []
    return names if text.startswith(LEADER) and all(map(_NAME.fullmatch, names)) else []


def decide(now: Node, verdicts: Sequence[Verdict], resume: bool) -> Action:
    """Select the action by the rules of docs/health.md, in this order."""
    sick = [verdict for verdict in verdicts if verdict.status == UNHEALTHY]
    if now.flags & HANDS_OFF:
        return Action("leave", "Slurm is rebooting or powering the node")
    if sick:
        return _when_sick(now, sick, {verdict.check for verdict in verdicts if verdict.status == HEALTHY})
    if not now.ours:
        return Action("leave", f"drained by somebody else: {now.reason}" if now.drained else "healthy")
    return _when_well(now, verdicts, resume)


def _when_sick(now: Node, sick: Sequence[Verdict], well: set[str]) -> Action:
    if (now.drained or now.failed) and not now.ours and not now.slurms:
        return Action("leave", f"already drained by somebody else: {now.reason}")
    if not now.drained and any(flag.startswith("DOWN") for flag in now.flags):
        return Action("leave", f"the node is down: {now.reason}")
    names = {verdict.check for verdict in sick}
    before = named(now.reason) if now.ours else []
    if now.ours and set(before) >= names:
        return Action("leave", "already drained for this")
    # A check of the old reason that does not pass now stays in the reason: the node resumes only when it passes too.
    text = reason(sick, [name for name in before if name not in names | well])
    if now.drained and now.reason == text:  # the names of the checks do not all fit
        return Action("leave", "already drained for this")
    return Action("drain", text)


def _when_well(now: Node, verdicts: Sequence[Verdict], resume: bool) -> Action:
    if not resume:
        return Action("leave", "healthy again; bringing the node back was not asked for")
    status = {verdict.check: verdict.status for verdict in verdicts}
    names = named(now.reason)
    unproved = [name for name in names if status.get(name) != HEALTHY]
    doubtful = [name for name, said in status.items() if said not in (HEALTHY, NOT_APPLICABLE, NOT_RUN)]
    if not names or unproved or doubtful:
        return Action("leave", f"not proved healthy yet: {', '.join(unproved + doubtful) or now.reason}")
    return Action("resume", now.reason)


class Slurm:
    """Calls of scontrol that marking needs."""

    def __init__(self, machine: Machine, name: str, scontrol: str = "scontrol", timeout: float = 10.0) -> None:
        """Store the name of the node in Slurm."""
        self._machine = machine
        self._name = name
        self._scontrol = scontrol
        self._timeout = timeout

    def show(self) -> Node:
        """Return the state of the node."""
        return node(self._call("show", "node", self._name))

    def apply(self, action: Action) -> None:
        """Drain or resume the node."""
        if action.kind == "drain":
            self._call("update", f"NodeName={self._name}", "State=DRAIN", f"Reason={action.text}")
        elif action.kind == "resume":
            self._call("update", f"NodeName={self._name}", "State=RESUME")

    def _call(self, *args: str) -> str:
        result = self._machine.run([self._scontrol, *args], self._timeout)
        if result.state != DONE or result.rc:
            raise MarkError(f"scontrol {args[0]}: {tidy(result.text, 160) or result.state}")
        return result.out


def mark(slurm: Slurm, verdicts: Sequence[Verdict], resume: bool, kept: dict[str, t.Any]) -> Action:
    """
    Drain or resume the node in Slurm according to the verdicts.

    I(kept) is stored between runs. A healthy node that no health check drained queries the controller rarely,
    so that thousands of nodes do not load it.
    """
    sick = any(verdict.status == UNHEALTHY for verdict in verdicts)
    quiet = int(kept.get("quiet") or 0)
    if not sick and kept.get("clean") and quiet < _LOOK_EVERY:
        kept["quiet"] = quiet + 1
        return Action("leave", "healthy")
    kept.update(clean=False, quiet=0)
    now = slurm.show()
    action = decide(now, verdicts, resume)
    slurm.apply(action)
    kept["clean"] = not sick and (action.kind == "resume" or not now.ours)
    return action
