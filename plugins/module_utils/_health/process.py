# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Start the tools of a node with limits for time and output."""

from __future__ import annotations

import contextlib
import os
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import (
    CommandMissing,
    CommandTimeout,
    Started,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

DONE, MISSING, TIMEOUT, FAILED = "done", "missing", "timeout", "failed"

_MOST_OUTPUT = 8 << 20
_GRACE = 0.5  # seconds for a killed tool to end
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/slurm/bin:/usr/local/cuda/bin"
# Build directories of images for GPU machines; benchmark tools have no package.
_PATH += ":/opt/nccl-tests/build:/usr/local/nccl-tests/build:/opt/nvbandwidth:/usr/local/nvbandwidth:/opt/perftest/bin"


class Result(t.NamedTuple):
    """State, exit status and output of a program."""

    state: str
    rc: int = -1
    out: str = ""
    err: str = ""

    @property
    def text(self) -> str:
        """Return the whole output, errors first."""
        return " ".join(filter(None, [self.err.strip(), self.out.strip()]))


def start(argv: Sequence[str], stdin: str = "", env: Mapping[str, str] | None = None) -> Started:
    """Start a program with the PATH of the tools, or raise CommandMissing."""
    path = ":".join(filter(None, [os.environ.get("PATH", ""), _PATH]))
    return Started(argv, stdin, {"PATH": path, **(env or {})})


def run(argv: Sequence[str], timeout: float, stdin: str = "", env: Mapping[str, str] | None = None) -> Result:
    """Run a program until it ends or its time is over."""
    if timeout <= 0:
        return Result(TIMEOUT)
    try:
        program = start(argv, stdin, env)
        ended = program.wait(timeout, _MOST_OUTPUT, _GRACE)
        with contextlib.suppress(OSError):
            program.kill_group()  # processes that it left in the background
        return Result(DONE, *ended)
    except CommandTimeout as exc:
        return Result(TIMEOUT, *exc.said)
    except CommandMissing as exc:
        missing = isinstance(exc.__cause__, (FileNotFoundError, NotADirectoryError))
        return Result(MISSING if missing else FAILED, err=f"{argv[0]}: {_reason(exc)}")


def _reason(exc: CommandMissing) -> str:
    cause = exc.__cause__
    if isinstance(cause, (FileNotFoundError, NotADirectoryError)):
        return "no such program"
    return str(getattr(cause, "strerror", None) or cause)
