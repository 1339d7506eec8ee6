# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Find processes that outlived their job, from the kernel and the step daemons.

Users cannot change the result: the environment and title of a process, and control groups below user.slice, are
ignored. A process in the control group of a job belongs to that job. If jobs have no control groups, all processes that
slurmd started are in the group of slurmd.service. A process there that is older than every step daemon of the node
belongs to a finished job.
"""

from __future__ import annotations

import re
import typing as t

from .verdict import Finding, NotRunError, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case
    from .machine import Machine

# Control groups of processes that Slurm started, below any prefix. Groups below user.slice belong to users.
# The group of a job has its job ID, or its SLUID from Slurm 26.05 on.
_SLURM = re.compile(
    r"^(?:/(?!user\.slice/)[^/]+)*?/(?:"
    r"(?:[^/]+_)?slurmstepd\.scope/(?P<v2>job_\d+|s[0-9A-Z]{13}|system)"  # cgroup v2
    r"|slurm(?:_[^/]+)?/uid_\d+/(?P<v1>job_\d+)"  # cgroup v1
    r"|(?:[^/]+_)?slurmd\.service"  # no control groups for jobs
    r")(?:/|$)"
)
EXPECTED = "no process of a finished job"
_STEP_DAEMON = "slurmstepd"
_KEEPER = "system"  # group of the daemon that keeps the control groups of jobs alive
_TITLE = re.compile(r"^slurmstepd: \[(\d+)[.+:]")


class Process(t.NamedTuple):
    """A process that Slurm started."""

    pid: int
    uid: int
    name: str
    start: int  # clock ticks since boot
    job: str  # name of the job's control group; empty if jobs have none

    def __str__(self) -> str:
        """Return the name, PID and job for a message. The user chose the name, and ; would end its part of a reason."""
        of = f" of job {self.job[4:]}" if self.job.startswith("job_") else f" of job {self.job}" if self.job else ""
        return f"{self.name.replace(';', '?')} ({self.pid}){of}"


class Step(t.NamedTuple):
    """A step daemon (slurmstepd) of a job that runs on this node."""

    jobs: frozenset[str]  # names of the job's control group
    start: int


class Here(t.NamedTuple):
    """Processes of Slurm on this node."""

    processes: list[Process]
    steps: list[Step]
    slurmd: bool = False  # whether slurmd is in one of Slurm's control groups
    groups: bool = False  # whether jobs have control groups


def check(case: Case) -> Finding:
    """Check that no process of a finished job is left."""
    return judge(look(case.machine, int(case.number("uid_min"))))


def judge(here: Here) -> Finding:
    """Name the processes of finished jobs."""
    left = [str(process) for process in over(here, here.steps)]
    if left:
        return unhealthy(EXPECTED, listing(left))
    if not here.slurmd:
        raise NotRunError("slurmd is in no control group of its own, so that nothing tells the processes of jobs apart")
    return healthy(EXPECTED)


def over(here: Here, steps: list[Step]) -> list[Process]:
    """Return the processes that belong to none of the jobs of these steps."""
    running = {job for step in steps for job in step.jobs}
    oldest = min((step.start for step in steps), default=None)
    return [
        process
        for process in here.processes
        if (
            process.job not in running
            if process.job
            else not here.groups and (oldest is None or process.start < oldest)
        )
    ]


def of_job(here: Here, jobs: frozenset[str], uid: str) -> list[Process]:
    """Return the leftovers of a job; without control groups, those of its user that belong to no other job."""
    others = [step for step in here.steps if not step.jobs & jobs]
    return [
        process for process in over(here, others) if (process.job in jobs if process.job else str(process.uid) == uid)
    ]


def look(machine: Machine, uid_min: int) -> Here:
    """Return the user processes and step daemons that Slurm started on this node, or raise UnknownError."""
    here = Here([], [])
    for pid in machine.names("/proc"):
        if not pid.isdigit():
            continue
        try:
            job = _group(machine.read(f"/proc/{pid}/cgroup"))
            found = None if job is None else _process(machine, int(pid), job)
            title = machine.read(f"/proc/{pid}/cmdline") if found and found.name == _STEP_DAEMON else ""
        except PermissionError as exc:
            raise UnknownError(f"/proc/{pid} cannot be read: {exc.strerror}") from exc
        except OSError:
            continue  # it has ended
        if found and found.uid == 0:
            here = _daemon(here, found, title)
        elif found and found.uid >= uid_min:
            here.processes.append(found)
    return here


def _daemon(here: Here, found: Process, title: str) -> Here:
    """Add a process of root."""
    if found.name == "slurmd":
        return here._replace(slurmd=True)
    if found.name == _STEP_DAEMON and found.job != _KEEPER:
        number = _TITLE.match(title.replace("\0", " "))
        names = [found.job, f"job_{number[1]}" if number else ""]
        here.steps.append(Step(frozenset(filter(None, names)), found.start))
    return here._replace(groups=here.groups or bool(found.job))


def job_of(path: str) -> str:
    """Return the ID of the job to which a control group belongs; empty if it belongs to none, as those of users."""
    found = _group(f"0::{path}") or ""
    return found[4:] if found.startswith("job_") else ""


def _group(text: str) -> str | None:
    """
    Return the job in /proc/PID/cgroup; empty without a job group, None if slurmd did not start the process.

    Users name groups of their own. Such a name has no line break, but may have others of the characters that end lines.
    """
    found = None
    for line in text.split("\n"):
        match = _SLURM.match(line.split(":", 2)[-1])
        if match:
            found = match["v2"] or match["v1"] or found or ""
    return found


def _process(machine: Machine, pid: int, job: str) -> Process | None:
    """Return a process with its real UID, not the owner of its /proc directory; None for a zombie."""
    head, _bracket, rest = machine.read(f"/proc/{pid}/stat").rpartition(")")
    fields = rest.split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    uid = re.search(r"^Uid:\s+(\d+)", machine.read(f"/proc/{pid}/status"), re.MULTILINE)
    return Process(pid, int(uid[1]), head.partition("(")[2], int(fields[19]), job) if uid else None
