# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Processes that outlived their job, by what the kernel and the step daemons say.

Nothing that a user can set decides: neither the environment nor the title of a process, nor a control group below
user.slice. A process in a job's control group is of that job. Where jobs have none, all that slurmd started is in the
group of slurmd.service; a process there that is older than every step daemon of the node is of a job that is over.
"""

from __future__ import annotations

import re
import typing as t

from .verdict import Finding, NotRunError, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case
    from .machine import Machine

# Where Slurm puts what it starts, wherever the tree of control groups begins. What is below user.slice is of users.
# A job's group has its number, or from Slurm 26.05 on its SLUID.
_SLURM = re.compile(
    r"^(?:/(?!user\.slice/)[^/]+)*?/(?:"
    r"(?:[^/]+_)?slurmstepd\.scope/(?P<v2>job_\d+|s[0-9A-Z]{13}|system)"  # cgroup v2
    r"|slurm(?:_[^/]+)?/uid_\d+/(?P<v1>job_\d+)"  # cgroup v1
    r"|(?:[^/]+_)?slurmd\.service"  # no control groups for jobs
    r")(?:/|$)"
)
_STEP_DAEMON = "slurmstepd"
_KEEPER = "system"  # where one daemon keeps the control groups of jobs alive
_TITLE = re.compile(r"^slurmstepd: \[(\d+)[.+:]")


class Process(t.NamedTuple):
    """A process that Slurm started."""

    pid: int
    uid: int
    name: str
    start: int  # clock ticks since boot
    job: str  # name of the job's control group; empty where jobs have none

    def __str__(self) -> str:
        """Return what a person looks for."""
        of = f" of job {self.job[4:]}" if self.job.startswith("job_") else f" of job {self.job}" if self.job else ""
        return f"{self.name} ({self.pid}){of}"


class Step(t.NamedTuple):
    """A step daemon: its job runs here."""

    jobs: frozenset[str]  # the names under which the job is known
    start: int


class Here(t.NamedTuple):
    """What of Slurm runs on this node."""

    processes: list[Process]
    steps: list[Step]
    slurmd: bool = False  # whether slurmd was found where Slurm's processes are looked for
    groups: bool = False  # whether jobs have control groups


def check(case: Case) -> Finding:
    """Check that no process is left of a job that is over."""
    return judge(look(case.machine, int(case.number("uid_min"))))


def judge(here: Here) -> Finding:
    """Name the processes whose job is over."""
    left = [str(process) for process in over(here, here.steps)]
    if left:
        return unhealthy("no process of a finished job", listing(left))
    if not here.slurmd:
        raise NotRunError("slurmd is in no control group of its own, so that nothing tells the processes of jobs apart")
    return healthy("no process of a finished job")


def over(here: Here, steps: list[Step]) -> list[Process]:
    """Return the processes that are of none of the jobs of these steps."""
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
    """Return what is left of a job; without control groups, what its user has left that is of no other job."""
    others = [step for step in here.steps if not step.jobs & jobs]
    return [
        process for process in over(here, others) if (process.job in jobs if process.job else str(process.uid) == uid)
    ]


def look(machine: Machine, uid_min: int) -> Here:
    """Return what Slurm started on this node: processes of users, and step daemons; raises UnknownError."""
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
            continue  # it ended meanwhile
        if found and found.uid == 0:
            here = _daemon(here, found, title)
        elif found and found.uid >= uid_min:
            here.processes.append(found)
    return here


def _daemon(here: Here, found: Process, title: str) -> Here:
    """Take in a process of root."""
    if found.name == "slurmd":
        return here._replace(slurmd=True)
    if found.name == _STEP_DAEMON and found.job != _KEEPER:
        number = _TITLE.match(title.replace("\0", " "))
        names = [found.job, f"job_{number[1]}" if number else ""]
        here.steps.append(Step(frozenset(filter(None, names)), found.start))
    return here._replace(groups=here.groups or bool(found.job))


def _group(text: str) -> str | None:
    """Return the job of /proc/PID/cgroup; empty for what slurmd started without one, None for what it did not start."""
    found = None
    for line in text.splitlines():
        match = _SLURM.match(line.split(":", 2)[-1])
        if match:
            found = match["v2"] or match["v1"] or found or ""
    return found


def _process(machine: Machine, pid: int, job: str) -> Process | None:
    """Return a process of its real user, whoever owns its directory; None for one that is dead but not collected."""
    head, _bracket, rest = machine.read(f"/proc/{pid}/stat").rpartition(")")
    fields = rest.split()
    if len(fields) < 20 or fields[0] in "ZX":
        return None
    uid = re.search(r"^Uid:\s+(\d+)", machine.read(f"/proc/{pid}/status"), re.MULTILINE)
    return Process(pid, int(uid[1]), head.partition("(")[2], int(fields[19]), job) if uid else None
