# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Submit, wait for, use and cancel Slurm jobs. The injected runner starts all processes.

Steps run attached (C(srun) inside an allocation), so Slurm returns their output and no shared directory is needed.
"""

from __future__ import annotations

import re
import time
import typing as t
from concurrent.futures import ThreadPoolExecutor

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import nodes as slurm_nodes

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

WAITING = {
    *("PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD", "REQUEUE_FED"),
    *("POWER_UP_NODE", "EXPEDITING"),
}
ACTIVE = {"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT"}
ENDED = {
    *("COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "RECONFIG_FAIL"),
    *("DEADLINE", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED"),
}

# A hostlist, or what sacct prints if there is none.
_NODES = re.compile("[!-~]*|None assigned")
# Seconds between two looks at the nodes of a job that waits.
_LOOK = 2.0
# srun exits 0 if Slurm ends the step before its tasks start, as after a failed prolog of another node.
_ABORTED = "srun: Job step aborted"

_REASONS = {
    "BadConstraints": "no node can ever satisfy what the job asks for",
    "BeginTime": "its start time has not come yet",
    "Dependency": "it waits for another job",
    "InvalidAccount": "the account is not known; set another one",
    "InvalidQOS": "the QOS is not known; set another one",
    "JobHeldAdmin": "an administrator holds it",
    "JobHeldUser": "its user holds it",
    "JobHoldMaxRequeue": "it was requeued too often",
    "Licenses": "it waits for licences",
    "Nodes_required_for_job_are_DOWN": "nodes that it needs are down, drained or reserved; 'sinfo -R' says why",
    "NodeDown": "a node that it needs is down",
    "PartitionConfig": "the partition does not allow such a job",
    "PartitionDown": "the partition is down; 'scontrol update partitionname=... state=up' opens it",
    "PartitionInactive": "the partition is inactive",
    "PartitionNodeLimit": "the partition does not allow so many nodes, or nodes of it are down or drained",
    "PartitionTimeLimit": "the time limit is above that of the partition",
    "Prolog": "the prolog still runs on its nodes",
    "Priority": "other jobs come first",
    "ReqNodeNotAvail": "a node that it names is down, drained or reserved",
    "Reservation": "it waits for its reservation",
    "Resources": "the nodes are busy with other jobs",
}


class SlurmError(Exception):
    """A command of Slurm failed or printed something that this code does not understand."""


class NeverStartedError(SlurmError):
    """The job did not start in time and was cancelled."""


class StoppedNodeError(NeverStartedError):
    """A node of the job gets no more jobs; the message says which one, and why."""


class TookTooLongError(SlurmError):
    """The job did not end in time and was cancelled."""


class Job(t.NamedTuple):
    """The state of a job as Slurm reports it."""

    id: int
    state: str
    reason: str
    nodes: str
    exit_code: int
    output: str | None = None
    restarts: int = 0

    @property
    def waiting(self) -> bool:
        """Return whether the job has not started yet."""
        return self.state in WAITING

    @property
    def ended(self) -> bool:
        """Return whether the job has ended."""
        return self.state not in WAITING | ACTIVE


class Step(t.NamedTuple):
    """One command inside an allocation. O(limit) is in seconds."""

    name: str
    nodes: tuple[str, ...]
    options: tuple[str, ...]
    command: tuple[str, ...]
    limit: int


class Result(t.NamedTuple):
    """The result of a step. Exit status 124 means a timeout. O(lost) describes how its job ended early."""

    step: Step
    code: int
    stdout: str
    stderr: str
    seconds: float
    lost: str = ""


class Slurm:
    """The calls of Slurm that a job needs. O(submitted) lists the submitted jobs."""

    def __init__(
        self,
        run: Runner,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._run = run
        self._clock = clock
        self._sleep = sleep
        self.submitted: list[int] = []

    def submit(self, options: Sequence[str], script: str) -> int:
        """Submit a batch script and return the job ID."""
        out = self._call(["sbatch", "--parsable", *options], script)
        match = re.search(r"^(\d+)(?:;\S+)?\s*$", out, re.MULTILINE)
        if not match:
            raise SlurmError(f"sbatch printed no job number: {out.strip()!r}")
        self.submitted.append(int(match.group(1)))
        return self.submitted[-1]

    def job(self, number: int) -> Job:
        """Return the state of a job, even if only the accounting still has it."""
        code, out, err = self._run(["scontrol", "--oneliner", "show", "job", str(number)])
        if code == 0 and "JobState=" in out:
            return _job(number, out)
        code, recorded, _error = self._run(
            [
                "sacct",
                "--noheader",
                "--allocations",
                "--parsable2",
                f"--jobs={number}",
                "--format=State,ExitCode,NodeList",
            ]
        )
        first, newline, _others = recorded.partition("\n")
        fields = first.strip().split("|")
        if code != 0 or len(fields) < 3 or not newline or not _NODES.fullmatch(fields[2]):
            raise SlurmError(f"Slurm does not know job {number}: {(err or out).strip()}")
        return Job(number, _state(fields[0].partition(" ")[0]), "", fields[2], _exit_code(fields[1]))

    def wait_started(self, number: int, seconds: float, poll: float = 1.0, nodes: Sequence[str] = ()) -> Job:
        """
        Wait until a job has started. After the timeout, cancel it and raise an error with Slurm's reason.

        O(nodes) are the nodes that the job must have. If one of them gets no more jobs, cancel the job at once.
        """
        deadline, look = self._clock() + seconds, self._clock()
        while True:
            job = self.job(number)
            if not job.waiting:
                return job
            if job.restarts:
                self.cancel([number])
                raise NeverStartedError(f"job {number} was put back into the queue and was cancelled")
            if self._clock() >= look:
                look = self._clock() + _LOOK
                self.refuse_stopped(nodes, number)
            if self._clock() >= deadline:
                self.cancel([number])
                raise NeverStartedError(
                    f"job {number} did not start within {seconds:.0f} s and was cancelled; "
                    f"Slurm's reason is {job.reason or 'none'}: {explain(job.reason)}"
                )
            self._sleep(poll)

    def wait_finished(self, number: int, seconds: float, poll: float = 1.0) -> Job:
        """Wait until a job has ended. Cancel it after the timeout."""
        deadline = self._clock() + seconds
        while True:
            job = self.job(number)
            if job.ended:
                return job
            if self._clock() >= deadline:
                self.cancel([number])
                raise TookTooLongError(f"job {number} was still {job.state} after {seconds:.0f} s and was cancelled")
            self._sleep(poll)

    def named(self, name: str) -> list[int]:
        """Return the user's own jobs of a name that have not ended."""
        out = self._call(["squeue", "--me", "--noheader", f"--name={name}", "--format=%A"])
        return sorted({int(line) for line in out.split()})

    def cancel(self, numbers: Iterable[int]) -> None:
        """Cancel jobs. A job that has ended is not an error."""
        wanted = [str(number) for number in numbers]
        if wanted:
            self._run(["scancel", "--quiet", *wanted])

    def hostnames(self, expression: str) -> list[str]:
        """Return the host names of an expression such as C(gpu[1-4,7])."""
        if not expression:
            return []
        return self._call(["scontrol", "show", "hostnames", expression]).split()

    def lost_nodes(self, names: Sequence[str]) -> dict[str, str]:
        """Return the nodes that get no more jobs, with state and reason. Return none if Slurm does not answer."""
        return {node.name: node.condition for node in self._nodes(names) if node.lost}

    def refuse_stopped(self, names: Sequence[str], number: int | None = None) -> None:
        """Cancel a job that waits, and raise an error, if one of its nodes gets no more jobs."""
        stopped = [f"{node.name} is {node.condition}" for node in self._nodes(names) if node.stopped]
        if stopped:
            self.cancel([number] if number else [])
            text = f"job {number} was cancelled before it started" if number else "no job was submitted"
            raise StoppedNodeError("; ".join([text, *stopped]))

    def _nodes(self, names: Sequence[str]) -> list[slurm_nodes.Node]:
        """Return nodes with their states; none if Slurm does not answer, or its answer is not understood."""
        if not names:
            return []
        wanted = ["--noheader", f"--nodes={','.join(names)}", f"--format={slurm_nodes.FORMAT}"]
        code, out, _err = self._run(["sinfo", "--Node", *wanted])
        try:
            return [node for node in slurm_nodes.parse(out) if node.name in names] if code == 0 else []
        except slurm_nodes.OutputError:
            return []

    def step(self, number: int, step: Step) -> Result:
        """Run one step inside an allocation."""
        begin = self._clock()
        code, out, err = self._run(
            [
                *("timeout", "--kill-after=10", str(step.limit)),
                *("srun", f"--jobid={number}", "--overlap", "--kill-on-bad-exit=1", f"--nodes={len(step.nodes)}"),
                *(f"--nodelist={','.join(step.nodes)}", f"--job-name={step.name}", *step.options, *step.command),
            ]
        )
        seconds = self._clock() - begin
        code = 1 if code == 0 and _ABORTED in err else code
        return Result(step, code, out, err, seconds, self._lost(number) if code else "")

    def steps(self, number: int, steps: Sequence[Step], parallel: int = 64) -> list[Result]:
        """
        Run steps, in parallel if they share no node. Return the results in the order of the steps.

        After the job has ended, start no further step.
        """
        results: dict[int, Result] = {}
        for wave in waves(steps):
            lost = next((result.lost for result in results.values() if result.lost), "")
            if lost:
                results.update({place: Result(steps[place], 1, "", "", 0.0, lost) for place in wave})
                continue
            with ThreadPoolExecutor(max_workers=max(1, min(parallel, len(wave)))) as pool:
                found = pool.map(lambda place: self.step(number, steps[place]), wave)
                results.update(zip(wave, found))
        return [results[place] for place in range(len(steps))]

    def _lost(self, number: int) -> str:
        """Return why the job can run no steps, independent of its nodes. Return an empty string if it can."""
        try:
            job = self.job(number)
        except SlurmError as exc:
            return str(exc)
        # A job that was submitted here had no reason to start twice. An older job may have started again before.
        if job.restarts and number in self.submitted:
            return f"job {number} was put back into the queue"
        return "" if job.state == "RUNNING" else f"job {number} was {job.state}"

    def _call(self, args: Sequence[str], data: str | None = None) -> str:
        """Run a command and return its output."""
        code, out, err = self._run(args, data)
        if code != 0:
            raise SlurmError(f"{args[0]} exited {code}: {(err or out).strip()}")
        return out


def waves(steps: Sequence[Step]) -> list[list[int]]:
    """Return the indexes of the steps, grouped into waves. A wave uses each node at most once."""
    found: list[list[int]] = []
    busy: list[set[str]] = []
    for place, step in enumerate(steps):
        nodes = set(step.nodes)
        last = max((number for number, taken in enumerate(busy) if taken & nodes), default=-1)
        if last + 1 == len(found):
            found.append([])
            busy.append(set())
        found[last + 1].append(place)
        busy[last + 1] |= nodes
    return found


def options(params: dict[str, t.Any]) -> list[str]:
    """Return options of sbatch for the parameters that are set. Names are Slurm's, with C(_) for C(-)."""
    given = []
    for name, value in params.items():
        if value is None or value is False or value in ("", []):
            continue
        text = ",".join(value) if isinstance(value, (list, tuple)) else value
        option = f"--{name.replace('_', '-')}"
        given.append(option if value is True else f"{option}={text}")
    return given


def explain(reason: str) -> str:
    """Return a description of the reason for which Slurm holds a job."""
    name = reason.split(",")[0].split(":")[0].strip("()")
    if name in _REASONS:
        return _REASONS[name]
    if name.startswith(("Assoc", "QOS")):
        return "a limit of the account or QOS is reached"
    return "'scontrol show job' says more"


def holder(seconds: int) -> str:
    """Return a batch script that holds an allocation for steps."""
    return f"#!/bin/sh\nexec sleep {seconds}\n"


def _job(number: int, text: str) -> Job:
    """Return a job from one line of scontrol output. A value at the end of the output can be cut."""
    fields = dict(re.findall(r"(?:^|\s)(\w+)=(\S*)(?=\s)", text.partition("\n")[0] + "\n" * ("\n" in text)))
    nodes, restarts = fields.get("NodeList"), fields.get("Restarts", "0")
    lost = "ExitCode" not in fields and fields.get("JobState") in ENDED - {"COMPLETED"}
    if (
        not fields.get("JobId", "").isdigit()
        or nodes is None
        or not _NODES.fullmatch(nodes)
        or not restarts.isdigit()
        or lost
    ):
        raise SlurmError(f"scontrol printed no whole job {number}: {text[:200]!r}")
    return Job(
        id=number,
        state=_state(fields.get("JobState", "")),
        reason="" if fields.get("Reason") in (None, "None") else fields["Reason"],
        nodes="" if nodes == "(null)" else nodes,
        exit_code=_exit_code(fields.get("ExitCode", "0:0")),
        output=fields.get("StdOut"),
        restarts=int(restarts),
    )


def _state(text: str) -> str:
    """Return a state of a job; raise SlurmError for a word that is none."""
    if text not in WAITING | ACTIVE | ENDED:
        raise SlurmError(f"Slurm names the state {text[:60]!r}, which is not known")
    return text


def _exit_code(text: str) -> int:
    """Return the status of C(3:0), or 128 plus the signal of C(0:9)."""
    match = re.fullmatch(r"(\d{1,3}):(\d{1,3})", text)
    if not match:
        raise SlurmError(f"Slurm names the exit status {text[:60]!r}, which is none")
    return int(match[1]) or (128 + int(match[2]) if int(match[2]) else 0)
