#!/usr/bin/env python
# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Time from an inventory to slurm.conf, gres.conf and topology.conf for many nodes, without a machine.

Prints a table, writes JSON with --json, and fails where a step takes longer than its budget. The texts are rendered
twice: by Ansible's templating with the variables of the playbooks and of role slurm, as a run of site.yml does, and by
the bare functions.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import typing as t
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUDGET = 1.0
SIZES = ("Standard_ND96isr_H100_v5", "Standard_ND96amsr_A100_v4")
HOSTS_OF_LEAF = 32
HOSTS_OF_SPINE = 512


def collections() -> None:
    """Let Python and Ansible find the collection in this checkout."""
    path = ROOT / ".collections"
    os.environ.setdefault("ANSIBLE_COLLECTIONS_PATH", str(path))
    sys.path.insert(0, os.environ["ANSIBLE_COLLECTIONS_PATH"].split(":")[0])
    from ansible.plugins.loader import init_plugin_loader

    init_plugin_loader([])  # before anything of the collection is imported


class Watch:
    """Seconds of each step."""

    def __init__(self) -> None:
        self.rows: list[dict[str, t.Any]] = []

    def __call__(self, name: str, budget: float | None, step: t.Callable[[], t.Any]) -> t.Any:
        """Run a step and note how long it took."""
        start = time.process_time()  # what others do on the machine does not count
        result = step()
        seconds = time.process_time() - start
        lines = result.count("\n") if isinstance(result, str) else None
        self.rows.append({"step": name, "seconds": round(seconds, 3), "budget": budget, "lines": lines})
        return result

    def total(self, name: str, budget: float, steps: t.Sequence[str]) -> None:
        """Add the sum of steps."""
        seconds = sum(row["seconds"] for row in self.rows if row["step"] in steps)
        self.rows.append({"step": name, "seconds": round(seconds, 3), "budget": budget, "lines": None})

    def late(self) -> list[dict[str, t.Any]]:
        """Return the steps that took longer than their budget."""
        return [row for row in self.rows if row["budget"] and row["seconds"] > row["budget"]]


def inventory_text(count: int) -> str:
    """Return an inventory of so many nodes of two sizes, with a place for each."""
    half = count // 2
    groups = ((1, half, SIZES[0]), (half + 1, count, SIZES[1]))
    lines = ["[slurm_controller]", "control", "[slurm_compute:children]", "size0", "size1"]
    for number, (first, last, size) in enumerate(groups):
        lines += [f"[size{number}]", f"gpu[{first}:{last}]", f"[size{number}:vars]", f"gpucluster_vm_size={size}"]
    return "\n".join(lines) + "\n"


def place(number: int) -> str:
    """Return the switches of one node."""
    return f"spine{(number - 1) // HOSTS_OF_SPINE}/leaf{(number - 1) // HOSTS_OF_LEAF}"


def bare(watch: Watch, count: int) -> None:
    """Render with nothing but the functions."""
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import (
        actions,
        check,
        conf,
        hostlist,
        topology,
    )

    names = [f"gpu{number}" for number in range(1, count + 1)]
    places = {f"gpu{number}": place(number) for number in range(1, count + 1)}
    nodes = [{"NodeName": names, "CPUs": 96, "RealMemory": 1900000, "Gres": "gpu:h100:8"}]
    lines = conf.collect(nodes, [{"PartitionName": "batch", "Nodes": "ALL"}])
    config = {"ClusterName": "bench", "GresTypes": ["gpu"]}
    cpus = {"sockets": 2, "cores_per_socket": 48, "threads_per_core": 1}
    record = {"cpus": cpus, "memory_mib": 1900000, "gpus": {"count": 8, "model": "H100"}}
    text = watch("slurm.conf, functions", BUDGET, lambda: conf.render(config, lines))
    watch("topology.conf, functions", BUDGET, lambda: topology.render(places, "tree", known=names))
    cluster = check.Cluster(config, lines, records={hostlist.compress(names): record})
    found = watch("problems of slurm.conf, functions", BUDGET, lambda: check.problems(cluster))
    before = text.replace(hostlist.compress(names), hostlist.compress(names[:-1]))
    act = watch(
        "action for one more node, functions", BUDGET, lambda: actions.action(before, text, "slurm.conf", "26.05")
    )
    if found or act["reasons"] != [f"nodes added: gpu{count}"]:
        raise SystemExit(f"the functions are wrong: {found} {act}")


def templated(watch: Watch, count: int, work: Path) -> None:
    """Render as a run of site.yml does, with the variables of the playbooks and of the role."""
    from ansible.inventory.manager import InventoryManager
    from ansible.parsing.dataloader import DataLoader
    from ansible.template import Templar, trust_as_template
    from ansible.vars.hostvars import HostVars
    from ansible.vars.manager import VariableManager

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import slurm_checks
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import files

    loader = DataLoader()
    path = work / "bench.ini"
    path.write_text(inventory_text(count), encoding="utf-8")
    inventory = watch("read the inventory", None, lambda: InventoryManager(loader=loader, sources=[str(path)]))
    manager = VariableManager(loader=loader, inventory=inventory)
    variables: dict[str, t.Any] = {}
    for file in ("playbooks/vars/cluster.yml", "roles/slurm/defaults/main.yml", "roles/slurm/vars/main.yml"):
        variables |= loader.load_from_file(str(ROOT / file), trusted_as_template=True)
    variables |= manager.get_vars(host=inventory.get_host("control"))
    variables["hostvars"] = HostVars(inventory, manager, loader)
    variables["slurm_database"] = "control"
    variables["slurm_topology_plugin"] = "tree"
    variables["slurm_topology"] = {f"gpu{number}": place(number) for number in range(1, count + 1)}
    templar = Templar(loader=loader, variables=variables)

    def render(expression: str) -> t.Any:
        return templar.template(trust_as_template("{{ " + expression + " }}"))

    variables["slurm_nodes"] = watch("group the nodes by hardware, templated", None, lambda: render("slurm_nodes"))
    templar.available_variables = variables
    inputs = watch("inputs of the role, templated", BUDGET, lambda: plain(render("__slurm_all_inputs")))
    text = watch("all files of a controller", BUDGET, lambda: "".join(files.texts(inputs, True).values()))
    found = watch("problems of all inputs", None, lambda: slurm_checks.problems(inputs))
    if found or text.count("[1-") < len(("slurm.conf", "gres.conf", "topology.conf")):
        raise SystemExit(f"the texts are wrong: {found} {text}")
    steps = ["inputs of the role, templated", "all files of a controller"]
    watch.total("all files of a controller, templated", BUDGET, steps)


def main() -> int:
    """Measure, print and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=10_000, help="number of nodes (10000)")
    parser.add_argument("--json", type=Path, help="file to write the figures to")
    arguments = parser.parse_args()
    collections()
    watch = Watch()
    bare(watch, arguments.nodes)
    with tempfile.TemporaryDirectory() as work:
        templated(watch, arguments.nodes, Path(work))
    print(f"{arguments.nodes} nodes")
    for row in watch.rows:
        limit = f"{row['budget']:.1f}" if row["budget"] else "-"
        print(f"{row['step']:<55} {row['seconds']:>8.3f} s  budget {limit:>4}  lines {row['lines'] or '-'}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"nodes": arguments.nodes, "steps": watch.rows}, indent=2) + "\n")
    for row in watch.late():
        print(f"over budget: {row['step']}: {row['seconds']} s, {row['budget']} s allowed", file=sys.stderr)
    return 1 if watch.late() else 0


if __name__ == "__main__":
    sys.exit(main())
