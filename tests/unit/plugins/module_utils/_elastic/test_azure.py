# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What lists that lack machines, and a file that is lost or old, do to machines in Azure with jobs."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import Answer
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.azure import AzureCloud
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.cloud import Set
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.passes import Passes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.slurm import Slurm
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.state import Store
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.unit.support.elastic import ENDING, OFF, STARTING, UP, Clock, World

if t.TYPE_CHECKING:
    from pathlib import Path

GROUP = "/subscriptions/s/resourceGroups/hpc"
SCALE_SETS = f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets"
PLACE = {"subscription_id": "s", "resource_group": "hpc", "cluster": "hpc", "assignments": ""}
COUNT = 4  # nodes of each scale set
Body = dict[str, t.Any]


class Azure:
    """Two scale sets. A request for machines makes them at once; a deletion is noted and done."""

    def __init__(self) -> None:
        self.instances: dict[str, dict[int, str]] = {"hpc--a": {}, "hpc--a--2": {}}
        self.broken: set[str] = set()
        self.short: set[str] = set()  # names of instances and scale sets that lists lack
        self.deleted: list[str] = []
        self.failure: Body = {}  # the status of a broken instance
        self.next = 0

    def rows(self, path: str, _query: t.Any) -> list[Body]:
        tags = {"gpucluster_set": "a", "slurm_cluster": "hpc"}
        if path == SCALE_SETS:
            return [
                {"id": f"{path}/{name}", "name": name, "tags": tags, "sku": {"capacity": len(have)}}
                for name, have in self.instances.items()
                if name not in self.short
            ]
        name = path.split("/")[-2]
        return [self._row(number, host) for number, host in self.instances[name].items() if host not in self.short]

    def _row(self, number: int, host: str) -> Body:
        views = [{"code": "ProvisioningState/failed"}, {"code": "PowerState/running"}]
        views = [self.failure] if host in self.broken and self.failure else views[: 1 if host in self.broken else 2]
        return {
            "instanceId": str(number),
            "properties": {
                "provisioningState": "Failed" if host in self.broken else "Succeeded",
                "osProfile": {"computerName": host},
                "instanceView": {"statuses": views},
            },
        }

    def ask(self, method: str, path: str, _query: t.Any, body: Body) -> Answer:
        name = path.removesuffix("/delete").rpartition("/")[2]
        have = self.instances[name]
        if method == "PATCH":
            while len(have) < body["sku"]["capacity"]:
                have[self.next] = f"{name.replace('--', '-')}-{self.next:06d}"
                self.next += 1
            while len(have) > body["sku"]["capacity"]:  # Azure chooses
                self.deleted.append(have.pop(next(iter(have))))
        else:
            self.deleted += [have.pop(int(number)) for number in body["instanceIds"]]
        return Answer({}, None)


class Site:
    """A controller with the elastic set a, whose Slurm and Azure are made up."""

    def __init__(self, directory: Path) -> None:
        self.azure = Azure()
        self.world = World(directory, 2 * COUNT)
        self.clock = Clock(self.world)
        self.said: list[str] = []
        self.nodes = tuple(self.world.load()["nodes"])
        self.state = directory / "state.json"
        host = Host(self.world.run)
        store = Store(host, str(directory))
        self.published: dict[str, str] = {}
        one = Set("a", self.nodes, "azure", 0, {**PLACE, "instances_per_group": COUNT}, 10, 3)
        self._passes = Passes(
            [one],
            lambda wanted, memory: AzureCloud(
                t.cast("t.Any", self.azure), wanted, memory, lambda: store.save(memory), self._publish
            ),
            Slurm(host.run),
            store,
            self.said.append,
            clock=lambda: self.clock.now,
            sleep=self.clock.sleep,
        )

    def _publish(self, assigned: t.Mapping[str, str]) -> None:
        self.published = dict(assigned)

    def go(self, seconds: int) -> None:
        """Run the timer for some seconds."""
        for _turn in range(0, seconds, 30):
            self._passes.once()
            self.clock.now += 30

    def start(self, *nodes: str) -> None:
        """Let nodes get machines, which register with their host names, and run jobs."""
        self.world.set(STARTING, *nodes)
        self.go(60)
        hosts = {node: host for host, node in self.published.items()}
        self.world.set(UP, *nodes)
        self.world.change(hosts={**self.world.load().get("hosts", {}), **hosts}, jobs=list(nodes))
        self.go(60)

    def pairs(self) -> dict[str, str]:
        """Return the nodes of machines as the file has them."""
        return dict(self.published)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    found = Site(tmp_path)
    found.start("c1", "c2", "c5")
    assert found.pairs() == {"hpc-a-000000": "c1", "hpc-a-000001": "c2", "hpc-a-2-000002": "c5"}
    return found


@pytest.mark.parametrize("seconds", [30, 60, 600])
@pytest.mark.parametrize("lacks", ["hpc-a-000000", "hpc--a"])
@pytest.mark.parametrize("named", [True, False])
def test_a_list_that_lacks_machines_ends_no_machine_with_a_job(
    site: Site, lacks: str, seconds: int, named: bool
) -> None:
    before = site.pairs()
    if not named:
        site.world.change(hosts={})  # a Slurm that does not say with which names machines registered
    site.azure.short = {lacks}
    site.go(seconds)
    site.azure.short = set()
    site.go(600)

    assert (site.azure.deleted, site.world.load().get("requeued")) == ([], None)
    assert site.pairs() == before


@pytest.mark.parametrize("content", ["", "{", '{"assigned": {}}'])
def test_a_lost_file_ends_no_machine_and_is_made_again(site: Site, content: str) -> None:
    before = site.pairs()
    site.state.write_text(content, encoding="utf-8")
    site.go(600)

    assert (site.azure.deleted, site.world.load().get("requeued")) == ([], None)
    assert site.pairs() == before


def test_an_old_file_gives_no_node_the_machine_of_another(site: Site) -> None:
    old = site.state.read_text(encoding="utf-8")
    exchanged = old.replace('"c1"', '"x"').replace('"c2"', '"c1"').replace('"x"', '"c2"')
    assert exchanged != old
    site.state.write_text(exchanged, encoding="utf-8")
    site.world.set(ENDING, "c1")
    site.world.change(jobs=["c2", "c5"])
    site.go(120)

    assert site.azure.deleted == ["hpc-a-000000"]
    assert site.world.flags("c1") == OFF
    assert site.pairs() == {"hpc-a-000001": "c2", "hpc-a-2-000002": "c5"}


def test_a_lost_file_and_a_short_list_at_once(site: Site) -> None:
    """The machine of c2 is not listed, so a machine without a node might be its."""
    site.state.unlink()
    site.azure.short = {"hpc-a-000001"}
    site.azure.instances["hpc--a"][9] = "hpc-a-000009"
    site.go(600)
    assert site.azure.deleted == []

    site.azure.short = set()
    site.go(120)
    assert site.azure.deleted == ["hpc-a-000009"]


def test_a_machine_that_may_be_of_a_running_node_is_given_to_no_other(site: Site) -> None:
    site.state.unlink()
    site.world.change(hosts={})  # a Slurm that does not say with which names machines registered
    site.world.set(STARTING, "c3")
    site.go(120)

    assert site.azure.deleted == []
    assert "c3" not in site.pairs().values()
    assert any("may be the machine of c1" in line for line in site.said)


def test_nodes_belong_to_their_scale_set_also_if_the_list_lacks_another(site: Site) -> None:
    site.azure.short = {"hpc--a"}
    site.world.set(STARTING, "c6")
    site.go(60)

    assert site.pairs()["hpc-a-2-000003"] == "c6"


def test_a_failed_update_of_a_running_machine_is_no_broken_machine(site: Site) -> None:
    site.azure.broken = {"hpc-a-000000", "hpc-a-000007"}
    site.azure.instances["hpc--a"][7] = "hpc-a-000007"
    site.world.set(STARTING, "c3")
    site.go(60)

    assert site.azure.deleted == ["hpc-a-000007"]


def test_a_machine_that_azure_could_not_make_says_why(site: Site) -> None:
    site.azure.broken = {"hpc-a-000007"}
    site.azure.instances["hpc--a"][7] = "hpc-a-000007"
    site.azure.failure = {"code": "ProvisioningState/failed/AllocationFailed", "message": "Allocation failed."}
    site.world.set(STARTING, "c3")
    site.go(60)

    assert site.azure.deleted == ["hpc-a-000007"]
    assert "c3: AllocationFailed: Allocation failed; Azure has no free machines" in " ".join(site.said)


@pytest.mark.parametrize("lost", [False, True])
def test_a_short_list_beside_a_failure_leaves_azure_no_choice(site: Site, lost: bool) -> None:
    """A capacity below the number of machines lets Azure choose one with a job."""
    site.azure.broken.add("hpc-a-000003")
    site.world.set(STARTING, "c3")
    site.go(30)
    site.azure.short.add("hpc-a-000000")
    if lost:
        site.state.unlink()
    site.go(60)

    assert site.azure.deleted == ["hpc-a-000003"]


def test_two_nodes_that_claim_one_machine_end_it_for_nobody(site: Site) -> None:
    hosts = site.world.load()["hosts"]
    site.world.change(hosts={**hosts, "c1": hosts["c2"]}, jobs=[])
    text = site.state.read_text(encoding="utf-8").replace('"c2"', '"x"').replace('"c1"', '"c2"').replace('"x"', '"c1"')
    site.state.write_text(text, encoding="utf-8")
    site.world.set(ENDING, "c1")
    site.go(120)

    assert site.azure.deleted == []


def test_a_clock_that_is_set_and_a_reboot_shorten_no_grace(site: Site) -> None:
    site.azure.instances["hpc--a"][9] = "hpc-a-000009"
    site.go(60)
    content = json.loads(site.state.read_text(encoding="utf-8"))
    site.state.write_text(json.dumps({**content, "boot": "another"}), encoding="utf-8")
    site.go(30)
    assert site.azure.deleted == []
    site.clock.now += 10_000
    site.go(30)
    assert site.azure.deleted == []

    site.go(120)
    assert site.azure.deleted == ["hpc-a-000009"]


@pytest.mark.parametrize("value", [[[1]], [{}], [None, "c1"], {"c1": 1}, "c1", None, 1])
@pytest.mark.parametrize("name", ["seen", "held", "assigned", "operations", "known", "starting", "failed", "alarms"])
def test_a_damaged_file_stops_no_pass(site: Site, name: str, value: t.Any) -> None:
    """What is not understood counts as forgotten."""
    content = json.loads(site.state.read_text(encoding="utf-8"))
    site.state.write_text(json.dumps({**content, name: {"a": value, "set a": value}}), encoding="utf-8")
    site.start("c3")

    assert "c3" in site.pairs().values()
    assert site.azure.deleted == []
