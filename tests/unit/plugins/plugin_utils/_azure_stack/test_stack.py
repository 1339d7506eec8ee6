# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The life of a stack at the stand-in without a network: every order of requests, every interruption, every owner."""

from __future__ import annotations

import contextlib
import copy
import json
import re
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import SlowError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError, ConfigError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.session import Session
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.stack import Stack, StackError, Wanted
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.writer import Writer
from ansible_collections.hpcai.gpucluster.tests.azure_server import faults
from ansible_collections.hpcai.gpucluster.tests.azure_server.client import SUBSCRIPTION
from ansible_collections.hpcai.gpucluster.tests.azure_server.example import GROUP_ID, TEMPLATE
from ansible_collections.hpcai.gpucluster.tests.azure_server.faults import NAMED
from ansible_collections.hpcai.gpucluster.tests.azure_server.service import Direct
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE

GOLDEN = sorted((Path(__file__).parents[3] / "fixtures/azure_templates").glob("*.json"))
_READS = re.compile(r"GET|POST \S*/(whatIf|validate|exportTemplate)\b")


class Killed(BaseException):
    """The run ends without a chance to do anything."""


class Case:
    """One subscription at the stand-in."""

    def __init__(self, *wanted: t.Any, **spec: t.Any) -> None:
        self.direct = Direct(subscriptions=[{"id": SUBSCRIPTION}], faults=list(wanted), **spec)
        self.template = copy.deepcopy(TEMPLATE)
        self.asked: list[str] = []
        self.kill: tuple[int, bool] | None = None
        self.unjudged = False  # whether what-if judges no resource that exists

    def __call__(self, method: str, url: str, body: t.Any) -> t.Any:
        """Send a request, or die before or after it."""
        self.asked.append(f"{method} {url.partition('?')[0].partition(SUBSCRIPTION)[2]}")
        number, sent = self.kill or (-1, False)
        dies = len(self.asked) == number
        if dies and not sent:
            raise Killed
        answer = self.direct(method, url, body)
        if self.unjudged and "/whatIf?" in url:
            status, headers, content = answer
            answer = (
                status,
                headers,
                content.replace(b'"Modify"', b'"Unsupported"').replace(b'"NoChange"', b'"Unsupported"'),
            )
        if dies:
            raise Killed
        return answer

    def stack(self, check: bool = False, seconds: float = PATIENCE, **more: t.Any) -> Stack:
        self.asked.clear()
        client = Client(self, "https://azure.test")
        # Where Azure does not say when to ask again, the writer waits for seconds; the stand-in is done at once.
        writer = Writer(client, Deadline(seconds), sleep=lambda pause: time.sleep(min(pause, 0.02)))
        session = Session(client, writer, SUBSCRIPTION, None)
        given = {
            "name": "training",
            "cluster": "training",
            "resource_group": "training-rg",
            "location": "southcentralus",
        }
        wanted = Wanted(**{**given, "template": self.template, "tags": {"owner": "x"}, **more})
        return Stack(session, wanted, check, lambda _seconds: None)

    def up(self, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
        return self.stack(check, **more).present()

    def down(self, check: bool = False, **more: t.Any) -> dict[str, t.Any]:
        return self.stack(check, **more).absent()

    def writes(self) -> list[str]:
        return [one for one in self.asked if not _READS.match(one)]

    def left(self) -> list[str]:
        """Return what the subscription holds."""
        self.direct.state.settle()
        found = self.direct.state.contents()[SUBSCRIPTION]
        return [*found["groups"], *(one.rpartition("/providers/")[2] for one in found["resources"])]

    def resource(self, kind: str) -> dict[str, t.Any]:
        return next(one for one in self.template["resources"] if one["type"].endswith(kind))

    def store(self) -> t.Any:
        return self.direct.state.stores[SUBSCRIPTION]

    def held(self, kind: str = "Resources/deploymentStacks", name: str = "training") -> dict[str, t.Any]:
        """Return a resource as Azure holds it; without arguments, the stack."""
        return t.cast("dict[str, t.Any]", self.store().resources[held_as(kind, name)])

    def instances(self) -> int:
        return len(next(iter(self.direct.state.subscriptions[0].instances.values())))


def held_as(kind: str = "Resources/deploymentStacks", name: str = "training") -> str:
    return f"{GROUP_ID}/providers/Microsoft.{kind}/{name}".lower()


def names(result: dict[str, t.Any]) -> list[tuple[str, str]]:
    return [(one["change"], one["name"]) for one in result["changes"]]


def test_up_and_up_again() -> None:
    case = Case()

    first = case.up()
    writes = case.writes()
    second = case.up()

    assert first["changed"]
    assert writes == ["PUT /resourceGroups/training-rg", f"PUT {STACK}"]
    assert (second["changed"], second["changes"], case.writes(), len(case.asked)) == (False, [], [], 3)
    assert second["outputs"] == first["outputs"] != {}
    assert second["warnings"] == []
    assert case.instances() == 2


STACK = "/resourceGroups/training-rg/providers/Microsoft.Resources/deploymentStacks/training"


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_the_template_of_each_vm_size_goes_up_stays_and_goes(path: Path) -> None:
    case = Case()
    text = path.read_text(encoding="utf-8")
    group = re.search(r"/subscriptions/[0-9a-f-]{36}/resourceGroups/[^/\"]+", text)
    assert group
    case.template = json.loads(text.replace(group[0], GROUP_ID))

    first, second = case.up(cluster="hpc"), case.up(cluster="hpc")
    requests = len(case.asked)
    case.down(cluster="hpc")

    assert len(first["changes"]) == 1 + len(case.template["resources"])
    assert (second["changes"], second["warnings"], requests) == ([], [], 3)
    assert case.left() == []


def test_check_mode_lists_everything_of_a_new_cluster_and_writes_nothing() -> None:
    case = Case()

    found = case.up(check=True)

    assert case.writes() == []
    assert case.left() == []
    expected = [("Create", "training-rg"), *(("Create", one["name"]) for one in TEMPLATE["resources"])]
    assert names(found) == expected


def test_check_mode_of_a_change_and_of_the_removal_write_nothing() -> None:
    case = Case()
    case.up()
    before = case.left()
    case.resource("virtualMachines")["properties"]["hardwareProfile"]["vmSize"] = "Standard_D16s_v5"

    change, absent = case.up(check=True), case.down(check=True)

    assert change["changes"][0]["properties"] == [
        {"path": "properties.hardwareProfile.vmSize", "before": "Standard_D8s_v5", "after": "Standard_D16s_v5"}
    ]
    assert ("Delete", "training-rg") in names(absent)
    assert case.writes() == []
    assert case.left() == before


def test_one_changed_property_is_applied_and_named() -> None:
    case = Case()
    case.up()
    case.resource("networkSecurityGroups")["properties"]["securityRules"][0]["properties"]["priority"] = 110

    found = case.up()

    path = "properties.securityRules[0].properties.priority"
    assert found["changes"] == [
        {
            "resource": f"{GROUP_ID}/providers/Microsoft.Network/networkSecurityGroups/nodes",
            "type": "Microsoft.Network/networkSecurityGroups",
            "name": "nodes",
            "change": "Modify",
            "properties": [{"path": path, "before": 100, "after": 110}],
        }
    ]
    assert found["diff"]["before"].endswith(f"  {path}: 100\n")
    assert not case.up()["changed"]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("kind", ["virtualMachineScaleSets", "virtualMachines"])
def test_machines_that_the_template_drops_are_not_deleted(kind: str, check: bool) -> None:
    case = Case()
    case.up()
    dropped = case.resource(kind)
    case.template["resources"].remove(dropped)
    before = sorted(case.left())

    with pytest.raises(StackError, match=f"no longer names {dropped['name']}, which"):
        case.up(check)

    assert case.writes() == []
    assert sorted(case.left()) == before


def test_a_scale_set_without_machines_is_deleted_without_a_word() -> None:
    case = Case()
    case.resource("virtualMachineScaleSets")["sku"]["capacity"] = 0
    case.up()
    case.template["resources"].remove(case.resource("virtualMachineScaleSets"))

    assert names(case.up()) == [("Delete", "h100")]


def test_a_resource_that_the_template_drops_is_deleted() -> None:
    case = Case()
    case.up()
    case.template["resources"].remove(case.resource("virtualMachineScaleSets"))

    found = case.up(delete=("h100",))

    assert names(found) == [("Delete", "h100")]
    assert not any("h100" in one for one in case.left())
    assert not case.up()["changed"]


def test_a_property_that_the_template_drops_is_applied() -> None:
    case = Case()
    case.resource("virtualNetworks")["properties"]["enableDdosProtection"] = True
    case.up()
    del case.resource("virtualNetworks")["properties"]["enableDdosProtection"]

    found = case.up()

    assert found["changes"][0]["properties"][0]["path"] == "properties.enableDdosProtection"
    assert not case.up()["changed"]


def test_new_custom_data_is_applied_and_not_shown() -> None:
    case = Case()
    case.up()
    profile = case.resource("virtualMachineScaleSets")["properties"]["virtualMachineProfile"]
    profile["osProfile"]["customData"] = "TmV3IGRhdGE="

    found = case.up()

    assert [one["path"] for one in found["changes"][0]["properties"]] == [
        "properties.virtualMachineProfile.osProfile.customData"
    ]
    assert "TmV3IGRhdGE=" not in str(found)
    assert not case.up()["changed"]


def test_instances_that_somebody_added_stay() -> None:
    case = Case()
    case.up()
    sets = case.store().find(f"{GROUP_ID}/providers/Microsoft.Compute/virtualMachineScaleSets/h100")
    case.direct.state.writes[SUBSCRIPTION]._services.scale(sets, 9)

    same = case.up()
    case.resource("virtualNetworks")["tags"]["note"] = "x"
    changed = case.up()

    assert (same["changed"], len(case.asked) > 3) == (False, True)
    assert changed["changed"]
    assert case.instances() == 9
    assert same["kept"] == ["scale set h100 has 9 instances, the template says 2"]
    assert names(case.up(keep_capacity=False)) == [("Modify", "h100")]
    assert case.instances() == 2


def test_tags_of_others_and_the_time_of_the_deletion_stay_on_the_group() -> None:
    case = Case()
    case.up(tags={"gpucluster_delete_after": "7d"})
    tags = case.store().groups["training-rg"]["tags"]
    tags.update(gpucluster_delete_after="2026-12-01T00:00:00Z", cost_center="7")

    case.up(tags={"gpucluster_delete_after": "7d", "owner": "y"})

    tags = case.store().groups["training-rg"]["tags"]
    assert tags["gpucluster_delete_after"] == "2026-12-01T00:00:00Z"
    assert (tags["cost_center"], tags["owner"]) == ("7", "y")


def test_tags_of_the_stack_are_changes_and_reach_our_own_group() -> None:
    case = Case()
    case.up()

    found = case.up(tags={"owner": "y"})

    assert found["changes"][0]["properties"] == [{"path": "tags.owner", "before": "x", "after": "y"}]
    assert case.store().groups["training-rg"]["tags"]["owner"] == "y"
    assert not case.up(tags={"owner": "y"})["changed"]


def test_down_leaves_nothing_and_down_again_changes_nothing() -> None:
    case = Case()
    case.up()

    first, second = case.down(), case.down()

    assert first["changed"]
    assert case.left() == []
    assert not second["changed"]
    assert ("Delete", "h100") in names(first)
    assert ("Delete", "6f1a1f0e-2c1c-5d38-9f3b-3d2f0d2f8a11") in names(first)


def test_what_azure_made_beside_the_stack_goes_with_it_and_an_existing_group_stays() -> None:
    case = Case()
    case.store().put_group("training-rg", {"location": "westeurope", "tags": {"team": "a"}})
    disk = f"{GROUP_ID}/providers/Microsoft.Compute/disks"
    case.up()
    vm = f"{GROUP_ID}/providers/Microsoft.Compute/virtualMachines/control"
    for name in ("os", "home"):
        case.store().put(f"{disk}/{name}", "Microsoft.Compute/disks", {"managedBy": vm})
    case.store().put(f"{disk}/theirs", "Microsoft.Compute/disks", {})

    found = case.down()

    assert case.left() == ["training-rg", "microsoft.compute/disks/theirs"]
    assert {("Delete", "os"), ("Delete", "home")} <= set(names(found))
    assert case.store().groups["training-rg"]["tags"] == {"team": "a"}


def test_our_own_group_stays_if_it_holds_what_is_not_ours() -> None:
    case = Case()
    case.up()
    disk = f"{GROUP_ID}/providers/Microsoft.Compute/disks/theirs"
    case.store().put(disk, "Microsoft.Compute/disks", {})

    found = case.down()

    assert case.left() == ["training-rg", "microsoft.compute/disks/theirs"]
    assert found["kept"] == ["resource group training-rg, because it holds Microsoft.Compute/disks theirs"]


@pytest.mark.parametrize("what", ["a disk", "a tag"])
def test_our_own_group_stays_if_others_use_it_while_the_stack_goes(what: str) -> None:
    """The removal of a stack takes minutes."""
    case = Case()
    case.up()
    disk = f"{GROUP_ID}/providers/Microsoft.Compute/disks/theirs"
    direct, store = case.direct, case.store()

    def meanwhile(method: str, url: str, body: t.Any) -> t.Any:
        answer = direct(method, url, body)
        if method == "DELETE" and what == "a disk":
            store.put(disk, "Microsoft.Compute/disks", {})
        if method == "DELETE" and what == "a tag":
            store.groups["training-rg"]["tags"].pop("gpucluster_stack", None)
        return answer

    case.direct = t.cast("t.Any", meanwhile)
    found = case.down()
    case.direct = direct

    theirs = ["microsoft.compute/disks/theirs"] if what == "a disk" else []
    assert case.left() == ["training-rg", *theirs]
    why = (
        "it holds Microsoft.Compute/disks theirs"
        if theirs
        else "its tag gpucluster_stack or gpucluster_cluster changed"
    )
    assert found["kept"] == [f"resource group training-rg, because {why}"]
    assert ("Delete", "training-rg") not in names(found)
    assert ("Delete", "training") in names(found)


def test_a_group_that_was_there_before_stays_even_if_it_is_empty() -> None:
    case = Case()
    case.store().put_group("training-rg", {"location": "westeurope"})
    case.up()

    assert ("Delete", "training-rg") not in names(case.down())
    assert case.left() == ["training-rg"]


def test_a_stack_that_failed_is_written_again_even_if_nothing_else_differs() -> None:
    case = Case()
    case.up()
    case.held()["properties"]["provisioningState"] = "failed"

    found = case.up()

    assert found["changes"][0]["properties"] == [
        {"path": "properties.provisioningState", "before": "failed", "after": "succeeded"}
    ]
    assert not case.up()["changed"]


@pytest.mark.parametrize("state", ["up", "down"])
def test_the_stack_and_the_group_of_another_cluster_are_refused(state: str) -> None:
    case = Case()
    case.up()
    before = case.left()

    for more in ({"cluster": "other"}, {"cluster": "other", "name": "second"}):
        with pytest.raises(StackError, match="belongs to the cluster training"):
            getattr(case, state)(**more)
        assert case.writes() == []
    assert case.left() == before


def with_foreign(tags: dict[str, str] | None = None) -> Case:
    """Return a group in which somebody has a network and a machine with the names of the template."""
    case = Case()
    store = case.store()
    store.put_group("training-rg", {"location": "southcentralus"})
    for one in case.template["resources"]:
        if one["name"] in ("cluster", "control"):
            path = f"{GROUP_ID}/providers/{one['type']}/{one['name']}"
            store.put(path, one["type"], {**copy.deepcopy(one), "tags": tags or {}})
    return case


@pytest.mark.parametrize("tags", [{}, {"gpucluster_cluster": "other"}])
@pytest.mark.parametrize("check", [True, False])
def test_what_somebody_else_has_in_the_group_is_not_taken(tags: dict[str, str], check: bool) -> None:
    case = with_foreign(tags)
    before = copy.deepcopy(case.store().resources)

    with pytest.raises(StackError) as caught:
        case.up(check)

    said = str(caught.value)
    assert said.startswith("nothing was changed; the resource group training-rg already has")
    for name in ("virtualNetworks cluster", "virtualMachines control"):
        assert f"{name}{' of the cluster other' if tags else ''}" in said
    assert "h100" not in said
    assert case.writes() == []
    assert case.store().resources == before


def test_what_somebody_else_has_is_taken_if_each_is_named() -> None:
    case = with_foreign()

    with pytest.raises(StackError, match=r"already has \S+virtualMachines control\. They"):
        case.up(adopt=("cluster",))
    assert case.writes() == []

    case.up(adopt=("cluster", "control"))
    assert case.up()["changes"] == []
    case.down()
    assert case.left() == ["training-rg"]


def test_what_a_detached_stack_left_is_ours_by_its_tag() -> None:
    case = Case()
    case.up()
    del case.store().resources[held_as()]

    assert names(case.up()) == [("Create", "training")]


def test_a_resource_that_what_if_cannot_judge_is_looked_at() -> None:
    case = with_foreign()
    case.unjudged = True

    with pytest.raises(StackError, match=r"already has \S+virtualNetworks cluster, \S+virtualMachines control\. "):
        case.up()
    assert case.writes() == []


@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize("tags", [{}, {"gpucluster_cluster": "other"}])
def test_a_resource_without_our_tag_is_not_deleted(tags: dict[str, str], check: bool) -> None:
    case = Case()
    case.up()
    case.held("Compute/virtualMachines", "control")["tags"] = tags
    before = case.left()

    with pytest.raises(StackError, match=r"nothing was changed.*virtualMachines control( of the cluster other)?\. Set"):
        case.down(check)

    assert case.writes() == []
    assert case.left() == before


def test_what_another_cluster_has_taken_is_not_deleted_even_if_the_template_drops_it() -> None:
    case = Case()
    case.up()
    case.held("Compute/virtualMachineScaleSets", "h100")["tags"] = {"gpucluster_cluster": "other"}
    case.template["resources"] = [one for one in case.template["resources"] if one["name"] != "h100"]

    with pytest.raises(StackError, match="virtualMachineScaleSets h100 of the cluster other"):
        case.up(delete=("h100",))
    assert case.writes() == []


def test_what_another_cluster_has_taken_from_the_stack_is_not_taken_back() -> None:
    case = Case()
    case.up()
    case.held("Compute/virtualMachines", "control")["tags"] = {"gpucluster_cluster": "other"}

    with pytest.raises(StackError, match="virtualMachines control of the cluster other"):
        case.up()
    assert case.writes() == []


def test_what_a_machine_of_ours_uses_and_another_cluster_owns_stays() -> None:
    case = Case()
    case.up()
    disk = f"{GROUP_ID}/providers/Microsoft.Compute/disks/theirs"
    machine = f"{GROUP_ID}/providers/Microsoft.Compute/virtualMachines/control"
    case.store().put(disk, "Microsoft.Compute/disks", {"managedBy": machine, "tags": {"gpucluster_cluster": "other"}})

    found = case.down()

    assert case.left() == ["training-rg", "microsoft.compute/disks/theirs"]
    assert found["kept"] == ["resource group training-rg, because it holds Microsoft.Compute/disks theirs"]


def test_what_a_detached_stack_left_is_deleted_by_its_tag() -> None:
    case = Case()
    case.store().put_group("training-rg", {"location": "westeurope"})
    case.up()
    del case.store().resources[held_as()]

    assert case.down()["changed"]
    # A role assignment has no tag. Without its identity it gives nobody anything.
    assert [one for one in case.left() if "roleassignments" not in one.lower()] == ["training-rg"]


def test_a_stack_without_an_owner_is_refused() -> None:
    case = Case()
    case.up()
    case.held()["tags"] = {}

    with pytest.raises(StackError, match="no tag gpucluster_cluster"):
        case.down()


def test_a_missing_group_needs_leave_and_a_location() -> None:
    with pytest.raises(StackError, match="the resource group training-rg does not exist"):
        Case().up(create_group=False)
    with pytest.raises(ConfigError, match="location is empty"):
        Case().up(location="")


REFUSALS = {
    "quota": "the quota standardNDSH100v5Family in southcentralus is too small: 192 more vCPUs",
    "sku_not_available": "SkuNotAvailable.*choose another VM size",
    "policy": "RequestDisallowedByPolicy.*policy of the subscription",
}


@pytest.mark.parametrize("exists", [False, True])
@pytest.mark.parametrize("fault", REFUSALS)
def test_what_azure_would_refuse_is_refused_before_anything_is_made(fault: str, exists: bool) -> None:
    case = Case(fault)
    if exists:
        case.store().put_group("training-rg", {"location": "southcentralus"})

    for check in (True, False):
        with pytest.raises(StackError, match=f"nothing was changed; Azure refuses the template: .*{REFUSALS[fault]}"):
            case.up(check=check)

    assert case.writes() == []


@pytest.mark.parametrize("exists", [False, True])
def test_check_mode_tells_in_one_list_what_stops_the_first_run(exists: bool) -> None:
    contributor = ["Microsoft.Authorization/*/Delete", "Microsoft.Authorization/*/Write"]
    case = Case("quota", unregistered=["Microsoft.NetApp", "Microsoft.ManagedIdentity"], forbidden=contributor)
    if exists:
        case.store().put_group("training-rg", {"location": "southcentralus"})

    with pytest.raises(StackError) as caught:
        case.up(check=True)

    said = str(caught.value)
    assert "the quota standardNDSH100v5Family in southcentralus is too small" in said
    assert "Microsoft.ManagedIdentity is not registered; run 'az provider register" in said
    assert "Microsoft.NetApp" not in said
    assert "you have no right to Microsoft.Authorization/roleAssignments/write; assign" in said
    assert "controller_role: none" in said
    assert case.writes() == []


@pytest.mark.parametrize(("match", "status"), [("Authorization/permissions", 404), (r"/providers(\?|$)", 403)])
def test_what_azure_does_not_list_stops_no_check(match: str, status: int) -> None:
    case = Case({"match": match, "status": status})

    assert case.up(check=True)["changed"]


def test_a_quota_is_compared_with_what_the_subscription_uses() -> None:
    case = Case(quotas={"standardNDSH100v5Family": 200})
    case.up()

    assert case.instances() == 2
    case.resource("virtualMachineScaleSets")["sku"]["capacity"] = 3
    with pytest.raises(StackError, match="96 more vCPUs are asked for, 192 are in use, 200 are allowed"):
        case.up(keep_capacity=False)


FAILURES = {
    "allocation_failed": "AllocationFailed: .*no free machines",
    "overconstrained": "OverconstrainedAllocationRequest: .*no place fits",
    "half_then_failed": "InternalServerError",
    "principal_not_found": "PrincipalNotFound.*run again in a minute",
    "group_deleted": "ResourceGroupNotFound.*somebody deleted the resource group",
}


@pytest.mark.parametrize("continued", [True, False])
@pytest.mark.parametrize("fault", FAILURES)
def test_a_failure_halfway_is_named_and_the_next_run_continues_or_removes(fault: str, continued: bool) -> None:
    case = Case(fault)

    with pytest.raises(StackError, match=FAILURES[fault]):
        case.up()
    if continued:
        case.direct.state.faults.clear()
        assert case.up()["changed"]
        assert not case.up()["changed"]
        assert case.instances() == 2
    case.down()

    assert case.left() == []


def test_a_deletion_that_fails_once_is_tried_again_and_one_that_goes_on_is_named() -> None:
    case = Case("delete_fails")
    case.up()
    case.down()
    assert case.left() == []

    case = Case({**NAMED["delete_fails"][0], "times": 99})
    case.up()
    with pytest.raises(StackError, match=r"not complete: .*InUseSubnetCannotBeDeleted.*Run again to remove the rest"):
        case.down()
    case.direct.state.faults.clear()
    case.down()
    assert case.left() == []


@pytest.mark.parametrize("sent", [False, True])
@pytest.mark.parametrize("number", range(1, 10))
@pytest.mark.parametrize(("killed", "then"), [("up", "up"), ("up", "down"), ("down", "down")])
def test_a_run_that_is_killed_at_any_request_is_completed(killed: str, then: str, number: int, sent: bool) -> None:
    case = Case(seconds=0.002, retry_after=0.01)
    if killed == "down":
        case.up()
    _killed(case, killed, number, sent)

    getattr(case, then)()

    if then == "up":
        assert not case.up()["changed"]
        assert case.instances() == 2
    else:
        assert case.left() == []


def _killed(case: Case, what: str, number: int, sent: bool) -> None:
    """Kill a run at a request; a run that needs fewer requests is not killed."""
    case.kill = (number, sent)
    with contextlib.suppress(Killed):
        getattr(case, what)()
    case.kill = None


def test_a_run_waits_for_another_and_then_finds_nothing_to_do() -> None:
    case = Case(seconds=0.03, retry_after=0.02)
    _killed(case, "up", 5, True)
    assert "deploying" in str(case.store().resources)

    found = case.up()

    assert not found["changed"]
    assert case.writes() == []


def test_a_write_that_meets_another_run_is_compared_again() -> None:
    case = Case("another_deployment")

    assert case.up()["changed"]
    assert len([one for one in case.writes() if one == f"PUT {STACK}"]) == 2
    case = Case({**NAMED["another_deployment"][0], "times": 99})
    with pytest.raises(StackError, match="DeploymentStackInNonTerminalState"):
        case.up()


def test_the_deadline_ends_the_wait_and_says_that_azure_continues() -> None:
    for limit in (1, 10, PATIENCE):
        case = Case(seconds=HANGS, retry_after=1)
        with pytest.raises(AzureInventoryError) as caught:
            case.up(seconds=limit)
        if case.writes():
            break

    assert f"Azure has not finished after {limit} s and continues; run again" in str(caught.value)
    with pytest.raises(SlowError):
        case.up(seconds=0.5)


@pytest.mark.parametrize("fault", ["lost_poll", "lost_result"])
def test_a_lost_poll_does_not_lose_the_operation(fault: str) -> None:
    case = Case()
    case.up()
    case.direct.state.faults.extend(faults.expanded([fault]))
    case.resource("virtualNetworks")["tags"]["note"] = "x"
    if fault == "lost_poll":
        assert case.up()["changed"]
    else:
        with pytest.raises(AzureInventoryError, match="its progress cannot be read"):
            case.up()

    case.down()

    assert case.left() == []


@pytest.mark.parametrize("answer", ["{}", '{"status": "Succeeded"}', '{"properties": {"changes": []}}', "[]", ""])
def test_an_empty_answer_of_what_if_is_never_no_change(answer: str) -> None:
    case = Case()
    case.up()
    case.direct.state.faults.append({"match": "operationresults", "text": answer, "seen": 0})

    with pytest.raises(
        AzureInventoryError, match=r"what-if judged no resource of the template|progress cannot be read"
    ):
        case.up()


def test_what_if_that_azure_ends_with_an_error_is_an_error() -> None:
    case = Case()
    case.up()
    text = '{"status": "Failed", "error": {"code": "InvalidTemplate", "message": "wrong"}}'
    case.direct.state.faults.append({"match": "operationresults", "text": text, "seen": 0})

    with pytest.raises(StackError, match="nothing was changed; Azure refuses the template: InvalidTemplate: wrong"):
        case.up()
