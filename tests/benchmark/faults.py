"""
Run site.yml for many nodes, some of which are unreachable, hang, fail or flap, and interrupt it.

Usage: tests/benchmark/faults.py [-n 200] [--seed 22] [--runs faults stuck interrupted] [--clean SECONDS]
Healthy nodes are those of fleet.py. A node that is unreachable or hangs has the real ssh client: nothing listens at its
port, or something that accepts the connection and never answers. A flapping node loses its connection once.
In a run of its own, a module hangs on a node that answers. These nodes have nothing to change: interrupted.py
interrupts runs that change machines. --clean is the time of a run without faults, if it was measured before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import socket
import sys
import tempfile
import time
import typing as t
from pathlib import Path

import fleet  # type: ignore[import-not-found]

PLANTED = {"unreachable": 10, "hangs": 5, "fails": 3, "flaps": 1}
# Exit status of ansible-playbook if hosts failed or were unreachable; the last play decides which.
STATUS = (2, 4)
MORE_SECONDS = 120
# Time limit of a task in the run with a module that hangs.
TASK_SECONDS = 60
RUNS = ["faults", "stuck", "interrupted"]


class Outcome(t.NamedTuple):
    """Exit status, seconds, and the hosts that the summary says are not finished."""

    status: int
    seconds: float
    named: set[str]


def plant(nodes: int) -> dict[str, str]:
    """Return the fault of each host that has one; the first node has none, the second hangs."""
    kinds = [kind for kind, count in PLANTED.items() for _number in range(count)]
    hosts = ["gpu2", *(f"gpu{number}" for number in range(5, nodes, max(1, (nodes - 5) // len(kinds))))]
    return dict(zip(hosts, ["hangs", *(kind for kind in _without_one(kinds, "hangs"))]))


def _without_one(kinds: list[str], kind: str) -> list[str]:
    place = kinds.index(kind)
    return kinds[:place] + kinds[place + 1 :]


def inventory(nodes: int, folder: Path, faults: dict[str, str], port: int) -> dict[str, t.Any]:
    """Return the inventory of the fleet, in which some hosts are contacted with ssh."""
    found: dict[str, t.Any] = fleet.inventory(nodes, folder)
    hosts = found["all"]["children"]["lab"]["hosts"]
    for host, kind in faults.items():
        if kind in ("unreachable", "hangs"):
            closed = port if kind == "hangs" else 9
            hosts[host] = {"ansible_connection": "ssh", "ansible_host": "127.0.0.1", "ansible_port": closed}
    return found


@contextlib.contextmanager
def silent() -> t.Iterator[int]:
    """Yield a port that accepts connections and never answers."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(200)
        yield server.getsockname()[1]


def run(
    folder: Path, document: dict[str, t.Any], faults: dict[str, str], interrupt: float = 0, limit: int = 1800
) -> Outcome:
    """Run site.yml, in which no task takes longer than the limit; after so many seconds, interrupt it."""
    source, output = folder / "faults.json", folder / "output"
    source.write_text(json.dumps(document), encoding="utf-8")
    os.environ["FLEET_FAULTS"] = json.dumps(faults)
    begin = time.monotonic()
    with output.open("w") as stream:
        process = fleet.start(
            source, ["site.yml", "-e", f"gpucluster_task_seconds={limit}"], folder / "tasks.json", stream
        )
        if interrupt:
            time.sleep(interrupt)
            process.send_signal(signal.SIGINT)
        status = process.wait(timeout=3600)
    text = output.read_text(encoding="utf-8")
    return Outcome(status, time.monotonic() - begin, unfinished(text))


def unfinished(text: str) -> set[str]:
    """Return the hosts that the recap counts as failed or unreachable."""
    lines = re.findall(r"^(\S+)\s+: ok=\d+.*unreachable=(\d+)\s+failed=(\d+)", text, re.M)
    return {host for host, unreachable, failed in lines if int(unreachable) or int(failed)}


def judge(found: Outcome, clean: Outcome, faults: dict[str, str]) -> list[str]:
    """Return what is wrong with the run with faults."""
    wrong = []
    if found.status not in STATUS:
        wrong.append(f"the exit status is {found.status}, not one of {STATUS}")
    if missing := sorted(set(faults) - found.named):
        wrong.append(f"missing in the summary: {missing}")
    if more := sorted(found.named - set(faults)):
        wrong.append(f"healthy, but in the summary: {more}")
    if found.seconds > clean.seconds + MORE_SECONDS:
        wrong.append(f"it took {found.seconds:.0f} s, without faults {clean.seconds:.0f} s")
    return wrong


def say(what: str, found: Outcome) -> None:
    """Print the outcome of a run."""
    print(f"{what}: {found.seconds:.0f} s, status {found.status}, {len(found.named)} named", flush=True)


def interrupted(folder: Path, document: dict[str, t.Any], seconds: float, count: int, dice: random.Random) -> None:
    """Interrupt so many runs at random points."""
    for _number in range(count):
        after = dice.uniform(5, seconds)
        stopped = run(folder, document, {}, interrupt=after)
        print(f"interrupted after {after:.0f} s: status {stopped.status}", flush=True)


def main() -> int:
    """Run, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--nodes", type=int, default=200)
    parser.add_argument("--interruptions", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--runs", nargs="+", choices=RUNS, default=RUNS)
    parser.add_argument("--clean", type=float, default=0)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    wrong = []
    with tempfile.TemporaryDirectory() as name, silent() as port:
        folder = Path(name)
        healthy = inventory(options.nodes, folder, {}, port)
        run(folder, fleet.inventory(2, folder), {})
        clean = Outcome(0, options.clean, set()) if options.clean else run(folder, healthy, {})
        say("without faults", clean)
        if "faults" in options.runs:
            faults = plant(options.nodes)
            found = run(folder, inventory(options.nodes, folder, faults, port), faults)
            say("with faults", found)
            wrong += judge(found, clean, faults)
        if "stuck" in options.runs:
            stuck = run(folder, healthy, {"gpu3": "stuck"}, limit=TASK_SECONDS)
            say("with a module that hangs", stuck)
            wrong += judge(stuck, clean, {"gpu3": "stuck"})
        if "interrupted" in options.runs:
            interrupted(folder, healthy, clean.seconds, options.interruptions, random.Random(options.seed))
            again = run(folder, healthy, {})
            say("next run", again)
            wrong += ["the next run did not finish all nodes"] if again.status or again.named else []
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
