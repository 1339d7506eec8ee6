"""
Measure what playbooks cost the control node for many nodes, without machines.

Usage: tests/benchmark/fleet.py [-n 30 100] [--runs site join health validate remove] [--json FILE]
       tests/benchmark/fleet.py --prove -n 4 [--runs ...]   only whether each run succeeds and changes nothing
The inventory is the lab's with as many nodes. The connection plugin `finished` answers each module as a node that is
configured completely. So all that is measured is Ansible and this collection on the control node.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import typing as t
from pathlib import Path

import yaml
from ansible.plugins.connection import ssh as ssh_connection

CHECKOUT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PLUGINS = Path(__file__).parent / "fleet_plugins"
# Programs that site.yml installs, with the module of this collection that each is built from.
PROGRAMS = {"/usr/local/bin/gpucluster-check": "_health.cli", "/usr/local/sbin/gpucluster-gpu-clocks": "_nvidia.boot"}
PINGS = 10
NEAR = 0.15
SITE = "site.yml"
# What is measured, by the name on the command line: a title, and the arguments of ansible-playbook.
RUNS = {
    "site": (SITE, [SITE]),
    "join": ("join one node", [SITE, "--limit", "gpu1"]),
    "health": ("health.yml", ["playbooks/health.yml"]),
    "validate": ("validate.yml, first stage", ["playbooks/validate.yml", "-e", '{"validate_stages": ["preflight"]}']),
    "remove": ("remove one node", ["playbooks/node_remove.yml", "-e", "node=gpu1"]),
}
# The machines that a run has to change.
CHANGES = {"remove": ("control", "gpu1")}


@dataclasses.dataclass
class Run:
    """One run: seconds, processor time in seconds, MiB of the largest process, and its tasks."""

    name: str
    nodes: int
    seconds: float
    cpu: float
    mib: float
    tasks: list[dict[str, t.Any]]

    def dearest(self) -> list[dict[str, t.Any]]:
        """Return the ten tasks with the most processor time, the highest first."""
        return sorted(self.tasks, key=lambda row: -row["cpu"])[:10]

    def changes(self, expected: tuple[str, ...] = ()) -> list[str]:
        """Return a line for each task that changed something, except on the control node and where it is expected."""
        rows = [(row["task"], sorted({*row["changed"]} - {"localhost", *expected})) for row in self.tasks]
        return [f"{task} changed {', '.join(hosts)}" for task, hosts in rows if hosts]


def inventory(nodes: int, folder: Path) -> dict[str, t.Any]:
    """Return hosts in addition to those of the lab; no host is contacted, and the folder is the cache."""
    # The address and the key are templates in the lab only; an inventory of a site has them as strings. Variables of a
    # host take precedence over those of the lab.
    key = {"ansible_ssh_private_key_file": str(folder / "key")}
    hosts = {
        f"gpu{number}": {"ansible_host": f"10.0.{number // 250}.{number % 250}", **key}
        for number in range(1, nodes + 1)
    }
    variables = {"ansible_connection": "finished", "pyxis_cache": str(folder), "slurm_cache": str(folder)}
    reports = {"validate_directory": str(folder / "reports")}
    return {
        "all": {
            "vars": reports,
            "children": {
                "lab": {"hosts": hosts, "vars": variables},
                "slurm_compute": {"hosts": {host: {} for host in hosts}},
            },
        }
    }


@functools.cache
def checksums() -> dict[str, str]:
    """Return the checksum of each program that a finished node has."""
    script = (
        "import hashlib, json, sys\n"
        "from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._programs import zipapp\n"
        "build = lambda entry: hashlib.sha1(zipapp.build(entry, '/usr/bin/python3')).hexdigest()\n"
        "print(json.dumps({path: build(entry) for path, entry in json.loads(sys.argv[1]).items()}))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT / ".collections")}
    command = [sys.executable, "-c", script, json.dumps(PROGRAMS)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return t.cast("dict[str, str]", json.loads(done.stdout))


def returned() -> dict[str, dict[str, t.Any]]:
    """Return for each module of this collection the keys that it returns in any case, with the empty value of each."""
    empty = {"bool": False, "dict": {}, "float": 0.0, "int": 0, "list": [], "str": ""}
    found = {}
    for path in (CHECKOUT / "plugins/modules").glob("[a-z]*.py"):
        text = re.search(r'^RETURN = r?"""(.*?)"""', path.read_text(encoding="utf-8"), re.M | re.S)
        keys = yaml.safe_load(text[1]) if text else {}
        found[f"ansible_collections.hpcai.gpucluster.plugins.modules.{path.stem}"] = {
            name: empty.get(key["type"])
            for name, key in (keys or {}).items()
            if re.match("always|success", str(key["returned"]))
        }
    return found


def connections(folder: Path) -> Path:
    """Return a directory with the connection plugin, documented with the options of ssh and the one of its own."""
    own = """
      gpucluster_fleet_host:
          description: Name of the host in the inventory.
          default: inventory_hostname
          vars: [{name: inventory_hostname}]
"""
    options = ssh_connection.DOCUMENTATION.replace("name: ssh\n", "name: finished\n", 1).replace(
        "    options:\n", f"    options:{own}", 1
    )
    path = folder / "connection/finished.py"
    path.parent.mkdir(exist_ok=True)
    code = (PLUGINS / "connection/finished.py").read_text(encoding="utf-8")
    path.write_text(f"{code}\n\nDOCUMENTATION = {options!r}\nRETURNED.update({returned()!r})\n", encoding="utf-8")
    return path.parent


def environment(source: Path, tasks: Path) -> dict[str, str]:
    """Return the environment of ansible-playbook; the callbacks write to the files."""
    nodes = json.loads(source.read_text(encoding="utf-8"))["all"]["children"]["slurm_compute"]["hosts"]
    return {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "ANSIBLE_CONFIG": str(CHECKOUT / "ansible.cfg"),
        "ANSIBLE_CONNECTION_PLUGINS": str(connections(tasks.parent)),
        "ANSIBLE_CALLBACK_PLUGINS": str(PLUGINS / "callback"),
        "ANSIBLE_CALLBACKS_ENABLED": "task_cpu",
        "FLEET_CHECKSUMS": json.dumps(checksums()),
        "FLEET_NODES": json.dumps(list(nodes)),
        "FLEET_TASKS": str(tasks),
        "XDG_CACHE_HOME": str(tasks.parent),  # the progress of these runs is not that of the user's
    }


def start(source: Path, arguments: list[str], tasks: Path, stream: t.IO[str]) -> subprocess.Popen[str]:
    """Start a playbook with the inventory of the lab and another one."""
    command = [str(BIN / "ansible-playbook"), "-i", "inventories/lab", "-i", str(source), *arguments]
    return subprocess.Popen(
        command,
        cwd=CHECKOUT,
        env=environment(source, tasks),
        stdout=stream,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(name: str, nodes: int, arguments: list[str], folder: Path) -> Run:
    """Run a playbook against so many nodes and measure it; ends this program, with the reasons, if a task fails."""
    source, tasks, output = folder / "fleet.json", folder / "tasks.json", folder / "output"
    tasks.unlink(missing_ok=True)
    source.write_text(json.dumps(inventory(nodes, folder)), encoding="utf-8")
    begin = time.monotonic()
    with output.open("w") as stream:
        _pid, status, used = os.wait4(start(source, arguments, tasks, stream).pid, 0)
    seconds = time.monotonic() - begin
    rows = json.loads(tasks.read_text(encoding="utf-8")) if tasks.exists() else []
    faults = [f"{row['task']} on {host}: {why}" for row in rows for host, why in row["failed"].items()]
    if status or faults:
        said = output.read_text(encoding="utf-8")[-6000:]
        sys.exit(
            "\n".join(
                [said, f"{name} with {nodes} nodes failed, exit status {os.waitstatus_to_exitcode(status)}", *faults]
            )
        )
    return Run(name, nodes, seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, rows)


def floor(folder: Path) -> Path:
    """Return a playbook of pings: what Ansible costs for each task of a host, whatever the task is."""
    ping = {"name": "Ping", "ansible.builtin.ping": {}}
    path = folder / "floor.json"
    path.write_text(json.dumps([{"hosts": "slurm_compute", "gather_facts": False, "tasks": [ping] * PINGS}]), "utf-8")
    return path


def empty(run_of_site: Run, folder: Path) -> Path:
    """Return a playbook with as many plays and tasks of each node as a run had: pings, and tasks that are skipped."""
    plays: list[dict[str, t.Any]] = []
    for row in run_of_site.tasks:
        if row["task"].startswith("PLAY "):
            plays.append({"hosts": "slurm_compute", "gather_facts": False, "tasks": []})
        elif row["ran"] + row["skipped"] >= run_of_site.nodes:
            condition = {} if row["ran"] >= run_of_site.nodes else {"when": False}
            plays[-1]["tasks"].append({"name": row["task"], "ansible.builtin.ping": {}, **condition})
    path = folder / "empty.json"
    path.write_text(json.dumps([play for play in plays if play["tasks"]]), "utf-8")
    return path


def slopes(runs: list[Run]) -> list[float]:
    """Return the processor time of one more node between each two sizes, in seconds."""
    return [(after.cpu - before.cpu) / (after.nodes - before.nodes) for before, after in zip(runs, runs[1:])]


def shape(found: list[float]) -> str:
    """Return whether the cost of one more node grows by 15 % at most, which takes three sizes to know."""
    if len(found) < 2:
        return "three sizes show whether it is linear"
    if max(found) <= (1 + NEAR) * min(found):
        return "linear"
    return "NOT LINEAR" if max(found) > (1 + NEAR) * found[0] else "falls"


def show(runs: list[Run]) -> None:
    """Print the figures of one playbook."""
    print(f"\n{runs[0].name}")
    print(f"  {'nodes':>6} {'seconds':>8} {'CPU s':>8} {'CPU s/node':>11} {'MiB':>6}")
    for one in runs:
        print(f"  {one.nodes:>6} {one.seconds:>8.1f} {one.cpu:>8.1f} {one.cpu / one.nodes:>11.3f} {one.mib:>6.0f}")
    found = slopes(runs)
    if found:
        print(f"  CPU s for one more node: {', '.join(f'{slope:.3f}' for slope in found)} ({shape(found)})")
    print("  dearest tasks of the last run: CPU s, hosts that ran and skipped it, CPU ms per host")
    for row in runs[-1].dearest():
        hosts = row["ran"] + row["skipped"]
        each = f"{1000 * row['cpu'] / hosts:>7.1f}" if hosts else f"{'':>7}"
        print(f"  {row['cpu']:>8.2f} {row['ran']:>5} {row['skipped']:>5} {each}  {row['task']}")


def prove(nodes: int, names: list[str]) -> int:
    """Run each playbook once, print a line for each, and return 1 if one changed what was finished."""
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        run("first run, which fills the cache", nodes, [SITE, "--limit", "slurm_controller"], Path(folder))
        for name in names:
            title, arguments = RUNS[name]
            expected = CHANGES.get(name, ())
            changes = run(title, nodes, arguments, Path(folder)).changes(expected)
            unchanged = f"nothing changed{' but ' if expected else ''}{' and '.join(expected)}"
            print(f"{title}, {nodes} nodes: {'; '.join(changes) or unchanged}", flush=True)
            status |= bool(changes)
    return status


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", "--nodes", type=int, nargs="+", default=[30, 100])
    parser.add_argument("--runs", nargs="+", choices=list(RUNS), help="default: site join; with --prove, all")
    parser.add_argument("--prove", action="store_true", help="only whether each run succeeds and changes nothing")
    parser.add_argument("--json", type=Path, default=CHECKOUT / "tests/output/benchmark-fleet.json")
    options = parser.parse_args()
    chosen = options.runs or (list(RUNS) if options.prove else ["site", "join"])
    if options.prove:
        return prove(options.nodes[0], chosen)

    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run("first run, which fills the cache", 2, [SITE], folder)
        for title, arguments in [("floor: a ping", [str(floor(folder))]), *(RUNS[name] for name in chosen)]:
            runs = [run(title, nodes, arguments, folder) for nodes in options.nodes]
            show(runs)
            found += runs
            if title == SITE:
                title = "site.yml with empty tasks: its floor"
                runs = [run(title, nodes, [str(empty(runs[-1], folder))], folder) for nodes in options.nodes]
                show(runs)
                found += runs
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps([dataclasses.asdict(one) for one in found], indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
