# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Apply the settings of the GPUs of a machine at boot, after a load of the driver, and before and after a job.

The role gpu installs this program and its settings file. It applies the settings of the module nvidia_clocks with the
same code. Clocks never fail a boot or a job: the program prints each setting that fails, and exits with status 0.
"""

from __future__ import annotations

import json
import os
import sys
import time
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import plan as nvidia_plan
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import record as nvidia_record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.clocks import ApplyError, Record, apply
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import Refused, Wanted, label
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import bounded_runner

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import Report

    Say = Callable[[str], None]

CONFIG = "/etc/gpucluster/gpu-clocks.json"
USAGE = "Usage: gpucluster-gpu-clocks boot|job-start|job-end [FILE]"
USAGE_ERROR = 2
CALL_SECONDS = 60  # timeout of a call of nvidia-smi
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Settings(t.NamedTuple):
    """The inputs of the role gpu. Clocks are in MHz; 0 means the highest clock."""

    clocks: str
    method: str
    memory: int
    graphics: int
    power_limit: str
    persistence: bool
    gpus: int
    wait_seconds: int
    poll_seconds: int = 5
    state_directory: str = "/run/hpcai"
    executable: str = "nvidia-smi"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    args = sys.argv[1:] if argv is None else list(argv)
    actions: dict[str, Callable[[Gpus], None]] = {
        "boot": Gpus.boot,
        "job-start": Gpus.start_job,
        "job-end": Gpus.end_job,
    }
    if not args or args[0] not in actions or len(args) > 2:
        sys.stderr.write(f"{USAGE}\n")
        return USAGE_ERROR
    os.environ["PATH"] = f"{_PATH}:{os.environ.get('PATH', '')}"
    try:
        settings = read_settings(args[1] if len(args) > 1 else CONFIG)
    except (OSError, ValueError, TypeError) as exc:
        sys.stderr.write(f"gpucluster-gpu-clocks: {exc}\n")
        return 1
    try:
        actions[args[0]](Gpus(settings, os.environ, _say))
    except (NvidiaSmiError, OSError) as exc:
        _say(str(exc))
    return 0


def read_settings(path: str) -> Settings:
    """Return the settings of a file. Raise OSError, ValueError or TypeError."""
    return Settings(**json.loads(Path(path).read_text(encoding="utf-8")))


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Gpus:
    """All GPUs of this machine."""

    def __init__(self, settings: Settings, environment: Mapping[str, str], say: Say) -> None:
        """Store the settings, the environment of the job, and the function that prints messages."""
        self._settings = settings
        self._environment = environment
        self._say = say
        self._smi = NvidiaSmi(bounded_runner(CALL_SECONDS), settings.executable)
        self._state = Path(settings.state_directory)

    def boot(self) -> None:
        """Wait for the driver, then set persistence mode, power limit and clocks."""
        report = self._wait()
        if report:
            self._set(report, list(wishes(self._settings)))

    def start_job(self) -> None:
        """Set the clocks for a job that uses the whole machine."""
        if self._settings.clocks == "job" and whole_machine(self._environment, self._settings.gpus):
            self._state.mkdir(mode=0o755, parents=True, exist_ok=True)
            whole_file.replace(str(self._marker), self._environment.get("SLURM_JOB_ID", "").encode(), 0o644)
            self._set(self._smi.read(), [_highest(self._settings)])

    def end_job(self) -> None:
        """Set the default clocks after the job for which they were set."""
        job = self._environment.get("SLURM_JOB_ID")
        if job and self._marker.exists() and self._marker.read_text(encoding="utf-8") == job:
            self._marker.unlink()
            self._set(self._smi.read(), [Wanted(state="default", method=self._settings.method)])

    @property
    def _marker(self) -> Path:
        """Return the file that contains the job for which the clocks were set."""
        return self._state / "gpu_clocks.job"

    def _wait(self) -> Report | None:
        start = time.monotonic()
        while True:
            try:
                return self._smi.read()
            except NvidiaSmiError as exc:
                waited = time.monotonic() - start
                if exc.kind == "not_installed" or waited >= self._settings.wait_seconds:
                    self._say(f"no GPU after {waited:.0f} s: nothing is set")
                    return None
            time.sleep(self._settings.poll_seconds)

    def _set(self, report: Report, wanted: Sequence[Wanted]) -> None:
        record = Record(str(self._state / Path(nvidia_record.PATH).name), nvidia_record.stamps())
        for wish in self._chosen(report, wanted):
            try:
                result = apply(self._smi, wish, record, check_mode=False, tolerant=True, report=report)
            except ApplyError as exc:
                self._say(str(exc))
                result = exc.result
            for line in [*result["warnings"], *(f"{label(gpu)}: {gpu['msg']}" for gpu in result["gpus"])]:
                self._say(line)

    def _chosen(self, report: Report, wanted: Sequence[Wanted]) -> list[Wanted]:
        """Return the settings for each GPU: the first wish that it supports, independent of the other GPUs."""
        chosen: dict[int, list[str]] = {}
        for gpu in report.gpus:
            name = str(gpu["uuid"] or gpu["pci_bus_id"])
            for number, wish in enumerate(wanted):
                try:
                    nvidia_plan.make(report, {}, wish._replace(gpus=[name]), tolerant=True)
                except Refused as exc:
                    self._say(str(exc))
                    continue
                chosen.setdefault(number, []).append(name)
                break
        return [wanted[number]._replace(gpus=names) for number, names in chosen.items()]


def wishes(settings: Settings) -> Iterator[Wanted]:
    """Yield the settings for boot, then reduced settings for GPUs that refuse some of them."""
    persistence = settings.persistence or None
    power = settings.power_limit or None
    if settings.clocks == "max":
        yield _highest(settings)._replace(persistence=persistence, power_limit=power)
    if power:
        yield Wanted(state="set", persistence=persistence, power_limit=power)
    if persistence:
        yield Wanted(state="set", persistence=persistence)


def whole_machine(environment: Mapping[str, str], count: int) -> bool:
    """Return whether the job uses the machine, or all its GPUs, exclusively."""
    gpus = [part for part in environment.get("SLURM_JOB_GPUS", "").split(",") if part]
    return environment.get("SLURM_JOB_OVERSUBSCRIBE") == "NO" or len(gpus) >= count


def _highest(settings: Settings) -> Wanted:
    memory, graphics = settings.memory or None, settings.graphics or None
    return Wanted("set" if memory or graphics else "max", settings.method, memory, graphics)
