# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Elastic nodes on the scale set that azure_up made, with the identity of the controller; Slurm is made up."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest
from patience import PATIENCE  # type: ignore[import-not-found]

ROOT = Path(__file__).resolve().parents[3]
SUBSCRIPTION = "11111111-0000-0000-0000-000000000000"
# The arguments: a directory and a word.
PROGRAM = """
import json, sys, time
from pathlib import Path
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic import cli
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.cloud import read_config
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.passes import Passes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.slurm import Slurm
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.state import Store
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.support.elastic import World
directory, word = sys.argv[1:]
world = World(Path(directory))
host, ticks = Host(world.run), []
def sleep(seconds):
    time.sleep(0.3)  # work: a pass takes a moment
    world.tick()
config = read_config((Path(directory) / "elastic.json").read_text(), "elastic.json")
store = Store(host, directory)
passes = Passes(config.sets, cli.clouds(host, store), Slurm(host.run), store, print, sleep=sleep)
passes.until_settled(PATIENCE) if word == "settle" else passes.once()
"""
OFF = ["IDLE", "CLOUD", "POWERED_DOWN"]
STARTING = ["ALLOCATED", "CLOUD", "POWERING_UP"]
UP = ["ALLOCATED", "CLOUD"]
Cluster = t.Any  # of conftest.py, which a plain checkout imports by another name


class Controller:
    """The controller of the cluster hpc with the elastic set h100 of 100 nodes."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory
        self.nodes = [f"n{number:03d}" for number in range(1, 101)]
        url = cluster.azure.url
        place = {"subscription_id": SUBSCRIPTION, "resource_group": "hpc", "cluster": "hpc", "client_id": ""}
        options = {**place, "resource_manager": url, "metadata": url, "instances_per_group": 100}
        one = {"name": "h100", "nodes": self.nodes, "provider": "azure", "min_count": 0}
        one.update(end_limit=10, start_limit=3)
        sets = [{**one, "options": {**options, "assignments": str(directory)}}]
        self._write("elastic.json", {"directory": str(directory), "sets": sets})
        self._write("world.json", {"nodes": {}, "machines": {}, "room": 0, "calls": []})
        self.set(OFF, *self.nodes)

    def _write(self, name: str, content: t.Any) -> None:
        (self.directory / name).write_text(json.dumps(content), encoding="utf-8")

    def read(self, name: str) -> t.Any:
        """Return the content of a file."""
        return json.loads((self.directory / name).read_text(encoding="utf-8"))

    def set(self, state: list[str], *nodes: str) -> None:
        """Set the state of nodes in Slurm."""
        world = self.read("world.json")
        world["nodes"].update({node: [state, ""] for node in nodes})
        self._write("world.json", world)

    def states(self, *nodes: str) -> list[str]:
        """Return the states of nodes in Slurm."""
        return ["+".join(self.read("world.json")["nodes"][node][0]) for node in nodes]

    def run(self, word: str) -> str:
        """Run the program and return what it logs."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        own = {"SSL_CERT_FILE": str(self.cluster.azure.certificate), "PYTHONPATH": str(ROOT / ".collections")}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(self.directory), word],
            env={**kept, **own},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def writes(self) -> list[str]:
        """Return the requests that changed something since the last call."""
        found = [line.partition(" ")[0] + line.partition("?")[0][-7:] for line in self.cluster.azure.writes()]
        self.cluster.azure.setting()
        return found


@pytest.fixture
def controller(cluster: Cluster, tmp_path: Path) -> Controller:
    """Return a controller; the scale set has two machines that no node has yet."""
    place = {"machine": {"subscriptionId": SUBSCRIPTION, "resourceGroupName": "hpc"}}
    cluster.azure.control(subscriptions=[{"id": SUBSCRIPTION}], faults=[], quota=False, imds=place)
    done = cluster.run("azure_up")
    assert done.rc == 0, done.out[-3000:]
    cluster.azure.setting()
    directory = tmp_path / "controller"
    directory.mkdir()
    return Controller(cluster, directory)


def test_a_hundred_nodes_come_by_one_request_and_go_by_name(controller: Controller) -> None:
    nodes = controller.nodes
    controller.set(STARTING, *nodes)
    said = controller.run("settle")

    assert controller.writes() == ["PATCHc--h100"], said
    assert controller.cluster.machines() == {"hpc--h100": 100}
    hosts = controller.read("h100.json")
    assert sorted(hosts.values()) == nodes
    assert hosts["hpc-h100-000000"] == "n001"
    controller.run("settle")
    assert controller.writes() == []

    controller.set(UP, *nodes)
    controller.set(["IDLE", "CLOUD", "POWERING_DOWN"], "n001", "n050")
    controller.run("settle")
    assert controller.writes() == ["POST/delete"]
    assert controller.cluster.machines() == {"hpc--h100": 98}
    assert controller.states("n001", "n050") == ["+".join(OFF)] * 2
    assert {"n001", "n050"}.isdisjoint(controller.read("h100.json").values())

    controller.set(STARTING, "n050")
    controller.run("settle")
    assert controller.cluster.machines() == {"hpc--h100": 99}
    assert sorted(controller.read("h100.json").values()) == nodes[1:]


NO_RIGHT = {"error": {"code": "AuthorizationFailed", "message": "does not have authorization"}}
AZURE = ROOT / "tests" / "unit" / "fixtures" / "azure"
FAILED = json.loads((AZURE / "operation_failed_overconstrained.json").read_text(encoding="utf-8"))
REFUSED = json.loads((AZURE / "refused_nested_allocation.json").read_text(encoding="utf-8"))
QUOTA = {"error": {"code": "OperationNotAllowed", "message": "exceeding approved standardNDSH100v5Family Cores quota"}}


@pytest.mark.parametrize(
    ("fault", "text"),
    [
        ("allocation_failed", "AllocationFailed: Allocation failed. We do not have sufficient capacity"),
        ({"match": "^PATCH", "status": 409, "body": QUOTA}, "Cores quota"),
        ({"match": "^PATCH", "status": 409, "body": REFUSED}, "409 AllocationFailed: Allocation failed. We do not"),
        (
            {"stage": "scale", "code": "ResourceOperationFailure", "message": json.dumps(FAILED)},
            "- VM Size; no place fits all constraints; try another zone or take fewer machines",
        ),
        ({"match": "^PATCH", "status": 403, "body": NO_RIGHT}, "azure_up.yml gives it"),
    ],
)
def test_nodes_that_azure_refuses_are_idle_again(controller: Controller, fault: t.Any, text: str) -> None:
    """The two machines that exist are used, so the third and fourth node get none."""
    controller.cluster.azure.faults(fault)
    controller.set(STARTING, "n001", "n002", "n003", "n004")

    said = controller.run("settle")

    assert text in said
    assert "2 nodes get no machine, back to idle~: n003, n004" in said
    assert controller.read("world.json")["requeued"] == ["n003", "n004"]
    assert controller.states("n003", "n004") == ["+".join(OFF)] * 2
    assert controller.cluster.machines() == {"hpc--h100": 2}


@pytest.mark.parametrize(
    "fault",
    [
        {"match": "^PATCH", "status": 429, "headers": {"Retry-After": "1"}, "body": {}, "times": 1},
        {"match": "^PATCH", "status": 409, "body": {"error": {"code": "Conflict", "message": "busy"}}, "times": 1},
        {"match": "^PATCH", "reset": True, "times": 1, "accept": True},
        {"match": "/operations/", "status": 404, "body": {"error": {"code": "NotFound"}}},
        {"match": "^GET .*virtualMachineScaleSets", "status": 503, "body": {}, "every": 3},
    ],
    ids=["429", "conflict", "lost answer", "lost operation", "server errors"],
)
def test_a_passing_fault_costs_no_node(controller: Controller, fault: dict[str, t.Any]) -> None:
    controller.cluster.azure.faults(fault)
    controller.set(STARTING, "n001", "n002", "n003", "n004")

    said = controller.run("settle")

    assert controller.cluster.machines() == {"hpc--h100": 4}, said
    assert sorted(controller.read("h100.json").values()) == ["n001", "n002", "n003", "n004"]
    assert "requeued" not in controller.read("world.json")
