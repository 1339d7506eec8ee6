# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Allocate Slurm nodes for the time that a module uses them."""

from __future__ import annotations

import contextlib
import platform
import shutil
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import job as slurm_job
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, interrupt

if t.TYPE_CHECKING:
    from collections.abc import Iterator

ALLOCATION: dict[str, t.Any] = {
    "name": {"type": "str", "default": "gpucluster"},
    "job_id": {"type": "int"},
    "partition": {"type": "str"},
    "exclusive": {"type": "bool", "default": True},
    "time_limit": {"type": "int", "default": 15},
    "pending_timeout": {"type": "int", "default": 120},
    "submit_options": {"type": "dict", "default": {}},
}


def slurm() -> slurm_job.Slurm:
    """Return the interface to Slurm."""
    return slurm_job.Slurm(runner())


def runner() -> bounded_run.Runner:
    """Return the function that runs Slurm's commands. A missing command raises an error that names it."""

    def run(
        args: t.Sequence[str], data: str | None = None, environment: t.Mapping[str, str] | None = None
    ) -> tuple[int, str, str]:
        code, out, err = bounded_run.feeding_runner(seconds(args))(args, data, environment)
        # A step ends with the same status if its program is missing on the nodes.
        if code == bounded_run.MISSING and shutil.which(args[0]) is None:
            raise slurm_job.SlurmError(f"{err} on {platform.node()}. Run this where Slurm's commands are")
        return code, out, err

    return run


def seconds(args: t.Sequence[str]) -> float:
    """Return the time limit of a command. A command under timeout(1) gets an additional minute."""
    return float(args[2]) + bounded_run.ASK if args[0] == "timeout" else bounded_run.CHANGE


def submit_options(params: dict[str, t.Any], nodes: t.Sequence[str] | None, count: int | None) -> list[str]:
    """Return the options of sbatch. Refuse an empty list of nodes, because the job could run anywhere."""
    if nodes is not None and not nodes:
        raise slurm_job.SlurmError("the list of nodes is empty; a job without it could run on nodes that nobody named")
    named = {
        "job_name": params["name"],
        "nodes": str(count or len(nodes or ()) or 1),
        "nodelist": ",".join(nodes) if nodes else None,
        "partition": params["partition"],
        "exclusive": params["exclusive"],
        "time": str(params["time_limit"]),
        "no_kill": True,
        # If a job must not be requeued and its prolog fails, slurmd 24.11 reports this to the controller every 15
        # seconds without end. Each report drains the node again, even after a repair. A requeued job is cancelled
        # instead.
        "requeue": True,
    }
    return slurm_job.options({**named, **params["submit_options"]})


@contextlib.contextmanager
def allocation(
    slurm: slurm_job.Slurm,
    params: dict[str, t.Any],
    nodes: t.Sequence[str] | None = None,
    count: int | None = None,
) -> Iterator[slurm_job.Job]:
    """Yield a running job that holds the nodes. Always cancel the jobs that were submitted for it."""
    with interrupt.cleaned_up(lambda: slurm.cancel(slurm.submitted)):
        try:
            number = params["job_id"]
            if not number:
                slurm.refuse_stopped(nodes or [])
                seconds = 60 * params["time_limit"]
                chosen = [*submit_options(params, nodes, count), "--output=/dev/null", "--chdir=/"]
                number = slurm.submit(chosen, slurm_job.holder(seconds))
            job = slurm.wait_started(number, params["pending_timeout"], poll=0.5, nodes=nodes or [])
            if job.ended:
                raise slurm_job.SlurmError(
                    f"job {number} ended before it could be used: it is {job.state} {job.reason}"
                )
            yield job
        except slurm_job.StoppedNodeError:
            raise
        except slurm_job.SlurmError as exc:
            # The state of the job, such as CANCELLED, does not explain the failure. The states of its nodes do.
            lost = slurm.lost_nodes(nodes or [])
            raise type(exc)("; ".join([str(exc), *(f"{name} is {text}" for name, text in lost.items())])) from exc
        finally:
            slurm.cancel(slurm.submitted)
