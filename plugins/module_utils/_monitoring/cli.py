# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The program gpucluster-metrics: it writes figures into files that the node exporter reads.

A timer runs it once a minute. Each collector writes a file of its own. A collector that fails writes only that it
failed, so that no old figure stays. It never stops the others; nor does a part of the figures of Slurm.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import re
import sys
import time
import traceback
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.machine import Machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.table import CHECKS
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import bounded_runner, feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.plain_shell import forget_habits

from . import elastic, gpu, live, machine, page, slurm, training, validation
from .text import Sample, render, sample

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

CONFIG = "/etc/gpucluster/monitoring.json"
CHECK_CONFIG = "/etc/gpucluster/check.json"
_FILE = re.compile(r"gpucluster_([a-z]+)\.prom")
SECONDS = 20.0  # for one command
_Figure = t.TypeVar("_Figure")
_EXPECTED = (NvidiaSmiError, ParseError, slurm.SlurmError, OSError, ValueError, LookupError)


class Collectors:
    """The collectors of one machine by name. The configuration says which of them run."""

    def __init__(self, config: Mapping[str, t.Any], host: Host, smi: NvidiaSmi) -> None:
        """Store what the collectors read. The attribute troubles has the reasons of those that failed until now."""
        self._config = config
        self._host = host
        self._smi = smi
        self.troubles: list[str] = []

    @functools.cached_property
    def _check(self) -> dict[str, t.Any]:
        found: dict[str, t.Any] = json.loads(self._host.read(CHECK_CONFIG) or "{}")
        return found

    @functools.cached_property
    def _xid(self) -> dict[str, t.Any]:
        return {**CHECKS["gpu_xid"].params, **self._check.get("checks", {}).get("gpu_xid", {})}

    def wanted(self) -> dict[str, Callable[[], list[Sample]]]:
        """Return the collectors that this machine needs."""
        known = {"gpu": self._gpus, "xid": self._xids, "slurm": self._slurm, "machine": self._machine}
        known.update(oom=self._oom, validation=self._validation, training=self._training)
        return {name: known[name] for name in self._config["collectors"]}

    def _gpus(self) -> list[Sample]:
        given: list[Sample] = []
        if gpu.dcgm_runs(self._host):
            given, reason = attempt("gpu_dcgm", lambda: gpu.dcgm(live.text(gpu.DCGM)))
            self.troubles += [reason] if reason else []
            given.append(sample("gpucluster_collector_success", float(not reason), collector="gpu_dcgm"))
        return gpu.filled(given, gpu.samples(self._smi, self._host))

    def _xids(self) -> list[Sample]:
        return gpu.xids(Machine(SECONDS).kernel_log(self._xid["kernel_log"]), self._xid)

    def _oom(self) -> list[Sample]:
        return machine.oom_kills(Machine(SECONDS).kernel_log(self._xid["kernel_log"]))

    def _slurm(self) -> list[Sample]:
        state, serves, address = None, False, self._config.get("endpoint")
        about: list[Sample] = []
        if address:
            # One that does not serve, such as before slurm.conf has MetricsType, takes no figure away.
            __, reason = attempt("slurm_endpoint", lambda: self._asked(address))
            serves = not reason
            self.troubles += [reason] if reason else []
            about = [sample("gpucluster_collector_success", float(serves), collector="slurm_endpoint")]
        try:
            state = slurm.read(self._host.run, statistics=not serves)
        except _EXPECTED as exc:
            self._write_page(None, f"slurm: {exc}")
            raise
        parts = {"filling": slurm.filling} if serves else slurm.ENDPOINT
        found = [*about, *self._parts(state, parts), *self._parts(state, slurm.OWN)]
        found += self._parts(state, {"elastic": lambda _state: elastic.samples(self._host)})
        return [*found, *self._parts(state, {"page": self._write_page})]

    def _asked(self, address: str) -> list[Sample]:
        """Ask the endpoint of slurmctld, which Prometheus reads, for its index."""
        live.text(address)
        return []

    def _parts(
        self, state: slurm.State, parts: Mapping[str, Callable[[slurm.State], Iterable[Sample]]]
    ) -> Iterable[Sample]:
        """Yield the figures of the parts that succeed, and for each part whether it did."""
        for name, part in parts.items():
            figures, reason = attempt(f"slurm_{name}", functools.partial(part, state))
            self.troubles += [reason] if reason else []
            yield from [*figures, sample("gpucluster_collector_success", float(not reason), collector=f"slurm_{name}")]

    def _write_page(self, state: slurm.State | None, trouble: str = "") -> Iterable[Sample]:
        """Write the page, also if Slurm does not answer: the page then says so."""
        about = self._config.get("page")
        if about:
            now = live.read(about["prometheus"], live.fetched)
            style, brief = self._host.read(about["style"]), self._brief()
            troubles = [*self.troubles, trouble] if trouble else self.troubles
            text = page.page(state, now, style, time.time(), about["cluster"], brief, troubles, self._trained[0])
            self._host.write(about["path"], text)
        return []

    def _brief(self) -> dict[str, t.Any] | None:
        """Return the brief of the last validation; None if its file is broken."""
        try:
            return validation.parse(self._host.read(validation.PATH))
        except ValueError:
            return None

    def _validation(self) -> list[Sample]:
        return validation.samples(validation.parse(self._host.read(validation.PATH)))

    @functools.cached_property
    def _trained(self) -> tuple[dict[str, t.Any], str]:
        """Return the last training, or why it is not known. It is asked for once, because storage can hang."""
        found, reason = attempt("training", lambda: [training.read(self._host, sys.argv[0])])
        return (found[0] if found else {}), reason.partition(": ")[2]

    def _training(self) -> list[Sample]:
        found, reason = self._trained
        if reason:
            raise ValueError(reason)
        return training.samples(found)

    def _machine(self) -> list[Sample]:
        path = f"{self._check.get('state_dir') or '/run/gpucluster-check'}/state.json"
        text = self._host.read(path)
        return [
            *(machine.health(text, self._host.changed_at(path)) if text else []),
            *machine.mounts(self._host.read("/etc/fstab"), self._host.read("/proc/self/mounts")),
            *machine.certificates(self._config.get("certificates") or [], self._host),
        ]


def attempt(name: str, collector: Callable[[], Iterable[_Figure]]) -> tuple[list[_Figure], str]:
    """Run one collector; return its figures or, if it failed in any way, none and the reason."""
    try:
        return list(collector()), ""
    except _EXPECTED as exc:
        return [], f"{name}: {exc or _told(exc)}"
    except Exception as exc:
        return [], f"{name}: {_told(exc)}"


def _told(exc: Exception) -> str:
    """Return the kind, the text and the place of an error that nobody expects."""
    place = traceback.extract_tb(exc.__traceback__)[-1]
    return f"{type(exc).__name__}: {exc} ({Path(place.filename).name}, line {place.lineno})"


def collect(name: str, collector: Callable[[], Iterable[Sample]], clock: Callable[[], float]) -> tuple[str, str]:
    """Run one collector; return its page and, if it failed, the reason."""
    start = clock()
    found, reason = attempt(name, collector)
    about = [
        sample("gpucluster_collector_success", float(not reason), collector=name),
        sample("gpucluster_collector_seconds", round(clock() - start, 4), collector=name),
    ]
    return render([*found, *about]), reason


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    parser = argparse.ArgumentParser(prog="gpucluster-metrics", description="Write the figures of this machine.")
    parser.add_argument("--config", default=CONFIG, help=f"configuration (default: {CONFIG})")
    parser.add_argument("--training", metavar="RUNS", help="print the last training below a directory, and end")
    options = parser.parse_args(argv)
    if options.training:
        return training.main(options.training)
    forget_habits()
    os.environ["SLURM_BITSTR_LEN"] = "0"  # squeue then prints all tasks of an array
    host = Host(feeding_runner(SECONDS))
    config = json.loads(host.read_required(options.config))
    collectors = Collectors(config, host, NvidiaSmi(bounded_runner(SECONDS)))
    wanted = collectors.wanted()
    for entry in host.entries(config["directory"]) or ():
        # Figures of a collector that was switched off would stay until the next boot.
        if (file := _FILE.fullmatch(entry)) and file[1] not in wanted:
            host.remove(f"{config['directory']}/{entry}")
    for name, collector in wanted.items():
        text, reason = collect(name, collector, time.monotonic)
        try:
            host.write(f"{config['directory']}/gpucluster_{name}.prom", text)
        except OSError as exc:
            collectors.troubles.append(f"{name}: {exc}")
        collectors.troubles += [reason] if reason else []
    for trouble in collectors.troubles:
        sys.stderr.write(f"gpucluster-metrics: {trouble}\n")
    return int(bool(collectors.troubles))
