#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Cost of the monitoring on the controller: from the answers of Slurm to the figures and the page, for many nodes.

Without options, it scales what Slurm once printed to 500 and 1,000 nodes. With --through COMMAND, such as
"podman exec gpucluster-lab99-control", it asks the slurmctld that answers there, and prints what the requests cost it.
Fails where a budget is missed.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import subprocess
import sys
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/unit/fixtures/slurm/24.11.5"
STYLES = [ROOT / "plugins/plugin_utils/_validation/report.css", ROOT / "roles/monitoring/files/status.css"]
FILES = {"scontrol": "scontrol-show-nodes", "squeue": "squeue", "sdiag": "sdiag"}
LONGEST = 2.0  # seconds of processor time from the answers to the page, 1,000 nodes
LARGEST = 1_000_000  # bytes of the page
JOBS = 4  # for each node
GPUS = 8
_RPC = re.compile(r"^\s+(REQUEST_\w+|MESSAGE_\w+)\s.*count:(\d+)\s.*total_time:(\d+)", re.MULTILINE)

Runner = t.Callable[[t.Sequence[str]], tuple[int, str, str]]
Requests = dict[str, tuple[int, int]]  # number and total microseconds by kind of request


def collections() -> None:
    """Let Python find the collection in this checkout."""
    path = os.environ.setdefault("ANSIBLE_COLLECTIONS_PATH", str(ROOT / ".collections"))
    sys.path.insert(0, path.split(":")[0])


def scaled(nodes: int) -> dict[str, str]:
    """Return what each command would print for so many nodes, with four jobs for each."""
    found = {name: json.loads((RECORDED / f"{file}.json").read_text(encoding="utf-8")) for name, file in FILES.items()}
    kinds, jobs = found["scontrol"]["nodes"], itertools.cycle(found["squeue"]["jobs"])
    whole = found["squeue"]["jobs"][0]  # the others have only what is read
    found["scontrol"]["nodes"] = [{**kinds[number % 2], "name": f"gpu{number}"} for number in range(nodes)]
    found["squeue"]["jobs"] = [
        {**whole, **next(jobs), "job_id": number, "user_name": f"user{number % 200}", "account": f"group{number % 20}"}
        for number in range(JOBS * nodes)
    ]
    return {name: json.dumps(value) for name, value in found.items()}


def utilisation(nodes: int) -> dict[tuple[str, str], float]:
    """Return the utilisation of each GPU."""
    return {(f"gpu{node}", f"nvidia{gpu}"): 90.0 for node in range(nodes) for gpu in range(GPUS)}


def measure(run: Runner, use: dict[tuple[str, str], float], clock: t.Callable[[], float]) -> dict[str, float]:
    """Return seconds of each step and bytes of what it made, and the number of nodes and jobs."""
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import live, page, slurm, text

    times = [clock()]
    state = slurm.read(run)
    times.append(clock())
    figures = text.render([*slurm.endpoint(state), *slurm.own(state)])
    times.append(clock())
    style = "".join(path.read_text(encoding="utf-8") for path in STYLES)
    shown = page.page(state, live.Live([], use), style, time.time(), "benchmark")
    times.append(clock())
    steps = [later - earlier for earlier, later in itertools.pairwise(times)]
    sizes = {"nodes": len(state.nodes), "jobs": len(state.jobs)}
    sizes.update(figures_bytes=len(figures.encode()), page_bytes=len(shown.encode()))
    return {**sizes, **dict(zip(("read", "figures", "page"), steps, strict=True)), "total": sum(steps)}


def faults(found: t.Mapping[str, float]) -> list[str]:
    """Return the budgets that are missed."""
    late = [f"{found['nodes']} nodes: {found['total']:.2f} s, budget {LONGEST} s"] if found["total"] > LONGEST else []
    size = found["page_bytes"]
    return [*late, *([f"{found['nodes']} nodes: {size} bytes, budget {LARGEST}"] if size > LARGEST else [])]


def through(prefix: str, seconds: float = 60) -> Runner:
    """Return a runner that starts commands by another command."""

    def run(args: t.Sequence[str]) -> tuple[int, str, str]:
        command = [*shlex.split(prefix), *args]
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        return done.returncode, done.stdout, done.stderr

    return run


def requests(run: Runner) -> Requests:
    """Return number and total microseconds of each kind of request that slurmctld has answered."""
    return {name: (int(count), int(total)) for name, count, total in _RPC.findall(run(["sdiag"])[1])}


def added(before: Requests, after: Requests) -> Requests:
    """Return what came between two readings."""
    none = (0, 0)
    changes = {
        name: (now[0] - before.get(name, none)[0], now[1] - before.get(name, none)[1]) for name, now in after.items()
    }
    return {name: change for name, change in changes.items() if change[0]}


def asked(prefix: str, idle: float) -> list[str]:
    """Measure against a slurmctld that answers; idle is the seconds of the reading without the monitoring."""
    run = through(prefix)
    before = requests(run)
    time.sleep(idle)
    alone = added(before, requests(run))
    before = requests(run)
    found = measure(run, {}, time.process_time)
    ours = added(before, requests(run))
    print(json.dumps(found))
    for title, some in ((f"slurmctld alone in {idle:.0f} s", alone), ("one collection", ours)):
        print(title, {name: f"{count} in {total} us" for name, (count, total) in sorted(some.items())})
    spent = sum(total for _count, total in ours.values()) / 60e6
    print(f"one collection a minute takes {spent:.4%} of the time of one thread of slurmctld")
    return faults(found)


def recorded() -> list[str]:
    """Measure with the recorded answers for 500 and 1,000 nodes."""
    missed = []
    for nodes in (500, 1000):
        answers = scaled(nodes)
        found = measure(lambda args: (0, answers[args[0]], ""), utilisation(nodes), time.process_time)  # noqa: B023
        print(json.dumps({name: round(value, 3) for name, value in found.items()}))
        missed += faults(found)
    return missed


def main() -> int:
    """Measure, print, and return 1 if a budget is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--through", help="command that starts a command of Slurm where slurmctld answers")
    parser.add_argument("--idle", type=float, default=60, help="seconds without the monitoring, to compare with")
    options = parser.parse_args()
    collections()
    missed = asked(options.through, options.idle) if options.through else recorded()
    print("\n".join(missed) or "every budget is met")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
