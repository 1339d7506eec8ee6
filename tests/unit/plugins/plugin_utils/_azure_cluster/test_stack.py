# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run asks and writes, against operations of the SDK in memory."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import inputs, machines, stack, template
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Scope
from ansible_collections.hpcai.gpucluster.tests.unit.support.azure_clusters import cluster, gpu_set
from ansible_collections.hpcai.gpucluster.tests.unit.support.azure_operations import Clients, Poller, error

MANAGER = "https://management.azure.com"
WRITE = "begin_create_or_update_at_subscription"
NO_STACK = error(404, "DeploymentStackNotFound")
NO_GROUP = error(404, "ResourceGroupNotFound")
HOMES = {"data_disks": [{"size_gib": 1024}]}
Body = dict[str, t.Any]


class World:
    """A cluster of two nodes in Azure, or one that is not there yet."""

    def __init__(self, given: Body | None = None, is_new: bool = False) -> None:
        self.scope = Scope(inputs.read(given or cluster(controller=HOMES)))
        self.clients = Clients()
        self.names = [] if is_new else ["hpc-controller", "hpc-h100-1", "hpc-h100-2"]
        self.rows: list[Body] = []
        stacks, what_ifs = self.clients.stacks.answers, self.clients.what_ifs.answers
        stacks["get_at_subscription"] = NO_STACK if is_new else self.stack()
        stacks["begin_validate_stack_at_subscription"] = {"properties": {}}
        stacks[WRITE] = {"properties": {"provisioningState": "succeeded"}}
        what_ifs["begin_what_if"] = lambda _name: self.answer()
        what_ifs["begin_create_or_update"] = {}
        self.clients.machines.answers["list"] = NO_GROUP if is_new else lambda _group: self.machines()
        self.clients.machines.answers["get"] = {}

    def machines(self) -> list[Body]:
        return [
            {"name": name, "id": self.scope.id(machines.MACHINE, name), "tags": {"gpucluster_cluster": "hpc"}}
            for name in self.names
        ]

    def inner(self) -> list[Body]:
        return template.resources(self.scope, self.names, MANAGER)

    def stack(self, state: str = "succeeded", **tags: str) -> Body:
        digest = template.digest(template.template(self.scope, self.inner()))
        resources = [{"id": self.scope.id(one["type"], one["name"])} for one in self.inner()]
        own = {"gpucluster_cluster": "hpc", "gpucluster_template": digest, **tags}
        return {"tags": own, "properties": {"provisioningState": state, "resources": resources}}

    def answer(self) -> Body:
        """Return the answer of what-if: no change but those of self.rows."""
        changed = {row["id"].lower() for row in self.rows}
        ids = [self.scope.group_id, *(self.scope.id(one["type"], one["name"]) for one in self.inner())]
        tags = {"before": {"tags": {"gpucluster_cluster": "hpc"}}}
        same = [
            {"id": one, "changeType": "noChange", "resourceConfigurationChanges": tags}
            for one in ids
            if one.lower() not in changed
        ]
        return {"properties": {"provisioningState": "succeeded", "changes": {"resourceChanges": same + self.rows}}}

    def up(self, *allow: str, is_check: bool = False, seconds: float = 1000) -> Body:
        return stack.Stack(self.clients.asks(seconds), self.scope, allow, is_check).present(MANAGER)

    def down(self, *allow: str, is_check: bool = False) -> Body:
        return stack.Stack(self.clients.asks(), self.scope, allow, is_check).absent()

    def refused(self, *allow: str, **options: t.Any) -> str:
        with pytest.raises(AzureError) as caught:
            self.up(*allow, **options)
        return str(caught.value)


def test_a_new_cluster_is_validated_and_made() -> None:
    world = World(is_new=True)
    world.clients.what_ifs.answers["begin_what_if"] = {
        "properties": {
            "provisioningState": "succeeded",
            "changes": {"resourceChanges": [{"id": "/x", "changeType": "create"}]},
        }
    }
    found = world.up()

    assert (found["changed"], world.clients.writes()) == (True, [WRITE])
    order = [name for name, _given in world.clients.calls]
    assert order.index("begin_what_if") < order.index("begin_validate_stack_at_subscription") < order.index(WRITE)
    name, body = dict(world.clients.calls)[WRITE]
    assert name == "hpc"
    assert body["properties"]["actionOnUnmanage"]["resources"] == "delete"
    assert body["tags"]["gpucluster_cluster"] == "hpc"
    assert body["properties"]["template"]["resources"][0]["type"] == "Microsoft.Resources/resourceGroups"


def test_a_second_run_writes_nothing_and_what_if_leaves_nothing() -> None:
    world = World()

    assert (world.up()["changed"], world.clients.writes()) == (False, [])
    created, deleted = (dict(world.clients.calls)[name][0] for name in ("begin_create_or_update", "delete"))
    assert created == deleted
    assert dict(world.clients.calls)["begin_what_if"] == (created,)


@pytest.mark.parametrize(
    "there",
    [{"state": "failed"}, {"state": "canceled"}, {"gpucluster_template": "old"}],
    ids=["failed", "canceled", "edited"],
)
def test_a_run_after_a_failed_one_goes_on(there: dict[str, str]) -> None:
    world = World()
    world.clients.stacks.answers["get_at_subscription"] = world.stack(**there)

    assert (world.up()["changed"], world.clients.writes()) == (True, [WRITE])


def test_check_mode_validates_and_writes_nothing() -> None:
    world = World()
    world.rows = [{"id": world.scope.id(machines.MACHINE, "hpc-h100-3"), "changeType": "create"}]

    assert world.up(is_check=True)["changed"] is True
    assert world.clients.writes() == []
    assert "begin_validate_stack_at_subscription" in dict(world.clients.calls)


def test_data_disks_without_an_entry_do_not_detach_the_homes() -> None:
    """The fault that detached the homes of a running controller: an edit of azure_cluster, and rc 0."""
    before, world = World(), World(cluster())
    world.clients.stacks.answers["get_at_subscription"] = before.stack()
    disk, controller = (
        before.scope.id("Microsoft.Compute/disks", "hpc-data-0"),
        world.scope.id(machines.MACHINE, "hpc-controller"),
    )
    path = "properties.storageProfile.dataDisks"
    delta = [{"path": path, "changeType": "modify", "before": [{"managedDisk": {"id": disk}}], "after": []}]
    world.rows = [
        {"id": controller, "changeType": "modify", "resourceConfigurationChanges": {"delta": delta}},
        {"id": disk, "changeType": "delete"},
    ]
    said = world.refused()

    assert "hpc-data-0: would be deleted" in said
    assert f"hpc-controller: {path} would change" in said
    assert "-e '{azure_allow: ['disks/hpc-data-0', 'virtualmachines/hpc-controller']}'" in said
    assert world.clients.writes() == []
    assert world.refused("virtualmachines/hpc-controller").count("would be deleted") == 1
    assert world.up("virtualMachines/hpc-controller", "disks/hpc-data-0")["changed"] is True


def test_a_lower_count_is_refused_before_what_if() -> None:
    world = World(gpu_set(count=1))

    assert "the set h100 has count 1, but 2 machines exist" in world.refused()
    assert "begin_create_or_update" not in dict(world.clients.calls)


@pytest.mark.parametrize(("exists", "is_refused"), [(True, True), (False, False)], ids=["the list lags", "deleted"])
def test_a_node_that_the_list_lacks_is_asked_for_before_it_is_given_up(exists: bool, is_refused: bool) -> None:
    world = World(gpu_set(count=1))
    world.clients.stacks.answers["get_at_subscription"] = world.stack()
    world.names.remove("hpc-h100-2")
    world.clients.machines.answers["get"] = {} if exists else error(404, "ResourceNotFound")
    kinds = (machines.MACHINE, "Microsoft.Network/networkInterfaces")
    world.rows = [{"id": world.scope.id(kind, "hpc-h100-2"), "changeType": "delete"} for kind in kinds]

    if is_refused:
        assert "hpc-h100-2: would be deleted" in world.refused()
    else:
        assert [one["change"] for one in world.up()["changes"]] == []


def test_a_group_that_no_stack_made_is_refused() -> None:
    world = World()
    world.clients.stacks.answers["get_at_subscription"] = NO_STACK

    assert "azure_cluster.resource_group: the group hpc exists, and azure_up did not make it" in world.refused()
    assert world.clients.writes() == []


@pytest.mark.parametrize(
    ("there", "text"),
    [
        ({"state": "deploying"}, "another run changes it"),
        ({"gpucluster_cluster": "other"}, "its tag gpucluster_cluster is other"),
    ],
)
def test_the_stack_of_another_run_or_cluster_is_left_alone(there: dict[str, str], text: str) -> None:
    world = World()
    world.clients.stacks.answers["get_at_subscription"] = world.stack(**there)

    assert text in world.refused()
    with pytest.raises(AzureError, match=text):
        world.down()
    assert world.clients.writes() == []


@pytest.mark.parametrize(
    "answer",
    [
        {
            "properties": {
                "provisioningState": "failed",
                "error": {"code": "X", "message": "no"},
                "changes": {"resourceChanges": []},
            }
        },
        {"properties": {"provisioningState": "succeeded"}},
        {"properties": {"provisioningState": "running", "changes": {"resourceChanges": []}}},
        {},
        error(500, "InternalServerError"),
    ],
    ids=["failed", "no changes", "not ended", "empty", "error"],
)
def test_without_an_answer_of_what_if_nothing_is_written(answer: t.Any) -> None:
    world = World()
    world.clients.what_ifs.answers["begin_what_if"] = answer

    assert "what-if" in world.refused("virtualmachines/hpc-controller")
    assert world.clients.writes() == []


def test_a_quota_is_refused_before_anything_is_made() -> None:
    world = World(cluster(tags={"owner": "alice"}))
    detail = {"code": "QuotaExceeded", "message": "0 of 192 cores"}
    failed = {"error": {"code": "InvalidTemplateDeployment", "message": "see details", "details": [detail]}}
    world.clients.stacks.answers["get_at_subscription"] = world.stack(gpucluster_template="old")
    world.clients.stacks.answers["begin_validate_stack_at_subscription"] = failed

    assert "QuotaExceeded: 0 of 192 cores" in world.refused()
    assert world.clients.writes() == []


# What the write answers, and what a person reads.
FAULTS: tuple[tuple[t.Any, str], ...] = (
    (error(409, "DeploymentStackInNonTerminalState"), "another run changes the stack; run again when it has ended"),
    (error(409, "DeploymentActive"), "another deployment is active"),
    (error(403, "AuthorizationFailed"), "the identity needs Contributor on the subscription"),
    (
        error(
            400,
            "DeploymentStackDeploymentFailed",
            "one failed",
            [{"code": "AllocationFailed", "message": "no capacity"}],
        ),
        "AllocationFailed: no capacity; Azure has no free machines of this size here now",
    ),
    (
        {"properties": {"provisioningState": "failed", "error": {"code": "Boom", "message": "it broke"}}},
        "Boom: it broke",
    ),
    (Poller({}, waits=10**6), "not finished after 1000 s. Azure continues; run again"),
)


@pytest.mark.parametrize(("answer", "text"), FAULTS, ids=[text[:30] for _answer, text in FAULTS])
def test_a_failed_write_says_why(answer: t.Any, text: str) -> None:
    world = World()
    world.clients.stacks.answers["get_at_subscription"] = world.stack(gpucluster_template="old")
    world.clients.stacks.answers[WRITE] = answer

    assert text in world.refused()


def test_a_failure_names_the_resources_that_failed() -> None:
    world = World()
    there = world.stack(gpucluster_template="old")
    there["properties"]["failedResources"] = [
        {"id": "/a/hpc-h100-2", "error": {"code": "AllocationFailed", "message": "full"}}
    ]
    world.clients.stacks.answers["get_at_subscription"] = there
    world.clients.stacks.answers[WRITE] = error(400, "DeploymentStackDeploymentFailed")

    assert "Failed: hpc-h100-2 (AllocationFailed: full). Run again to continue" in world.refused()


def test_a_long_wait_is_told() -> None:
    world = World()
    world.clients.stacks.answers["get_at_subscription"] = world.stack(gpucluster_template="old")
    world.clients.stacks.answers[WRITE] = Poller({"properties": {"provisioningState": "succeeded"}}, waits=3)

    assert world.up()["changed"] is True
    assert world.clients.told == ["stack hpc: Azure is still at work"] * 2


def gone(world: World) -> None:
    """Let the group go with its stack."""
    there = iter([world.machines()])
    world.clients.machines.answers["list"] = lambda _group: next(there, NO_GROUP)


def test_down_deletes_the_stack_with_its_group() -> None:
    world = World()
    gone(world)

    found = world.down()
    assert world.clients.writes() == ["begin_delete_at_subscription"]
    assert {one["name"] for one in found["changes"]} >= {"hpc-controller", "hpc-h100-1"}


def test_down_in_check_mode_and_without_a_stack_deletes_nothing() -> None:
    world, empty, foreign = World(), World(is_new=True), World()
    foreign.clients.stacks.answers["get_at_subscription"] = NO_STACK

    assert (world.down(is_check=True)["changed"], world.clients.writes()) == (True, [])
    assert empty.down()["changed"] is False
    assert "no stack made it: it stays" in foreign.down()["summary"][0]
    assert empty.clients.writes() + foreign.clients.writes() == []


def test_down_refuses_to_delete_machines_of_somebody_else() -> None:
    world = World()
    rows = [*world.machines(), {"name": "theirs", "id": "/x/theirs", "tags": {}}]
    world.clients.machines.answers["list"] = lambda _group: rows

    with pytest.raises(AzureError, match="theirs: somebody else made it"):
        world.down()
    assert world.clients.writes() == []


def test_a_group_that_stays_is_no_success() -> None:
    with pytest.raises(AzureError, match="the resource group hpc still exists"):
        World().down()
