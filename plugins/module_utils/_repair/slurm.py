# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The calls of Slurm that a repair needs. Everything on a node runs in a job of root, so that no other job is there."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.marker import MarkError

from .states import Node, field, parse

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    # Runs a program with a time limit in seconds; returns exit status, standard output and standard error.
    Run = Callable[..., tuple[int, str, str]]

JOB = "gpucluster-repair"
ASK = 60.0
_IMMEDIATE = 60  # seconds to wait for the allocation of an idle node
_JOB_MINUTES = 240
_CLAIM = "gpucluster_repair_"
# srun exits 0 if Slurm ends the step before its tasks start.
_ABORTED = "srun: Job step aborted"
# Job, state, user and reservation: a user chooses none of them, so that no name of a job is taken for another one's.
_JOBS = "%A %T %U %v"
_NO_NODE = re.compile("not found|invalid node name", re.IGNORECASE)
_JOB = re.compile(r"(\d+) ([A-Z_]+) (\d+)(?: (\S+))?")


class SlurmError(Exception):
    """Slurm refused or did not answer; the next run tries again."""


class Job(t.NamedTuple):
    """A job that has a node."""

    id: str
    state: str
    user: int
    reservation: str

    def of(self, node: str) -> bool:
        """Return whether this program started the job for a node: only root may use the reservation."""
        return self.user == 0 and self.reservation == reservation(node)


class Slurm:
    """Slurm on the active controller."""

    def __init__(self, run: Run) -> None:
        """Store the runner."""
        self._run = run

    def active(self) -> str:
        """Return the name of the first controller that is up."""
        found = re.search(r"^Slurmctld\(\w+\) at (\S+) is UP", self._call("scontrol", "ping"), re.MULTILINE)
        if not found:
            raise SlurmError("no controller answers")
        return found[1]

    def nodes(self) -> dict[str, Node]:
        """Return all nodes by name."""
        return {node.name: node for node in _nodes(self._call("scontrol", "show", "node"))}

    def node(self, name: str) -> Node:
        """Return one node."""
        return _nodes(self.described(name))[0]

    def gone(self, name: str) -> bool:
        """Return whether Slurm says that it has no such node. A list that lacks the node may be cut."""
        code, out, err = self._run(["scontrol", "show", "node", name], ASK)
        return bool(code) and _NO_NODE.search(out + err) is not None

    def described(self, name: str) -> str:
        """Return what Slurm says of a node."""
        return self._call("scontrol", "show", "node", name)

    def jobs(self, node: str) -> list[Job]:
        """Return the jobs that have a node."""
        text = self._call("squeue", "--noheader", "--all", f"--nodelist={node}", f"--format={_JOBS}")
        found = [_job(line) for line in text.splitlines() if line.strip()]
        return [job for job in found if job.state != "PENDING"]

    def reserve(self, node: str, case: str) -> str:
        """Reserve a node for root; return the case that has it, which may be another one."""
        code, out, err = self._run(
            [
                *("scontrol", "create", "reservation", f"ReservationName={reservation(node)}", f"Nodes={node}"),
                *("Users=root", "StartTime=now", "Duration=UNLIMITED", "Flags=MAINT,IGNORE_JOBS,FLEX"),
                f"Comment={case}",
            ],
            ASK,
        )
        owner = self.owner(node)
        if not owner:
            raise SlurmError(f"the reservation of {node} was refused: {(err or out).strip() or code}")
        return owner

    def owner(self, node: str) -> str:
        """Return the case that has reserved a node; empty if none has."""
        found = self._reservation(reservation(node))
        return (field(found, "Comment") or "somebody") if found else ""

    def release(self, node: str) -> None:
        """Delete the reservation of a node, if there is one."""
        if self.owner(node):
            self._call("scontrol", "delete", f"ReservationName={reservation(node)}")

    def start(self, node: str) -> None:
        """Let power saving start the machine of a node."""
        self._call("scontrol", "update", f"NodeName={node}", "State=POWER_UP")

    def drain(self, node: str, reason: str) -> None:
        """Drain a node, or change the reason of its drain."""
        self._call("scontrol", "update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}")

    def resume(self, node: str) -> None:
        """Return a node to service."""
        self._call("scontrol", "update", f"NodeName={node}", "State=RESUME")

    def reboot(self, node: str, reason: str) -> None:
        """Reboot a drained node without jobs; it stays drained."""
        self._call("scontrol", "reboot", f"reason={reason}", node)

    def allocate(self, node: Node, others: Sequence[str]) -> str:
        """Return the ID of a new job that has a reserved node, and other nodes in service, for itself."""
        names = [node.name, *others]
        args = [
            *("salloc", "--no-shell", f"--job-name={JOB}", f"--nodes={len(names)}", f"--nodelist={','.join(names)}"),
            *("--exclusive", "--mem=0", f"--time={_JOB_MINUTES}", f"--immediate={_IMMEDIATE}", "--chdir=/"),
            *(f"--reservation={reservation(node.name)}", f"--partition={node.partition}"),
            *([f"--gpus-per-node={node.gpus}"] if node.gpus else []),
        ]
        code, out, err = self._run(args, _IMMEDIATE + ASK)
        found = re.search(r"Granted job allocation (\d+)", out + err)
        if code or not found:
            raise SlurmError(f"no allocation of {', '.join(names)}: {(err or out).strip() or code}")
        return found[1]

    def step(
        self,
        job: str,
        nodes: Sequence[str],
        command: Sequence[str],
        seconds: float,
        environment: Mapping[str, str] | None = None,
    ) -> tuple[int, str, str]:
        """
        Run a program in a job, once on each node; return exit status, standard output and standard error.

        The environment is no argument of a program, so that other users do not see it.
        """
        args = [
            *("srun", f"--jobid={job}", "--overlap", f"--nodes={len(nodes)}", f"--nodelist={','.join(nodes)}"),
            *(f"--ntasks={len(nodes)}", "--ntasks-per-node=1", "--input=none", "--chdir=/", "--kill-on-bad-exit=1"),
        ]
        more = (environment,) if environment else ()
        code, out, err = self._run([*args, *command], seconds, *more)
        return 1 if code == 0 and _ABORTED in err else code, out, err

    def cancel(self, node: str) -> bool:
        """Cancel the job of this program on a node; return whether the node is without any job."""
        jobs = self.jobs(node)
        for job in jobs:
            if job.of(node) and job.state != "COMPLETING":
                self._call("scancel", job.id)
        return not jobs

    def _reservation(self, name: str) -> str:
        """Return what Slurm says of a reservation; empty if there is none."""
        code, out, err = self._run(["scontrol", "show", "reservation", name], ASK)
        if code == 0 and "ReservationName=" in out:
            return out
        if (out + err).strip() == f"Reservation {name} not found":
            return ""
        raise SlurmError(f"scontrol show reservation: {(err or out).strip() or code}")

    def _call(self, *args: str) -> str:
        code, out, err = self._run(list(args), ASK)
        if code:
            raise SlurmError(f"{' '.join(args[:3])}: {(err or out).strip() or f'exit status {code}'}")
        return out


def _nodes(text: str) -> list[Node]:
    """Return the nodes of scontrol; raise SlurmError if its output is cut, or has a state that is none."""
    try:
        return parse(text)
    except MarkError as exc:
        raise SlurmError(str(exc)) from exc


def _job(line: str) -> Job:
    found = _JOB.fullmatch(line.strip())
    if not found:
        raise SlurmError(f"squeue printed {line[:80]!r}, not a job, its state, its user and its reservation")
    return Job(found[1], found[2], int(found[3]), found[4] or "")


def reservation(node: str) -> str:
    """Return the name of the reservation of a node."""
    return f"{_CLAIM}{node}"
