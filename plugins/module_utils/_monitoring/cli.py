# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
The program gpucluster-metrics: it writes figures into files that the node exporter reads.

A timer runs it once a minute. Each collector writes a file of its own. A collector that fails writes only that it
failed, so that no old figure stays.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.machine import Machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.table import CHECKS
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import bounded_runner, feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host

from . import elastic, gpu, live, machine, page, slurm, validation
from .text import Sample, render, sample

if t.TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

CONFIG = "/etc/gpucluster/monitoring.json"
CHECK_CONFIG = "/etc/gpucluster/check.json"
SECONDS = 20.0  # for one command
_EXPECTED = (NvidiaSmiError, ParseError, slurm.SlurmError, OSError, ValueError, LookupError)


class Collectors:
    """The collectors of one machine by name. The configuration says which of them run."""

    def __init__(self, config: Mapping[str, t.Any], host: Host, smi: NvidiaSmi) -> None:
        """Store what the collectors read."""
        self._config = config
        self._host = host
        self._smi = smi
        self._check = json.loads(host.read(CHECK_CONFIG) or "{}")
        self._xid = {**CHECKS["gpu_xid"].params, **self._check.get("checks", {}).get("gpu_xid", {})}

    def wanted(self) -> dict[str, Callable[[], list[Sample]]]:
        """Return the collectors that this machine needs."""
        known = {"gpu": self._gpus, "xid": self._xids, "slurm": self._slurm, "machine": self._machine}
        known.update(oom=self._oom, validation=self._validation)
        return {name: known[name] for name in self._config["collectors"]}

    def _gpus(self) -> list[Sample]:
        return gpu.samples(self._smi, self._host)

    def _xids(self) -> list[Sample]:
        return gpu.xids(Machine(SECONDS).kernel_log(self._xid["kernel_log"]), self._xid)

    def _oom(self) -> list[Sample]:
        return machine.oom_kills(Machine(SECONDS).kernel_log(self._xid["kernel_log"]))

    def _slurm(self) -> list[Sample]:
        state, ours = None, not self._config.get("endpoint")
        try:
            state = slurm.read(self._host.run, statistics=ours)
        finally:
            self._write_page(state)
        return [*(slurm.endpoint(state) if ours else []), *slurm.own(state), *elastic.samples(self._host)]

    def _write_page(self, state: slurm.State | None) -> None:
        """Write the page, also if Slurm does not answer: the page then says so."""
        about = self._config.get("page")
        if about:
            now = live.read(about["prometheus"], live.fetched)
            style = self._host.read(about["style"])
            text = page.page(state, now, style, time.time(), about["cluster"], self._brief())
            self._host.write(about["path"], text)

    def _brief(self) -> dict[str, t.Any] | None:
        """Return the brief of the last validation; None if its file is broken."""
        try:
            return validation.parse(self._host.read(validation.PATH))
        except ValueError:
            return None

    def _validation(self) -> list[Sample]:
        return validation.samples(validation.parse(self._host.read(validation.PATH)))

    def _machine(self) -> list[Sample]:
        path = f"{self._check.get('state_dir') or '/run/gpucluster-check'}/state.json"
        text = self._host.read(path)
        return [
            *(machine.health(text, self._host.changed_at(path)) if text else []),
            *machine.mounts(self._host.read("/etc/fstab"), self._host.read("/proc/self/mounts")),
            *machine.certificates(self._config.get("certificates") or [], self._host),
        ]


def collect(name: str, collector: Callable[[], list[Sample]], clock: Callable[[], float]) -> tuple[str, str]:
    """Run one collector; return its page and, if it failed, the reason."""
    start, found, reason = clock(), [], ""
    try:
        found = collector()
    except _EXPECTED as exc:
        reason = f"{name}: {exc}"
    about = [
        sample("gpucluster_collector_success", float(not reason), collector=name),
        sample("gpucluster_collector_seconds", round(clock() - start, 4), collector=name),
    ]
    return render([*found, *about]), reason


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit status."""
    parser = argparse.ArgumentParser(prog="gpucluster-metrics", description="Write the figures of this machine.")
    parser.add_argument("--config", default=CONFIG, help=f"configuration (default: {CONFIG})")
    options = parser.parse_args(argv)
    host = Host(feeding_runner(SECONDS))
    config = json.loads(host.read_required(options.config))
    collectors = Collectors(config, host, NvidiaSmi(bounded_runner(SECONDS)))
    failed = False
    for name, collector in collectors.wanted().items():
        text, reason = collect(name, collector, time.monotonic)
        host.write(f"{config['directory']}/gpucluster_{name}.prom", text)
        if reason:
            failed = True
            sys.stderr.write(f"gpucluster-metrics: {reason}\n")
    return int(failed)
