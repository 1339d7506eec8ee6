# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What emulated_slurmd.py needs of its machine: memory, threads, processors; and how much others use of them."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

from .emulated_controller import TICKS, BenchmarkError

# Memory of one slurmd with one step, and its threads: 3 MiB, 12 threads and 8 MiB of slurmstepd were measured on Slurm
# 24.11.5. A quarter of the free memory is kept.
MIB_OF_SLURMD = 12
THREADS_OF_SLURMD = 20
PIDS_MAX = (Path("/sys/fs/cgroup/pids/pids.max"), Path("/sys/fs/cgroup/pids.max"))


def affordable(count: int) -> int:
    """Return how many slurmd the free memory allows."""
    text = Path("/proc/meminfo").read_text(encoding="utf-8")
    free = int((re.search(r"MemAvailable:\s+(\d+)", text) or ["", "0"])[1]) // 1024
    return min(count, max(1, int(free * 0.75) // MIB_OF_SLURMD))


def allow_threads(count: int) -> None:
    """Lift the limit of processes and threads of a container where it is too low."""
    for path in filter(Path.exists, PIDS_MAX):
        limit = path.read_text(encoding="utf-8").strip()
        if limit == "max" or int(limit) >= count * THREADS_OF_SLURMD:
            continue
        try:
            path.write_text("max", encoding="utf-8")
        except OSError as exc:
            raise BenchmarkError(
                f"{path} allows {limit} processes and threads, {count} slurmd need {count * THREADS_OF_SLURMD}; "
                "make the container with --pids-limit=-1"
            ) from exc


def use_cpus(count: int) -> None:
    """Let every process of this machine use only so many processors."""
    allowed = sorted(os.sched_getaffinity(0))[:count]
    for path in Path("/proc").glob("[0-9]*/task/[0-9]*"):
        with contextlib.suppress(OSError):
            os.sched_setaffinity(int(path.name), allowed)


class Processors:
    """The time of the processors that this process may use: of everything, and of the processes of this container."""

    def __init__(self) -> None:
        """Note the start."""
        self._begin = self._now()

    def others(self) -> float:
        """Return how many of these processors other work used since the start."""
        seconds, busy, ours = (now - was for now, was in zip(self._now(), self._begin, strict=True))
        return max(0.0, busy - ours) / seconds

    @staticmethod
    def _now() -> tuple[float, float, float]:
        names = {f"cpu{number}" for number in os.sched_getaffinity(0)}
        rows = [line.split() for line in Path("/proc/stat").read_text(encoding="utf-8").splitlines()]
        # user, nice, system, irq, softirq and steal; a container sees the processors of its machine
        busy = sum(int(row[field]) for row in rows if row[0] in names for field in (1, 2, 3, 6, 7, 8))
        ours = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                # its own time, and that of its children that ended
                ours += sum(map(int, path.read_text(encoding="utf-8").rpartition(")")[2].split()[11:15]))
        return time.monotonic(), busy / TICKS, ours / TICKS
