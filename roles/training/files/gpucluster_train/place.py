# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of a rank, as torchrun or srun set it, and what its machine must have."""

from __future__ import annotations

import os
import shutil
import sysconfig
import tempfile
import typing as t
from pathlib import Path

from . import trust


class Rank(t.NamedTuple):
    """The number of this process, of all processes, and its number on its node."""

    rank: int
    size: int
    local: int


def find() -> Rank:
    """Return the numbers; one process that neither torchrun nor srun started is alone."""
    launched = "RANK" in os.environ or "SLURM_PROCID" in os.environ
    size = _number("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS") if launched else 1
    if size <= 1:
        return Rank(0, 1, 0)
    return Rank(_number("RANK", "SLURM_PROCID"), size, _number("LOCAL_RANK", "SLURM_LOCALID"))


def compiler_fault() -> str:
    """Return what torch.compile lacks on this machine: it compiles C for GPUs, with the headers of Python."""
    if not (os.environ.get("CC") or shutil.which("gcc") or shutil.which("clang")):
        return "a C compiler (install gcc, or set CC)"
    header = Path(sysconfig.get_path("include")) / "Python.h"
    return "" if header.exists() else f"{header} (install the development package of Python)"


def own_cache() -> str:
    """
    Return a directory for the programs that torch.compile makes, and loads again in a later run.

    PyTorch itself takes the first one even if another user has made it, with pickles and libraries in it.
    """
    path = Path(tempfile.gettempdir()).absolute() / f"torchinductor_{trust.user_name(os.getuid())}"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        trust.check(str(path), trust.trusted(), trust.trusted_above())
    except (OSError, trust.TrustError):
        return tempfile.mkdtemp(prefix=f"{path.name}_")
    return str(path)


def _number(*names: str) -> int:
    return next((int(os.environ[name]) for name in names if os.environ.get(name)), 0)
