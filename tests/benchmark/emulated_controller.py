# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What emulated_slurmd.py measures of slurmctld and slurmdbd: jobs, restart, takeover, and their cost."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import os
import re
import subprocess
import time
import typing as t
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
RUNNERS = 8  # sbatch commands at the same time
TRIES = 5
TASK = "/usr/bin/sleep 3000"  # of the long job; with its path, since srun starts it so

Requests = dict[str, tuple[int, int]]  # number and total microseconds by type of request, or by user


class BenchmarkError(Exception):
    """The machine is not what the benchmark needs, or Slurm did not do what it should."""


def call(*arguments: str, timeout: float = 600) -> str:
    """Run a command and return what it prints."""
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=timeout)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(arguments)} exited {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done.stdout


def until(what: str, timeout: float, found: t.Callable[[], bool], pause: float = 0.25) -> float:
    """Wait until something is true, and return the seconds that it took; an answer that fails is not true."""
    begin = time.monotonic()
    while True:
        with contextlib.suppress(BenchmarkError, subprocess.TimeoutExpired):
            if found():
                return time.monotonic() - begin
        if time.monotonic() - begin > timeout:
            raise BenchmarkError(f"{what}: not within {timeout} s")
        time.sleep(pause)


def pids(name: str) -> list[int]:
    """Return the processes with a name."""
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        with contextlib.suppress(OSError):
            if path.read_text(encoding="utf-8").strip() == name:
                found.append(int(path.parent.name))
    return found


def running(command: str) -> int:
    """Return the number of processes that were started with this command."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found += path.read_bytes().split(b"\0")[:-1] == command.encode().split()
    return found


def cpu_seconds(name: str) -> float:
    """Return the processor time of the processes with a name."""
    total = 0
    for pid in pids(name):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
    return total / TICKS


def memory_mib(name: str) -> int:
    """Return the resident memory of the processes with a name."""
    kib = 0
    for pid in pids(name):
        with contextlib.suppress(OSError):
            text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
            kib += int((re.search(r"VmRSS:\s+(\d+)", text) or ["", "0"])[1])
    return kib // 1024


def rpcs(by: str = "message_type") -> Requests:
    """Return the number of requests to slurmctld and their microseconds by type or user, since its last start."""
    statistics = json.loads(call("sdiag", "--json"))["statistics"]
    return {one[by]: (one["count"], one["total_time"]) for one in statistics[f"rpcs_by_{by}"]}


def added(before: Requests, after: Requests) -> Requests:
    """Return the requests between two readings, without types or users that had none."""
    none = (0, 0)
    changes = {
        key: (now[0] - before.get(key, none)[0], now[1] - before.get(key, none)[1]) for key, now in after.items()
    }
    return {key: change for key, change in changes.items() if change[0]}


def database_rpcs() -> tuple[int, int]:
    """Return the number of requests to slurmdbd and their microseconds since its start."""
    # DBD_SEND_MULT_MSG holds other requests, and slurmdbd counts each of these as well.
    text = call("sacctmgr", "show", "stats").partition("statistics by user")[0]
    rows = re.findall(r"^\s+DBD_(?!SEND_MULT_MSG)\w+\s*\(.*?\)\s*count:(\d+).*?total_time:(\d+)", text, re.MULTILINE)
    return sum(int(count) for count, _time in rows), sum(int(micros) for _count, micros in rows)


class Cost:
    """What slurmctld and slurmdbd spend between two moments."""

    def __init__(self) -> None:
        """Note the start."""
        self.types: Requests = {}
        self._begin = time.monotonic()
        self._cpu = {name: cpu_seconds(name) for name in ("slurmctld", "slurmdbd")}
        self._rpcs = rpcs()
        self._database = database_rpcs()

    def end(self) -> dict[str, float | int]:
        """Return processor seconds, and the number and the seconds of requests."""
        seconds = time.monotonic() - self._begin
        cpu = {f"{name}_cpu_s": cpu_seconds(name) - was for name, was in self._cpu.items()}
        self.types, database = added(self._rpcs, rpcs()), database_rpcs()
        return {
            "seconds": seconds,
            **cpu,
            "rpcs": sum(count for count, _micros in self.types.values()),
            "rpc_s": sum(micros for _count, micros in self.types.values()) / 1e6,
            "database_rpcs": database[0] - self._database[0],
            "database_rpc_s": (database[1] - self._database[1]) / 1e6,
        }


def submit(number: int, *more: str) -> tuple[str, int]:
    """Submit one small job; return its number and how often sbatch failed before. An sbatch can lose its connection."""
    options = ["--parsable", "--ntasks=1", "--mem=1", "--output=/dev/null", "--chdir=/tmp", f"--job-name=load{number}"]
    for failures in range(TRIES):
        with contextlib.suppress(BenchmarkError):
            return call("sbatch", *options, *more, "--wrap", "true").strip(), failures
    raise BenchmarkError(f"sbatch failed {TRIES} times")


def submitted_within(count: int, window: float, *more: str) -> list[tuple[str, int]]:
    """Submit so many jobs evenly within a window of seconds; return what submit() returns for each."""
    begin = time.monotonic()

    def paced(number: int) -> tuple[str, int]:
        time.sleep(max(0.0, begin + number * window / count - time.monotonic()))
        return submit(number, *more)

    with concurrent.futures.ThreadPoolExecutor(RUNNERS) as pool:
        return list(pool.map(paced, range(count)))


def many_jobs(count: int, window: float, timeout: float) -> dict[str, float | int]:
    """Submit so many jobs evenly within a window of seconds, and wait until slurmdbd knows the end of each."""
    cost, begin = Cost(), time.monotonic()
    found = submitted_within(count, window)
    jobs = [job for job, _failures in found]
    submitted = time.monotonic() - begin
    until("the queue is empty", timeout, lambda: not call("squeue", "--noheader", "--name", names_of(count)).strip())
    ended = time.monotonic() - begin
    until("all ends are recorded", timeout, lambda: recorded(jobs) == count, pause=1)
    rows = [line.split("|") for line in times_of(jobs)]
    bad = [row for row in rows if row[1] != "COMPLETED"]
    if bad:
        raise BenchmarkError(f"{len(bad)} of {count} jobs did not complete: {bad[0]}")
    waits = sorted(stamp(row[3]) - stamp(row[2]) for row in rows)
    return {
        "count": count,
        "submit_failures": sum(failures for _job, failures in found),
        "submitted_s": submitted,
        "ended_s": ended,
        "recorded_s": time.monotonic() - begin,
        "wait_median_s": waits[len(waits) // 2],
        "wait_longest_s": waits[-1],
        **{f"cost_{key}": value for key, value in cost.end().items()},
    }


def names_of(count: int) -> str:
    """Return the names of the jobs of submit()."""
    return ",".join(f"load{number}" for number in range(count))


def times_of(jobs: t.Sequence[str]) -> list[str]:
    """Return number, state, submission and start of each job, as slurmdbd knows them."""
    fields = "--format=JobIDRaw,State,Submit,Start"
    return call("sacct", "-n", "-P", "-X", "--allusers", fields, f"--jobs={','.join(jobs)}").splitlines()


def recorded(jobs: t.Sequence[str]) -> int:
    """Return the number of jobs whose end slurmdbd knows."""
    return sum(line.split("|")[1] not in ("PENDING", "RUNNING") for line in times_of(jobs))


def stamp(text: str) -> float:
    """Return the seconds of a time of Slurm."""
    return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))


class LongJob:
    """A job over all nodes with a step that runs while slurmctld is away."""

    def __init__(self, nodes: int, timeout: float) -> None:
        """Submit it and wait until its step runs on all nodes, which are on this machine."""
        step = f"srun --mpi=none --ntasks-per-node=1 {TASK}"
        options = ["--parsable", f"--nodes={nodes}", "--output=/dev/null", "--chdir=/tmp"]
        self.number = call("sbatch", *options, "--wrap", step).strip()
        # squeue names the step before its first task starts.
        until("the long job runs on all nodes", timeout, lambda: running(TASK) >= nodes)

    def check(self) -> None:
        """Raise an error unless the job still runs, in its first start."""
        text = call("scontrol", "show", "job", self.number)
        if "JobState=RUNNING" not in text or "Restarts=0" not in text:
            raise BenchmarkError(f"job {self.number} did not survive: {text.split()[:12]}")

    def end(self, timeout: float) -> float:
        """Cancel it; return the seconds until each of its nodes has ended it and slurmctld knows."""
        time.sleep(5)  # a slurmctld that has just started may lose the message, and sends it again after MessageTimeout
        call("scancel", self.number)
        return until("the long job ended", timeout, lambda: not call("squeue", "-h", "--jobs", self.number).strip())


def answers(host: str = "") -> bool:
    """Return whether a controller, or the one on a host, answers as the active one."""
    # While only a standby answers, a client sleeps for half of SlurmctldTimeout before it tries again.
    call("squeue", "--noheader", "--states=running", timeout=5)
    return not host or bool(re.search(rf"\w+\(\w+\) at {host} is UP", call("scontrol", "ping", timeout=5)))


def restart(nodes: int, job_nodes: int, timeout: float) -> dict[str, float]:
    """Restart slurmctld while a job runs; return the seconds until it answers, and until all nodes respond."""
    job, begin = LongJob(job_nodes, timeout), time.monotonic()
    call("systemctl", "restart", "slurmctld", timeout=timeout)
    until("slurmctld answers", timeout, answers)
    answered = time.monotonic() - begin
    until("all nodes respond", timeout, lambda: responding() >= nodes)
    result = {"answers_s": answered, "knows_all_nodes_s": time.monotonic() - begin}
    job.check()
    result["job_ends_on_all_nodes_s"] = job.end(timeout)
    return result


def responding() -> int:
    """Return the number of nodes that respond to the controller."""
    return len(call("sinfo", "-h", "-N", "--responding", "-t", "idle,alloc,mix", "-o", "%N", timeout=60).split())


def takeover(nodes: int, job_nodes: int, standby: str, timeout: float) -> dict[str, float]:
    """Kill slurmctld while a job runs; return the seconds until the standby has control, and of the way back."""
    job = LongJob(job_nodes, timeout)
    time.sleep(10)  # slurmctld writes its state every five seconds
    call("systemctl", "kill", "--signal=KILL", "slurmctld")
    call("systemctl", "stop", "slurmctld")
    result = {}
    begin = time.monotonic()
    until("the standby has control", timeout, lambda: answers(standby))
    result["standby_answers_s"] = time.monotonic() - begin
    until("the standby has heard of all nodes", timeout, lambda: responding() >= nodes)
    result["standby_knows_all_nodes_s"] = time.monotonic() - begin
    job.check()
    begin = time.monotonic()
    call("systemctl", "start", "slurmctld")
    until("the first has control", timeout, lambda: answers(os.uname().nodename))
    until("the first has heard of all nodes", timeout, lambda: responding() >= nodes)
    result["return_s"] = time.monotonic() - begin
    job.check()
    result["job_ends_on_all_nodes_s"] = job.end(timeout)
    return result
