# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Steps after each job: terminate its leftover processes, check its GPUs and restore their clocks."""

from __future__ import annotations

import signal
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values

from . import leftovers, readings
from .verdict import NotRunError, UnhealthyError, UnknownError, listing, tidy

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .machine import Machine

_STEP_SECONDS = 0.25


def clean(machine: Machine, config: Mapping[str, t.Any], environment: Mapping[str, str]) -> list[str]:
    """Clean up after the job of the environment and return the faults; none means ready for the next job."""
    settings = config.get("epilog") or {}
    job = environment.get("SLURM_JOB_ID", "")
    if not job.isdigit():
        return [f"SLURM_JOB_ID is {job!r}, not the number of a job"]
    faults = end_processes(
        machine, environment, int(settings.get("uid_min", 1000)), float(settings.get("grace_seconds", 2))
    )
    indexes = gpu_indexes(environment.get("SLURM_JOB_GPUS", ""))
    if indexes:
        faults += _gpus(machine, config, settings, indexes)
    return faults


def end_processes(machine: Machine, environment: Mapping[str, str], uid_min: int, grace: float) -> list[str]:
    """Terminate the leftover processes of this job and of no other. The environment is from slurmd, not from a user."""
    job = environment["SLURM_JOB_ID"]
    names = frozenset(filter(None, [f"job_{job}", environment.get("SLURM_JOB_SLUID", "")]))

    def left() -> list[leftovers.Process]:
        return leftovers.of_job(leftovers.look(machine, uid_min), names, environment.get("SLURM_JOB_UID", ""))

    try:
        for number in (signal.SIGTERM, signal.SIGKILL):
            found = left()
            for process in found:
                machine.signal(process.pid, number)
            found = _wait(machine, left, grace) if found else []
            if not found:
                return []
    except (UnknownError, OSError) as exc:
        return [f"leftover processes: {exc}"]
    return [f"leftover processes of job {job} cannot be ended: {listing([f'{p.name} ({p.pid})' for p in found])}"]


def gpu_indexes(text: str) -> list[str]:
    """Return the GPUs of the job, which Slurm lists as indexes."""
    return [part for part in text.replace("IDX:", "").split(",") if part.isdigit()]


def _wait(machine: Machine, left: Callable[[], list[leftovers.Process]], grace: float) -> list[leftovers.Process]:
    for _step in range(max(1, int(grace / _STEP_SECONDS))):
        machine.sleep(_STEP_SECONDS)
        found = left()
        if not found:
            return []
    return found


def _gpus(
    machine: Machine, config: Mapping[str, t.Any], settings: Mapping[str, t.Any], indexes: list[str]
) -> list[str]:
    tool = (config.get("tools") or {}).get("nvidia_smi") or "nvidia-smi"
    limit = float(settings.get("gpu_memory_max_mib", 1024))
    try:
        for _step in range(max(1, int(settings.get("gpu_memory_samples", 5)))):
            found = readings.gpus(machine, 10, tool).gpus
            if any(gpu.mig for gpu in found):
                return []  # the job's indexes are those of instances, and a GPU shows the processes of all its jobs
            gpus = [gpu for gpu in found if gpu.row["index"] in indexes]
            full = [
                f"{gpu.name}: {gpu.number('memory.used'):.10g} MiB" for gpu in gpus if gpu.number("memory.used") > limit
            ]
            if not full:
                return set_clocks(machine, tool, settings.get("clocks"), gpus)
            machine.sleep(1)
    except NotRunError:
        return []
    except (UnknownError, UnhealthyError) as exc:
        return [str(exc)]
    return [f"GPU memory in use after job: expected at most {limit:.10g} MiB, found {listing(full)}"]


def set_clocks(machine: Machine, tool: str, clocks: t.Any, gpus: list[readings.Gpu]) -> list[str]:
    """Restore the application clocks of the record if the job changed them; skip drivers without them."""
    if not clocks:
        return []
    wanted = {"memory": clocks["memory_mhz"], "graphics": clocks["graphics_mhz"]}
    changed = [gpu for gpu in gpus if any(_differs(gpu, domain, mhz) for domain, mhz in wanted.items())]
    if not changed:
        return []
    names = [{"uuid": gpu.row["uuid"], "pci_bus_id": values.bus_id(gpu.row["pci.bus_id"])} for gpu in changed]
    pair = f"{wanted['memory']:.10g},{wanted['graphics']:.10g}"
    try:
        outcomes = readings.reader(machine, 10, tool).set("-ac", pair, names)
    except (NotRunError, UnknownError) as exc:
        return [f"clocks of {listing([gpu.name for gpu in changed])} cannot be set back: {exc}"]
    refused = [(gpu.name, outcome.line) for gpu, outcome in zip(changed, outcomes) if outcome.problem]
    if not refused:
        return []
    return [f"clocks of {listing([name for name, _line in refused])} cannot be set back: {tidy(refused[0][1], 160)}"]


def _differs(gpu: readings.Gpu, domain: str, mhz: float) -> bool:
    field = f"clocks.applications.{domain}"
    return gpu.available(field) and gpu.number(field) != mhz
