# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs a process may see: those whose device files it may open, and in a job those that Slurm gave it."""

from __future__ import annotations

import errno
import os
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping

# Slurm sets this for the tasks of a job alone: prolog, epilog and health check see all GPUs.
TASK = "SLURM_PROCID"
GIVEN = ("SLURM_STEP_GPUS", "SLURM_JOB_GPUS")


def hidden_gpus(config: Mapping[str, t.Any], environment: Mapping[str, str]) -> list[int]:
    """Return the positions of the GPUs that this process does not see; all are visible unless C(devices) is set."""
    devices = config.get("devices")
    if not devices:
        return []
    count = int((config.get("gpus") or {}).get("count", 8))
    given = _given(environment)
    return [
        position
        for position in range(count)
        if (given is not None and position not in given) or not _permitted(f"{devices}{position}")
    ]


def _given(environment: Mapping[str, str]) -> set[int] | None:
    """Return the GPUs of the task, or None outside of a job."""
    if TASK not in environment:
        return None
    text = next((environment[name] for name in GIVEN if environment.get(name)), "")
    return {int(word) for word in text.split(",") if word.isdigit()}


def _permitted(path: str) -> bool:
    """Tell whether the device cgroup lets this process open the file; no driver stands behind it."""
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno not in (errno.EPERM, errno.EACCES)
    return True
