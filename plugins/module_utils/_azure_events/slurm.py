# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The own node in Slurm. Slurm permits root on a node to change its nodes and jobs."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import marker

from .events import LEADER, EventsError, Job, State

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

SECONDS = 20  # time limit of a command
_JOBS = "JobID:24,State:24,Requeue:8,BatchFlag:8"


class Slurm:
    """Queries and changes of one node."""

    def __init__(self, run: Runner, node: str) -> None:
        """Take what runs commands in bounded time, and the name of the node in Slurm."""
        self._run = run
        self._node = node

    def state(self) -> State:
        """Return the state of the node."""
        try:
            found = marker.node(self._call("scontrol", "show", "node", self._node))
        except marker.MarkError as exc:
            raise EventsError(str(exc)) from None
        # FAIL is always the decision of a person.
        ours = found.drained and not found.failed and found.reason.startswith(LEADER)
        # A resume would also end the state down, which may be the decision of a person.
        down = not found.drained and any(flag.startswith("DOWN") for flag in found.flags)
        return State(found.drained or found.failed, ours, down or bool(found.flags & marker.HANDS_OFF))

    def jobs(self) -> list[Job]:
        """Return the jobs that use the node, also those that end."""
        text = self._call("squeue", "--noheader", "--all", f"--nodelist={self._node}", f"--Format={_JOBS}")
        rows = [line.split() for line in text.splitlines() if line.strip()]
        for row in rows:
            if len(row) != 4:  # a job that is not seen would be ended with the machine
                raise EventsError(f"squeue printed {' '.join(row)[:80]!r}, not a job, its state and two flags")
        return [Job(row[0], row[1], row[2:4] == ["1", "1"]) for row in rows if row[1] != "PENDING"]

    def drain(self, reason: str) -> None:
        """Drain the node."""
        self._call("scontrol", "update", f"NodeName={self._node}", "State=DRAIN", f"Reason={reason}")

    def resume(self) -> None:
        """Return the node to service."""
        self._call("scontrol", "update", f"NodeName={self._node}", "State=RESUME")

    def requeue(self, job: str) -> None:
        """Requeue a job. Slurm ends it with SIGTERM, and after KillWait with SIGKILL."""
        self._call("scontrol", "requeue", job)

    def begin(self, job: str) -> None:
        """Let a pending job begin now. Its earlier begin is past, because the job has run."""
        self._call("scontrol", "update", f"JobId={job}", "StartTime=now")

    def _call(self, *command: str) -> str:
        code, out, err = self._run(list(command))
        if code:
            said = " ".join((err or out).split())[:200]
            raise EventsError(f"{' '.join(command[:2])} failed: {said or f'exit status {code}'}")
        return out
