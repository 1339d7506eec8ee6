# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What emulated_slurmd.py measures of the monitoring: its passes, and its requests to slurmctld beside all others."""

from __future__ import annotations

import concurrent.futures
import os
import statistics
import subprocess
import time
import typing as t
import urllib.request
from pathlib import Path

from .emulated_controller import BenchmarkError, Cost, Requests, added, call, rpcs, submitted_within

METRICS = "/usr/local/sbin/gpucluster-metrics"
PAGE = Path("/run/gpucluster-status/gpucluster-status.html")
# What the collectors ask slurmctld. The health checks of the nodes ask for nodes, too, so each pass is counted alone.
READS = ("REQUEST_NODE_INFO", "REQUEST_PARTITION_INFO", "REQUEST_JOB_INFO", "REQUEST_STATS_INFO")


def scraped(url: str) -> tuple[float, int]:
    """Return the seconds and the bytes of one reading of an exporter."""
    begin = time.monotonic()
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=60) as answer:
        size = len(answer.read())
    return time.monotonic() - begin, size


class Pass(t.NamedTuple):
    """One pass of the collectors: its seconds, its processor seconds, its requests by type."""

    took: float
    spent: float
    types: Requests


class Minutes(t.NamedTuple):
    """Some measured minutes: requests by type and by user, processor seconds of slurmctld, passes of the collectors."""

    types: Requests
    users: Requests
    cpu: float
    passes: tuple[Pass, ...] = ()


def minute(load: int, timeout: float, collect: bool) -> Minutes:
    """Measure a minute in which so many jobs are submitted, with or without a pass of the collectors."""
    users, cost, begin = rpcs("user"), Cost(), time.monotonic()
    passes: list[Pass] = []
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        jobs = pool.submit(submitted_within, load, 50)
        time.sleep(10)
        if collect:
            passes.append(one_pass(timeout))
        jobs.result()
    time.sleep(max(0.0, begin + 60 - time.monotonic()))
    cpu = cost.end()["slurmctld_cpu_s"]
    return Minutes(cost.types, added(users, rpcs("user")), cpu, tuple(passes))


def one_pass(timeout: float) -> Pass:
    """Run the collectors."""
    before, begin = rpcs(), time.monotonic()
    process = subprocess.Popen(["timeout", f"{timeout}", METRICS])
    _pid, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise BenchmarkError(f"{METRICS} exited {process.returncode}")
    took, asked = time.monotonic() - begin, added(before, rpcs())
    # The first sdiag of this benchmark is in the second reading.
    count, micros = asked["REQUEST_STATS_INFO"]
    asked["REQUEST_STATS_INFO"] = (count - 1, micros * (count - 1) // count)
    return Pass(took, used.ru_utime + used.ru_stime, {name: asked[name] for name in READS if name in asked})


def together(found: t.Sequence[Minutes]) -> Minutes:
    """Return the sum of some minutes."""

    def total(parts: t.Iterable[Requests]) -> Requests:
        result: Requests = {}
        for name, (count, micros) in (item for part in parts for item in part.items()):
            known = result.get(name, (0, 0))
            result[name] = (known[0] + count, known[1] + micros)
        return result

    passes = tuple(each for one in found for each in one.passes)
    cpu = sum(one.cpu for one in found)
    return Minutes(total(one.types for one in found), total(one.users for one in found), cpu, passes)


def share(quiet: Minutes, watched: Minutes, minutes: int) -> dict[str, float]:
    """Return what the collectors add to slurmctld for each minute, and its share of the other requests' time."""
    own = [request for one in watched.passes for request in one.types.values()]
    micros = sum(time for _count, time in own)
    others = [one for name, one in quiet.types.items() if name != "REQUEST_STATS_INFO"]  # of this benchmark
    others_micros = sum(time for _count, time in others)
    return {
        "own_requests_a_minute": sum(count for count, _time in own) / minutes,
        "own_ms_a_minute": micros / 1e3 / minutes,
        "others_requests_a_minute": sum(count for count, _time in others) / minutes,
        "others_ms_a_minute": others_micros / 1e3 / minutes,
        "own_percent_of_others": 100 * micros / others_micros if others_micros else float("inf"),
        "own_percent_of_slurmctld_cpu": micros / 1e4 / quiet.cpu if quiet.cpu else float("inf"),
    }


def measure(minutes: int, load: int, timeout: float) -> dict[str, t.Any]:
    """Compare minutes with a pass of the collectors and minutes without, in turn, while so many jobs are submitted."""
    found: dict[bool, list[Minutes]] = {False: [], True: []}
    for _minute in range(minutes):
        for collect, parts in found.items():
            parts.append(minute(load, timeout, collect))
    quiet, watched = (together(parts) for parts in found.values())
    call("systemctl", "start", "prometheus-node-exporter")
    time.sleep(5)
    seconds, size = scraped(f"http://{os.uname().nodename}:9100/metrics")
    call("systemctl", "stop", "gpucluster-metrics.timer", "prometheus-node-exporter")
    return {
        "minutes": minutes,
        "jobs_a_minute": load,
        "collectors_and_page_median_s": statistics.median(one.took for one in watched.passes),
        "collectors_and_page_longest_s": max(one.took for one in watched.passes),
        "collectors_and_page_cpu_s": statistics.median(one.spent for one in watched.passes),
        "last_pass_count_us": watched.passes[-1].types,
        "page_kb": PAGE.stat().st_size // 1000,
        "scrape_s": seconds,
        "scrape_kb": size // 1000,
        **share(quiet, watched, minutes),
        "without_slurmctld_cpu_s": quiet.cpu,
        "with_slurmctld_cpu_s": watched.cpu,
        **{f"without_{name}_count_us": one for name, one in sorted({**quiet.types, **quiet.users}.items())},
        **{f"with_{name}_count_us": one for name, one in sorted({**watched.types, **watched.users}.items())},
    }
