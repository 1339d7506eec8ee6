# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read nodes and jobs of Slurm, and give nodes back whose machine did not come."""

from __future__ import annotations

import re
import typing as t

from .azure import ElasticError

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

OURS = "gpucluster-elastic"
# Reasons of slurmctld for a node whose machine does not answer, started late or started again.
_OWN_REASONS = ("Not responding", "Node unexpectedly rebooted", "ResumeTimeout reached", OURS)
_NODE = re.compile(
    r"NodeName=(?P<name>\S+) .*?\bState=(?P<state>[A-Z_+]+) (?:.*?\bReason=(?P<reason>.*)|.*)", re.DOTALL
)
# States of jobs that a machine works for. A job that configures waits for it; one that completes has ended, and its
# node may be the cause that it stays.
_HAVE_WORK = "--states=running,suspended,resizing,signaling,stopped"
_MOST = 200  # nodes in one command, far below the limit of the kernel for one argument


class Node(t.NamedTuple):
    """One node: its state with its flags in capitals, and its reason."""

    flags: frozenset[str]
    reason: str

    @property
    def leaves(self) -> bool:
        """Return whether Slurm has asked for the end of the machine, and nobody has taken that back."""
        return bool(self.flags & {"POWERING_DOWN", "POWERED_DOWN"}) and not self.flags & {"POWERING_UP", "DRAIN"}

    @property
    def comes(self) -> bool:
        """Return whether Slurm waits in vain for the machine; an answer, or what a person decided, ends that."""
        if "DRAIN" in self.flags or ("DOWN" in self.flags and not self.reason.startswith(_OWN_REASONS)):
            return False
        return bool(self.flags & {"POWERING_UP", "POWERED_DOWN", "POWERING_DOWN"})


class Slurm:
    """The commands of Slurm; run has a time limit."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def expand(self, hostlist: str) -> list[str]:
        """Return the names of a hostlist expression."""
        return self._asked(["scontrol", "show", "hostnames", hostlist]).split()

    def nodes(self, names: Iterable[str]) -> dict[str, Node]:
        """Return these nodes by name. Raise ElasticError if Slurm does not answer, or with other text."""
        found: dict[str, Node] = {}
        for part in _parts(names):
            out = self._asked(["scontrol", "--all", "--oneliner", "show", "node", ",".join(part)])
            for line in filter(str.strip, out.splitlines()):
                match = _NODE.fullmatch(line)
                if not match or match["name"] not in part or match["name"] in found:
                    raise ElasticError(f"Slurm's list of nodes has a line that is not understood: {line[:200]!r}")
                state = frozenset(match["state"].split("+"))
                found[match["name"]] = Node(state, (match["reason"] or "").rstrip())
        return found

    def busy(self, names: Iterable[str]) -> set[str]:
        """Return which of these nodes have jobs now. Only call it with nodes that Slurm knows."""
        found: set[str] = set()
        for part in _parts(names):
            out = self._asked(
                ["squeue", "--noheader", "--all", _HAVE_WORK, f"--nodelist={','.join(part)}", "--format=%N"]
            )
            found.update(self.expand(",".join(out.split())) if out.strip() else ())
        return found

    def give_back(self, names: Iterable[str], reason: str) -> None:
        """Let the jobs of nodes without a machine start elsewhere, and bring the nodes to idle~."""
        self._update(names, "state=POWER_DOWN_FORCE", reason)

    def remark(self, names: Iterable[str], reason: str) -> None:
        """Show a reason at nodes."""
        self._update(names, "", reason)

    def _update(self, names: Iterable[str], state: str, reason: str) -> None:
        # scontrol splits its arguments at no space, but a quote or a line break would end up in the state file.
        text = re.sub(r"[^ -!#-&(-~]", " ", f"{OURS}: {reason}")[:200]
        for part in _parts(names):
            words = [f"nodename={','.join(part)}", state, f"reason={text}"]
            self._asked(["scontrol", "update", *filter(None, words)])

    def _asked(self, argv: Sequence[str]) -> str:
        code, out, err = self._run(list(argv))
        if code:
            raise ElasticError(f"'{' '.join(argv)[:200]}' exited {code}: {err.strip()[:300]}")
        return str(out)


def _parts(names: Iterable[str]) -> list[list[str]]:
    found = sorted(names)
    return [found[first : first + _MOST] for first in range(0, len(found), _MOST)]
