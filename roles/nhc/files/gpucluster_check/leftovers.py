# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Processes that outlived their job: those that carry the number of a job of which no step is left here."""

from __future__ import annotations

import re
import typing as t

from .verdict import Finding, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case
    from .machine import Machine

_STEP = re.compile(r"^slurmstepd: \[(\d+)\.")


class Process(t.NamedTuple):
    """A process of a user."""

    pid: int
    uid: int
    job: str
    name: str


def check(case: Case) -> Finding:
    """Check that no process is left of a job that is over."""
    table = processes(case.machine, int(case.number("uid_min")))
    running = steps(case.machine)
    return judge(table, running)


def judge(table: list[Process], running: set[str]) -> Finding:
    """Name the processes whose job has no step on this node."""
    left = [
        f"{process.name} ({process.pid}) of job {process.job}"
        for process in table
        if process.job and process.job not in running
    ]
    return unhealthy("no process of a finished job", listing(left)) if left else healthy("no process of a finished job")


def processes(machine: Machine, uid_min: int, job: str = "") -> list[Process]:
    """Return the processes of users, each with the job that started it; raises UnknownError without the right."""
    found = []
    for pid in machine.names("/proc"):
        if not pid.isdigit():
            continue
        try:
            uid = machine.owner(f"/proc/{pid}")
            if uid < uid_min:
                continue
            number = _job(machine.read(f"/proc/{pid}/environ"))
            if not job or number == job:
                found.append(Process(int(pid), uid, number, machine.read(f"/proc/{pid}/comm").strip()))
        except PermissionError as exc:
            raise UnknownError(f"/proc/{pid}/environ cannot be read: {exc.strerror}") from exc
        except OSError:
            continue  # it ended meanwhile
    return found


def steps(machine: Machine) -> set[str]:
    """Return the numbers of the jobs that have a step on this node, by the titles of the step daemons."""
    jobs = set()
    for pid in machine.names("/proc"):
        try:
            title = _STEP.match(machine.read(f"/proc/{pid}/cmdline").replace("\0", " ")) if pid.isdigit() else None
        except OSError:
            continue
        if title:
            jobs.add(title[1])
    return jobs


def _job(environment: str) -> str:
    for entry in environment.split("\0"):
        name, _equals, value = entry.partition("=")
        if name == "SLURM_JOB_ID" and value.isdigit():
            return value
    return ""
