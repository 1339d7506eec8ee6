# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the nodes of Slurm, and change their power state."""

from __future__ import annotations

import json
import re
import typing as t

from .cloud import ElasticError

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

OURS = "gpucluster-elastic"
# Reasons of slurmctld for a node whose machine does not answer, started late or started again.
TIMED_OUT = "ResumeTimeout reached"
_OWN_REASONS = ("Not responding", "Node unexpectedly rebooted", TIMED_OUT, OURS)
_NODE = re.compile(
    r"NodeName=(?P<name>\S+) (?P<before>.*?)\bState=(?P<state>[A-Z_+]+) (?:.*?\bReason=(?P<reason>.*)|.*)", re.DOTALL
)
_HOST = re.compile(r"\bNodeHostName=(\S+)")
_UP = re.compile(r"^Slurmctld\(\w+\) at (?P<host>\S+) is UP", re.MULTILINE)
# States of jobs that a machine still works for. A completing job has ended: its node may be the cause that it stays.
_HAVE_WORK = "--states=running,suspended,configuring,resizing,signaling,stopped"
# Length of a list of nodes in one command, far below the limit of the kernel for one argument.
_MOST = 500


class Node(t.NamedTuple):
    """One node: its state with its flags in capitals, its reason, and the host name with which it registered."""

    name: str
    flags: frozenset[str]
    reason: str
    host: str = ""

    @property
    def starting(self) -> bool:
        """Return whether Slurm waits for the machine."""
        return "POWERING_UP" in self.flags and not self.ending

    @property
    def ending(self) -> bool:
        """Return whether Slurm has asked for the end of the machine."""
        return bool(self.flags & {"POWERING_DOWN", "POWER_DOWN"})

    @property
    def off(self) -> bool:
        """Return whether Slurm expects no machine."""
        return "POWERED_DOWN" in self.flags and "POWERING_UP" not in self.flags

    @property
    def runs(self) -> bool:
        """Return whether Slurm has a machine for the node, whether it answers or not."""
        return not (self.starting or self.ending or self.off)

    @property
    def silent(self) -> bool:
        """Return whether the machine does not answer Slurm."""
        return bool(self.flags & {"NOT_RESPONDING", "DOWN"})

    @property
    def answers(self) -> bool:
        """Return whether the machine has registered and answers."""
        return self.runs and not self.silent

    @property
    def set_down(self) -> bool:
        """Return whether an administrator set the node down: Slurm's own reasons are known."""
        return "DOWN" in self.flags and not self.reason.startswith(_OWN_REASONS)

    @property
    def lost(self) -> bool:
        """Return whether Slurm gave the machine up. The reason tells it from a node that an administrator set down."""
        return self.off and "DOWN" in self.flags and self.reason.startswith((TIMED_OUT, OURS))

    @property
    def timed_out(self) -> bool:
        """Return whether the machine did not register in time."""
        return self.lost and self.reason.startswith(TIMED_OUT)


class Slurm:
    """The commands of Slurm; run has a time limit."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def active(self, host: str) -> bool:
        """Return whether the controller on this host leads the cluster."""
        _code, out, _err = self._run(["scontrol", "ping"])
        found = _UP.search(out)
        return bool(found) and t.cast("re.Match[str]", found)["host"].partition(".")[0] == host.partition(".")[0]

    def nodes(self) -> dict[str, Node]:
        """Return all nodes by name. Raise ElasticError if Slurm does not answer, with no node, or with other text."""
        out = self._asked(["scontrol", "--all", "--oneliner", "show", "nodes"])
        nodes = [_node(line) for line in out.splitlines() if line.strip()]
        if not nodes or not out.endswith("\n"):
            raise ElasticError("Slurm returned no nodes, or not all of them")
        found = {node.name: node for node in nodes}
        if len(found) < len(nodes):  # a line break in what a machine says of itself
            raise ElasticError("Slurm's list names a node twice; nothing is known")
        return found

    def busy(self, nodes: Sequence[str]) -> set[str]:
        """Return which of these nodes have jobs now. Only call it with nodes that Slurm knows."""
        found: set[str] = set()
        for names in _parts(nodes):
            out = self._asked(["squeue", "--noheader", _HAVE_WORK, f"--nodelist={','.join(names)}", "--format=%N"])
            found.update(self.expand(",".join(out.split())))
        return found & set(nodes)

    def expand(self, hostlist: str) -> list[str]:
        """Return the names of a hostlist expression."""
        return self._asked(["scontrol", "show", "hostnames", hostlist]).split() if hostlist else []

    def power_down(self, nodes: Sequence[str], reason: str) -> None:
        """Let the jobs of nodes without a machine start elsewhere, and bring the nodes to idle~."""
        # scontrol splits its arguments at no space, but a quote or a line break would end up in the state file.
        text = re.sub(r"[^ -!#-&(-~]", " ", f"{OURS}: {reason}")[:200]
        self._update(nodes, "state=POWER_DOWN_FORCE", f"reason={text}")

    def power_up(self, nodes: Sequence[str]) -> None:
        """Ask for the machines of nodes that always run."""
        self._update(nodes, "state=POWER_UP")

    def release(self, nodes: Sequence[str]) -> None:
        """Tell Slurm that the machines are gone, so that it need not wait for SuspendTimeout."""
        self._update(nodes, "state=RESUME")

    def _update(self, nodes: Sequence[str], *words: str) -> None:
        for names in _parts(nodes):
            self._asked(["scontrol", "update", f"nodename={','.join(names)}", *words])

    def _asked(self, argv: Sequence[str]) -> str:
        code, out, err = self._run(list(argv))
        if code:
            raise ElasticError(f"'{' '.join(argv)[:200]}' exited {code}: {err.strip()[:500]}")
        return str(out)


def _node(line: str) -> Node:
    match = _NODE.fullmatch(line)
    if not match:
        raise ElasticError(f"Slurm's list of nodes has a line that is not understood: {line[:200]!r}")
    host = _HOST.search(match["before"])
    reason = (match["reason"] or "").rstrip()
    return Node(match["name"], frozenset(match["state"].split("+")), reason, host[1].lower() if host else "")


def _parts(nodes: Sequence[str]) -> list[list[str]]:
    names = sorted(nodes)
    return [names[first : first + _MOST] for first in range(0, len(names), _MOST)]


class Resume(t.NamedTuple):
    """What Slurm asks a ResumeProgram for: a hostlist, and one line for each job that waits."""

    nodes: str
    jobs: tuple[str, ...]


def resume_request(argument: str, text: str) -> Resume:
    """Return the request from the content of SLURM_RESUME_FILE, or from the argument if the file has none."""
    try:
        found = json.loads(text)
        jobs = [one for one in found.get("jobs") or [] if isinstance(one, dict)]
        lines = tuple(f"job {one.get('job_id')} waits for {one.get('nodes_resume')}" for one in jobs)
        return Resume(str(found.get("all_nodes_resume") or argument), lines)
    except (ValueError, AttributeError, TypeError):
        return Resume(argument, ())
