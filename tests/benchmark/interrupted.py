"""
Interrupt site.yml on the lab at random points, of a first run and of a change, and see the next run finish.

Usage: tests/benchmark/interrupted.py [--seed 22] [--points 5]
The machines of the lab are made anew. Each run is interrupted in a later part than the one before, because what an
earlier run has done is not done again. A run is interrupted as by a lost control node (SIGKILL to all of its processes)
or as by Ctrl-C (SIGINT). Then one run must finish, one must change nothing, and a user must run a job on all nodes.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import typing as t
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
sys.path.insert(0, str(CHECKOUT / "molecule/lifecycle/files"))

import kill_at  # type: ignore[import-not-found]  # noqa: E402

# Fewer tasks than site.yml starts on the lab (148 to 158), so that a point is in the run.
TASKS = 140
LONGEST_DELAY = 3.0
SECONDS = 1800
# A package and a user on each machine, a file of the health checks, and a key that slurmd and slurmctld read at start.
CHANGE: dict[str, t.Any] = {
    "base_packages": ["openmpi-bin", "python3-mpi4py", "jq"],
    "users_accounts": [{"name": name, "uid": 2001 + number} for number, name in enumerate(["alice", "bob", "carol"])],
    "health_checks": {name: {"enabled": False} for name in ("clock", "cpus", "filesystems", "memory")},
    "slurm_config": {"AuthInfo": "cred_expire=130"},
}


class Point(t.NamedTuple):
    """Where a run is interrupted: so many seconds after the start of a task, counted from 1."""

    task: int
    delay: float
    number: signal.Signals


class Outcome(t.NamedTuple):
    """Exit status, seconds, the last task that was started, and the number of changes by host."""

    status: int
    seconds: float
    task: str
    changed: dict[str, int]


def points(dice: random.Random, count: int) -> list[Point]:
    """Return one random point in each of so many equal parts of a run."""
    kinds = (signal.SIGKILL, signal.SIGINT)
    tasks = [dice.randint(TASKS * part // count + 1, TASKS * (part + 1) // count) for part in range(count)]
    return [Point(task, dice.uniform(0, LONGEST_DELAY), dice.choice(kinds)) for task in tasks]


def run(arguments: list[str], point: Point | None = None) -> Outcome:
    """Run site.yml, and interrupt it at a point."""
    begin, tasks, lines = time.monotonic(), [], []
    with subprocess.Popen(
        [str(BIN / "ansible-playbook"), "site.yml", *arguments],
        cwd=CHECKOUT,
        env={**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        for line in process.stdout or []:
            lines.append(line)
            tasks += re.findall(r"^TASK \[(.+?)\]", line)
            if point and len(tasks) == point.task and line.startswith("TASK "):
                time.sleep(point.delay)
                interrupt(process, point.number)
        status = process.wait(SECONDS)
    text = "".join(lines)
    if status and not point:
        print(text[-4000:])
    changed = {host: int(count) for host, count in re.findall(r"(?m)^(\S+) +: ok=\d+ +changed=(\d+)", text)}
    return Outcome(status, time.monotonic() - begin, tasks[-1] if tasks else "", changed)


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> None:
    """Kill all processes of a run, or interrupt it as a terminal does."""
    if number == signal.SIGKILL:
        kill_at.kill_tree(process.pid)
    else:
        os.killpg(process.pid, number)


def on_controller(command: str) -> str:
    """Return what a command on the controller prints, and show it."""
    argv = ["scripts/lab.sh", "ssh", "root@control", command]
    done = subprocess.run(argv, cwd=CHECKOUT, capture_output=True, text=True, check=False, timeout=180)
    print(f"{command}: status {done.returncode}, {done.stdout.split()} {done.stderr.strip()}", flush=True)
    return done.stdout


def job(user: str) -> list[str]:
    """Return the names that a job of a user on all nodes prints."""
    return sorted(on_controller(f"runuser --user={user} -- timeout 120 srun -N2 --chdir=/ hostname").split())


def phase(name: str, arguments: list[str], user: str, where: list[Point]) -> list[str]:
    """Interrupt a run at each point, let the next one finish, and return what is wrong."""
    wrong = []
    for point in where:
        found = run(arguments, point)
        what = f"{name}, {point.number.name} {point.delay:.1f} s after the start of task {point.task}"
        print(f"{what} [{found.task}]: status {found.status} after {found.seconds:.0f} s", flush=True)
        if found.changed or found.status == 0:
            wrong.append(f"{what}: the run was at its end")
    for title, most in (("next run", None), ("run after it", 0)):
        found = run(arguments)
        print(
            f"{name}, {title}: status {found.status} after {found.seconds:.0f} s, changed {found.changed}", flush=True
        )
        if found.status or not found.changed or (most is not None and any(found.changed.values())):
            wrong.append(f"{name}, {title}: status {found.status}, changed {found.changed}")
    if job(user) != ["gpu1", "gpu2"]:
        wrong.append(f"{name}: no job of {user} ended on both nodes")
    return wrong


def main() -> int:
    """Run, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6))
    parser.add_argument("--points", type=int, default=5)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    print(f"seed {options.seed}", flush=True)
    for playbook in ("lab_down.yml", "lab_up.yml"):
        command = [str(BIN / "ansible-playbook"), f"playbooks/{playbook}", "--extra-vars", "lab_remove_image=false"]
        subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)
    wrong = phase("first run", [], "alice", points(dice, options.points))
    wrong += phase("change", ["--extra-vars", json.dumps(CHANGE)], "carol", points(dice, options.points))
    if CHANGE["slurm_config"]["AuthInfo"] not in on_controller("scontrol show config | grep AuthInfo"):
        wrong.append("change: slurmctld does not have the changed key")
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
