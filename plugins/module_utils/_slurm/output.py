# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The line in the output of a job that says why the job failed: that of the program, before those of Slurm."""

from __future__ import annotations

import re

# Lines of Slurm and its plugins; pyxis repeats what enroot itself wrote.
_SLURM = re.compile(r"(srun|slurmstepd|slurmd|sbatch|scontrol|spank\S*|pyxis|In|Prolog)\s*[:(\[](?!.*\[ERROR\])")
# The same, but they only say that something ended.
_ENDED = re.compile(r"Exited with exit code|\*\*\*|Terminat|[Jj]ob step aborted|Timed out waiting|first task exited")
_KILLED = re.compile(r"oom.kill|OOM Killed|tasks? [\d,\[\]-]+: (?!Exited)", re.IGNORECASE)
# srun kills the other tasks after one has failed.
_EXITED, _OTHERS = "Exited with exit code", re.compile(r"tasks? [\d,\[\]-]+: ")
# The last line of a traceback, such as "[rank0]: RuntimeError: no memory".
_EXCEPTION = re.compile(r"(\[rank\d+\]: )?[\w.]*(Error|Exception)(: |$)")
_FAULT = re.compile(
    r"error|fatal|fail|cannot|can't|could not|denied|not found|no such|unable|refused|abort|NCCL WARN"
    r"|invalid|unrecogni[sz]ed|missing|not installed|needs|out of memory|segmentation",
    re.IGNORECASE,
)
# A process says so because another one ended: Linux, Gloo, NCCL, and the store of PyTorch.
_LOST_PEER = re.compile(
    r"by (remote )?peer|broken pipe|remote process exit|ncclRemoteError|IBV_WC_RETRY_EXC_ERR|remote server shutdown"
    r"|Watchdog caught collective|NCCL operations have failed or timed out",
    re.IGNORECASE,
)
# Tables and rulers of measuring programs, what NCCL tells of itself, and the middle of a traceback.
_TABLE = re.compile(r"#|[-=*]{5}|[\d.]+(\s|$)|.*NCCL INFO|(\[rank\d+\]: )?(\s*File \"|Traceback|\s{2})")
# Lines before the one that says that a process was killed.
_BEFORE = 2


def cause(*texts: str) -> str:
    """Return why a program failed, from its outputs in the order of their weight; empty without any line."""
    lines = [line.rstrip() for text in texts for line in text.splitlines() if line.strip()]
    slurm = [line.strip() for line in lines if _SLURM.match(line.strip())]
    own = [line.strip() for line in lines if not _SLURM.match(line.strip()) and not _TABLE.match(line)]
    exited = any(_EXITED in line for line in slurm)
    reasons = [line for line in slurm if not _ENDED.search(line) and not (exited and _OTHERS.search(line))]
    exceptions = sorted((line for line in own if _EXCEPTION.match(line)), key=lost_peer)
    faults = exceptions + [line for line in own if _FAULT.search(line)]
    killed = [line for line in reasons if _KILLED.search(line)]
    if killed and not faults:
        return " / ".join([*own[-_BEFORE:], killed[0]])
    errors = [line for line in slurm if "error:" in line and "***" not in line]
    return next(iter([*faults, *own, *reasons, *errors, *(line.strip() for line in lines)]), "")


def lost_peer(line: str) -> bool:
    """Return whether a line says only that another process went away, which is no cause where there is another."""
    return bool(_LOST_PEER.search(line))


def own(*texts: str) -> bool:
    """Return whether the program itself wrote something."""
    return any(line.strip() and not _SLURM.match(line.strip()) for text in texts for line in text.splitlines())
