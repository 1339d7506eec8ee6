"""Measure site.yml on the lab against the budgets of docs/design.md: tasks for each host, seconds, slowest tasks.

Usage: make bench, or tests/benchmark/site.py [--inventory inventories/lab] [--fresh] [--json FILE]
With --fresh the lab's machines are made anew first, so that the first run starts from bare machines.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import json
import os
import subprocess
import sys
import tempfile
import typing as t
from pathlib import Path

from ansible_runner import interface as ansible_runner

CHECKOUT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent

# docs/design.md, "Budgets": tasks executed for each compute node and controller, and seconds of a run with Slurm's
# packages built. A first run of a controller has no budget: what it installs depends on the inventory.
BUDGETS = {
    "first": {"node": 60, "controller": 0, "seconds": 150},
    "second": {"node": 25, "controller": 60, "seconds": 25},
}
GROUPS = {"node": "slurm_compute", "controller": "slurm_controller"}
DONE = ("runner_on_ok", "runner_on_failed", "runner_on_unreachable")


@dataclasses.dataclass
class Measurement:
    """What one run of site.yml took."""

    name: str
    seconds: float
    tasks: dict[str, int]
    changed: dict[str, int]
    plays: list[tuple[str, float]]
    slowest: list[tuple[str, float]]

    def over_budget(self, machines: dict[str, list[str]]) -> list[str]:
        """Return what is over its budget; O(machines) are those of each kind."""
        budget = BUDGETS[self.name]
        over = []
        for kind, hosts in machines.items():
            most = max((self.tasks.get(host, 0) for host in hosts), default=0)
            if 0 < budget[kind] < most:
                over.append(f"{self.name} run: {most} tasks on a {kind}, budget {budget[kind]}")
        if self.seconds > budget["seconds"]:
            over.append(f"{self.name} run: {self.seconds:.0f} s, budget {budget['seconds']} s")
        if self.name == "second" and any(self.changed.values()):
            over.append(f"second run: changed {self.changed}, budget 0 everywhere")
        return over


def measure(name: str, events: list[dict[str, t.Any]]) -> Measurement:
    """Add up the events of one run."""
    tasks: collections.Counter[str] = collections.Counter()
    changed: collections.Counter[str] = collections.Counter()
    took: dict[str, float] = {}
    starts: list[tuple[str, datetime.datetime]] = []
    for event in events:
        data = event.get("event_data", {})
        if event["event"] == "playbook_on_play_start":
            starts.append((data["name"], _when(event)))
        elif event["event"] in DONE:
            tasks[data["host"]] += 1
            changed[data["host"]] += bool(data.get("res", {}).get("changed"))
            took[data["task"]] = max(took.get(data["task"], 0), data.get("duration", 0))
    end = _when(events[-1])
    ends = [when for __, when in starts[1:]] + [end]
    plays = [(play, (after - when).total_seconds()) for (play, when), after in zip(starts, ends)]
    slowest = sorted(took.items(), key=lambda item: -item[1])[:10]
    return Measurement(name, (end - _when(events[0])).total_seconds(), dict(tasks), dict(changed), plays, slowest)


def _when(event: dict[str, t.Any]) -> datetime.datetime:
    return datetime.datetime.fromisoformat(event["created"])


def run(name: str, inventory: Path) -> Measurement:
    """Run site.yml and measure it."""
    with tempfile.TemporaryDirectory() as folder:
        result = ansible_runner.run(
            private_data_dir=folder,
            project_dir=str(CHECKOUT),
            playbook=str(CHECKOUT / "site.yml"),
            inventory=str(inventory),
            envvars={"ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"), "PATH": f"{BIN}:{os.environ['PATH']}"},
            quiet=True,
        )
        if result.status != "successful":
            sys.stderr.write(result.stdout.read()[-4000:])
            sys.exit(f"site.yml: {result.status}")
        return measure(name, list(result.events))


def show(measurements: list[Measurement], machines: dict[str, list[str]]) -> None:
    """Print the figures."""
    for one in measurements:
        budget = BUDGETS[one.name]
        print(f"\n{one.name} run: {one.seconds:.1f} s (budget {budget['seconds']} s)")
        for host, count in sorted(one.tasks.items()):
            limits = [budget[kind] for kind, hosts in machines.items() if host in hosts and budget[kind]]
            limit = f" (budget {min(limits)})" if limits else ""
            print(f"  {host:<20} {count:>4} tasks{limit}, {one.changed.get(host, 0)} changed")
        print("  plays:")
        for play, seconds in one.plays:
            print(f"    {seconds:>7.1f} s  {play}")
        print("  slowest tasks:")
        for task, seconds in one.slowest:
            print(f"    {seconds:>7.1f} s  {task}")


def main() -> int:
    """Measure, print, write and judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inventory", type=Path, default=CHECKOUT / "inventories/lab")
    parser.add_argument("--fresh", action="store_true", help="make the lab's machines anew first")
    parser.add_argument("--json", type=Path, default=CHECKOUT / "tests/output/benchmark-site.json")
    options = parser.parse_args()

    if options.fresh:
        for playbook in ("lab_down.yml", "lab_up.yml"):
            command = [str(BIN / "ansible-playbook"), f"playbooks/{playbook}", "--extra-vars", "lab_remove_image=false"]
            subprocess.run(command, cwd=CHECKOUT, check=True, stdout=subprocess.DEVNULL)
    groups = subprocess.run(
        [str(BIN / "ansible-inventory"), "--inventory", str(options.inventory), "--list"],
        cwd=CHECKOUT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    found = json.loads(groups)
    machines = {kind: found.get(group, {}).get("hosts", []) for kind, group in GROUPS.items()}

    measurements = [run(name, options.inventory) for name in (["first", "second"] if options.fresh else ["second"])]
    show(measurements, machines)
    over = [line for one in measurements for line in one.over_budget(machines)]
    options.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"runs": [dataclasses.asdict(one) for one in measurements], "over_budget": over}
    options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(f"\n{options.json}")
    for line in over:
        print(f"OVER BUDGET: {line}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
