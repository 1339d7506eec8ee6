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
_OWN_REASONS = ("Not responding", "Node unexpectedly rebooted", "ResumeTimeout reached", OURS)
_NODE = re.compile(r"^NodeName=(?P<name>\S+) .*?\bState=(?P<state>\S+)(?: .*?\bReason=(?P<reason>.*))?")
_UP = re.compile(r"^Slurmctld\(\w+\) at (?P<host>\S+) is UP", re.MULTILINE)
# Length of a list of nodes in one command, far below the limit of the kernel for one argument.
_MOST = 500


class Node(t.NamedTuple):
    """One node: its state with its flags in capitals, and its reason."""

    name: str
    flags: frozenset[str]
    reason: str

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
    def set_down(self) -> bool:
        """Return whether an administrator set the node down: Slurm's own reasons are known."""
        return "DOWN" in self.flags and not self.reason.startswith(_OWN_REASONS)

    @property
    def lost(self) -> bool:
        """Return whether Slurm gave the machine up. The reason tells it from a node that an administrator set down."""
        return self.off and "DOWN" in self.flags and self.reason.startswith(("ResumeTimeout reached", OURS))


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
        """Return all nodes by name. Raise ElasticError if Slurm does not answer, or with no node."""
        out = self._asked(["scontrol", "--all", "--oneliner", "show", "nodes"])
        found = [match for match in map(_NODE.match, out.splitlines()) if match]
        nodes = [Node(one["name"], frozenset(one["state"].split("+")), one["reason"] or "") for one in found]
        if not nodes:
            raise ElasticError("Slurm returned no nodes")
        return {node.name: node for node in nodes}

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
        names = sorted(nodes)
        for first in range(0, len(names), _MOST):
            self._asked(["scontrol", "update", f"nodename={','.join(names[first : first + _MOST])}", *words])

    def _asked(self, argv: Sequence[str]) -> str:
        code, out, err = self._run(list(argv))
        if code:
            raise ElasticError(f"'{' '.join(argv)[:200]}' exited {code}: {err.strip()[:500]}")
        return str(out)


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
