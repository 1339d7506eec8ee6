#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Start many slurmd on this one machine and measure the controller: start, reconfigure, jobs, restart and takeover.

Runs as root on a machine with slurmctld, slurmdbd, slurmd and the standard library of Python, nothing else, as a module
of a package: python3 -m emulated.emulated_slurmd. slurm.conf has to name the nodes to emulate, all at this machine and
each at a port of its own, with spool directory, log and PID file by node name:

  NodeName=emu[1-500] NodeAddr=control Port=[20001-20500] CPUs=1
  SlurmdSpoolDir=/var/spool/slurmd.%n
  SlurmdPidFile=/run/slurmd.%n.pid
  SlurmdLogFile=/var/log/slurm/slurmd.%n.log

Slurm has to be built with --enable-multiple-slurmd: all of them share one munged, and only such a build takes a
credential that another slurmd of the machine has seen. Debian's own packages are. What the script started, it ends.

Use it on a quiet machine. A job over 500 nodes starts 1,000 slurmstepd at once, which keeps two cores busy for half a
minute. others_processors says how many of the used cores other work had meanwhile.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

from . import emulated_controller as controller
from . import emulated_monitoring as monitoring
from .emulated_controller import BenchmarkError, call
from .emulated_machine import Processors, affordable, allow_threads, use_cpus

# What big_sys.shtml recommends. Each slurmstepd closes that number of files when it starts: a million takes a minute.
FILES = 8192


def check() -> str:
    """Return the version of a controller that fits, or say what is wrong."""
    config = call("scontrol", "show", "config")
    if not re.search(r"MULTIPLE_SLURMD\s*=\s*(?i:yes|true|1)", config):
        raise BenchmarkError("this Slurm is not built with --enable-multiple-slurmd")
    for key in ("SlurmdSpoolDir", "SlurmdPidFile"):
        if "%n" not in (found := re.search(rf"{key}\s*=\s*(\S+)", config) or [""])[0]:
            raise BenchmarkError(f"{key} of slurm.conf has no %n, so that many slurmd would share it: {found[0]}")
    return (re.search(r"SLURM_VERSION\s*=\s*(\S+)", config) or ["", "?"])[1]


def nodes(prefix: str, count: int) -> list[str]:
    """Return the names of the first nodes of slurm.conf that begin with the prefix."""
    names = call("sinfo", "-h", "-a", "-N", "-o", "%N").split()
    found = sorted(dict.fromkeys(name for name in names if name.startswith(prefix)), key=lambda name: (len(name), name))
    if not found:
        raise BenchmarkError(f"slurm.conf has no node whose name begins with {prefix!r}")
    return found[:count]


def states(names: t.Sequence[str]) -> dict[str, str]:
    """Return the states of nodes."""
    wanted = set(names)
    lines = call("sinfo", "-h", "-a", "-N", "-o", "%N %t").splitlines()
    return {name: state for name, state in (line.split() for line in lines) if name in wanted}


def wait_idle(names: t.Sequence[str], timeout: float, running: t.Sequence[Slurmd] = ()) -> None:
    """Wait until every node is idle."""
    deadline = time.monotonic() + timeout
    while (busy := {name: state for name, state in states(names).items() if state != "idle"}) or not names:
        if time.monotonic() > deadline:
            example = next(iter(busy))
            raise BenchmarkError(
                f"{len(busy)} of {len(names)} nodes are not idle after {timeout} s: {example} {busy[example]}"
            )
        time.sleep(0.5)
        for one in running:
            one.revive()


def started(names: t.Sequence[str]) -> dict[str, str]:
    """Return when slurmd of each node started, as slurmctld heard."""
    text = call("scontrol", "-o", "show", "node")
    times = dict(re.findall(r"NodeName=(\S+).*?SlurmdStartTime=(\S+)", text))
    return {name: times.get(name, "None") for name in names}


def wait_restarted(names: t.Sequence[str], before: t.Mapping[str, str], timeout: float) -> None:
    """Wait until every slurmd has registered anew."""
    deadline = time.monotonic() + timeout
    while same := [name for name, stamp in started(names).items() if stamp in (before[name], "None", "Unknown")]:
        if time.monotonic() > deadline:
            raise BenchmarkError(f"{len(same)} slurmd did not register after the reconfigure, such as {same[0]}")
        time.sleep(0.5)


class Slurmd:
    """The slurmd of one node, in the foreground."""

    def __init__(self, command: list[str]) -> None:
        """Start it."""
        self._command = command
        self.restarts = 0
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def revive(self) -> None:
        """Start it again, as systemd does, if it ended, for example because it did not get its configuration."""
        if self.process.poll() is not None:
            self.process = self._start()
            self.restarts += 1


def start(names: t.Sequence[str], options: argparse.Namespace) -> list[Slurmd]:
    """Start one slurmd for each node."""
    spool = (re.search(r"SlurmdSpoolDir\s*=\s*(\S+)", call("scontrol", "show", "config")) or ["", ""])[1]
    running = []
    for name in names:
        Path(spool.replace("%n", name)).mkdir(mode=0o755, parents=True, exist_ok=True)
        command = [options.slurmd, "-D", "-N", name]
        command += ["--conf-server", options.conf_server] if options.conf_server else []
        running.append(Slurmd(command))
    return running


def stop(running: t.Sequence[Slurmd]) -> None:
    """End every slurmd that this script started."""
    processes = [one.process for one in running]
    for process in processes:
        process.terminate()
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=30)
        if process.poll() is None:
            process.kill()


def memory(running: t.Sequence[Slurmd]) -> tuple[int, int]:
    """Return the memory of all slurmd in MiB, shared pages counted once, and the number of their threads."""
    kib = threads = 0
    for process in [one.process for one in running]:
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{process.pid}/smaps_rollup").read_text(encoding="utf-8")
            kib += int((re.search(r"^Pss:\s+(\d+)", text, re.MULTILINE) or ["", "0"])[1])
            threads += len(os.listdir(f"/proc/{process.pid}/task"))  # noqa: PTH208 (only counted)
    return kib // 1024, threads


def run_job(names: t.Sequence[str], timeout: float) -> float:
    """Return how long a job of one task on each node takes."""
    begin = time.monotonic()
    job = ["srun", f"--nodes={len(names)}", "--ntasks-per-node=1", "--mpi=none", "--nodelist", ",".join(names)]
    hosts = call(*job, "printenv", "SLURMD_NODENAME", timeout=timeout).split()
    if sorted(hosts) != sorted(names):
        raise BenchmarkError(f"a job over {len(names)} nodes ran on {len(set(hosts))} of them")
    return time.monotonic() - begin


def measure(names: t.Sequence[str], options: argparse.Namespace) -> dict[str, t.Any]:
    """Return the times of everything, in seconds."""
    timeout, job_nodes = options.timeout, min(options.job_nodes or len(names), len(names))
    result: dict[str, t.Any] = {"nodes": len(names), "job_nodes": job_nodes}
    first, used = time.monotonic(), Processors()
    running = start(names, options)
    try:
        wait_idle(names, timeout, running)
        show(result, "start_to_all_idle_s", time.monotonic() - first)
        show(result, "slurmd_restarts", sum(one.restarts for one in running))
        result["slurmd_memory_mib"], result["slurmd_threads"] = memory(running)
        for step in (1, 2):
            show(result, f"job_{step}_s", run_job(names[:job_nodes], timeout))
            wait_idle(names, timeout)
        show(result, "reconfigure", reconfigure(names, timeout))
        show(result, "start_job_reconfigure_others_processors", used.others())
        for name, phase in phases(len(names), job_nodes, options).items():
            if name.partition("_")[0] not in options.skip:
                begin, used = time.monotonic(), Processors()
                show(result, name, phase())
                show(result, f"{name}_memory_mib", memory_of_daemons())
                wait_idle(names, timeout)
                show(result, f"{name}_phase_s", time.monotonic() - begin)
                show(result, f"{name}_others_processors", used.others())
        show(result, "all_s", time.monotonic() - first)
    finally:
        stop(running)
    return result


def phases(nodes: int, job_nodes: int, options: argparse.Namespace) -> dict[str, t.Callable[[], dict[str, t.Any]]]:
    """Return what is measured of the controller, by name."""
    timeout = options.timeout
    watched = {
        f"monitoring_{load}": functools.partial(monitoring.measure, options.minutes, load, timeout)
        for load in sorted(options.loads)
    }
    # slurmctld keeps jobs that ended for minutes, so the quiet queue comes first.
    found: dict[str, t.Callable[[], dict[str, t.Any]]] = {
        **{name: measure for name, measure in watched.items() if name == "monitoring_0"},
        "jobs": lambda: controller.many_jobs(options.jobs, 60, timeout),
        **{name: measure for name, measure in watched.items() if name != "monitoring_0"},
        "restart": lambda: controller.restart(nodes, job_nodes, timeout),
    }
    if options.standby:
        found["takeover"] = lambda: controller.takeover(nodes, job_nodes, options.standby, timeout)
    return found


def memory_of_daemons() -> dict[str, int]:
    """Return the memory of the daemons of the first controller."""
    return {daemon: controller.memory_mib(daemon) for daemon in ("slurmctld", "slurmdbd")}


def show(result: dict[str, t.Any], name: str, value: t.Any) -> None:
    """Note a figure, or figures, and print them at once."""
    found = {f"{name}_{key}": one for key, one in value.items()} if isinstance(value, dict) else {name: value}
    result.update(found)
    for key, one in found.items():
        print(f"{key:<40} {one:.2f}" if isinstance(one, float) else f"{key:<40} {one}", flush=True)


def reconfigure(names: t.Sequence[str], timeout: float) -> dict[str, float]:
    """Return the seconds of a reconfigure, and until each slurmd has registered anew."""
    before = started(names)
    time.sleep(1)  # the stamps are whole seconds
    begin = time.monotonic()
    call("scontrol", "reconfigure", timeout=timeout)
    took = time.monotonic() - begin
    wait_restarted(names, before, timeout)
    wait_idle(names, timeout)
    return {"command_s": took, "all_registered_s": time.monotonic() - begin}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--nodes", type=int, default=500, help="number of slurmd at most; free memory may allow fewer (500)"
    )
    parser.add_argument("--job-nodes", type=int, default=0, help="number of nodes of the job; 0 is all (0)")
    parser.add_argument("--prefix", default="emu", help="what the names of the nodes begin with (emu)")
    parser.add_argument("--slurmd", default="/usr/sbin/slurmd", help="the slurmd command (/usr/sbin/slurmd)")
    parser.add_argument("--conf-server", default="", help="servers of the configuration; the file of this machine ()")
    parser.add_argument("--standby", default="", help="name of the second controller; none ()")
    parser.add_argument("--jobs", type=int, default=500, help="number of jobs that are submitted in a minute (500)")
    parser.add_argument("--minutes", type=int, default=1, help="minutes with and without monitoring (1)")
    parser.add_argument(
        "--loads",
        type=int,
        nargs="*",
        default=[500, 0],
        help="jobs that are submitted in each of these minutes (500 0)",
    )
    parser.add_argument("--skip", nargs="*", default=[], help="jobs, monitoring, restart, takeover ()")
    parser.add_argument("--cpus", type=int, default=2, help="processors that the machine may use (2)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds that each step may take (600)")
    parser.add_argument("--nice", type=int, default=0, help="niceness of everything that is started (0)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    # Whoever ends the script ends what it started; and hundreds of slurmd do not take the machine from others.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    os.nice(arguments.nice)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    try:
        version = check()
        names = nodes(arguments.prefix, affordable(arguments.nodes))
        allow_threads(len(names))
        use_cpus(arguments.cpus)
        result = {"slurm": version, "cpus": arguments.cpus, **measure(names, arguments)}
    except (BenchmarkError, subprocess.TimeoutExpired) as exc:
        print(exc, file=sys.stderr)
        return 1
    if arguments.json:
        arguments.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
