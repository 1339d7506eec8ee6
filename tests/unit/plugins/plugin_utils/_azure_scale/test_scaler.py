# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A set grows by one request, shrinks by names, and every failure of Azure leaves machines and capacity equal."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import Cause
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import RequestError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import plan, scale_sets
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ScaleError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scaler import Outcome, Scaler

GROUP = "/subscriptions/s/resourceGroups/hpc"
Body = dict[str, t.Any]
ALLOCATION = RequestError(
    200, "AllocationFailed", "Allocation failed.", causes=[Cause("AllocationFailed", "Allocation failed.")]
)
QUOTA = RequestError(
    409, "OperationNotAllowed", "Operation could not be completed as it results in exceeding approved cores Quota."
)


def machine(scale_set: str, number: int, provisioning: str = "Succeeded", power: str = "running") -> Body:
    return {
        "instanceId": str(number),
        "name": f"{scale_set}_{number}",
        "properties": {
            "vmId": f"id-{scale_set}-{number}",
            "provisioningState": provisioning,
            "osProfile": {"computerName": f"{scale_set}{number:06}"},
            "instanceView": {"statuses": [{"code": f"PowerState/{power}"}]},
        },
    }


class FakeArm:
    """Scale sets as Azure keeps them; C(faults) are raised by the next changes, C(makes) limits new machines."""

    def __init__(self, sets: dict[str, int], *, spot: bool = False, single: bool = True) -> None:
        self.members = {name: [machine(name, number) for number in range(count)] for name, count in sets.items()}
        self.capacity = dict(sets)
        self.spot = spot
        self.single = single
        self.tags: Body = {"gpucluster_set": "h100", "slurm_cluster": "hpc"}
        self.writes: list[tuple[str, str, t.Any]] = []
        self.faults: list[RequestError | None] = []
        self.makes = 10**6
        self.new_state = ("Succeeded", "running")
        self.serial = 1000

    def rows(self, path: str, version: str, **query: str) -> list[Body]:
        if not path.endswith("/virtualMachines"):
            return [self._row(name) for name in self.members]
        assert query == {"$expand": "instanceView"}
        return [dict(one) for one in self.members[path.split("/")[-2]]]

    def get(self, path: str, version: str, **query: str) -> Body | None:
        """Azure counts the machines by their states."""
        found = [one["properties"]["provisioningState"] for one in self.members[path.split("/")[-2]]]
        summary = [{"code": f"ProvisioningState/{state.lower()}", "count": found.count(state)} for state in set(found)]
        return {"virtualMachine": {"statusesSummary": [*summary, {"code": "PowerState/running", "count": len(found)}]}}

    def _row(self, name: str) -> Body:
        return {
            "id": f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/{name}",
            "name": name,
            "tags": self.tags,
            "sku": {"name": "Standard_ND96isr_H100_v5", "tier": "Standard", "capacity": self.capacity[name]},
            "properties": {
                "singlePlacementGroup": self.single,
                "virtualMachineProfile": {"priority": "Spot" if self.spot else "Regular"},
            },
        }

    def patch(self, path: str, version: str, body: t.Any) -> Body:
        name, wanted = path.rpartition("/")[2], body["sku"]["capacity"]
        self.writes.append(("PATCH", name, wanted))
        faults = self._next()
        for fault in faults:
            if fault.status == 409:
                raise fault
        self.capacity[name] = wanted
        while len(self.members[name]) < min(wanted, self.makes):
            self.serial += 1
            self.members[name].append(machine(name, self.serial, *self.new_state))
        # Azure chooses the machines that go; no test may get here.
        assert len(self.members[name]) <= wanted
        for fault in faults:
            raise fault
        return {}

    def _next(self) -> list[t.Any]:
        """Return the next fault, if there is one; None is a change without a fault."""
        found, self.faults[:1] = self.faults[:1], []
        return [one for one in found if one]

    def post(self, path: str, version: str, body: t.Any = None, **query: str) -> Body:
        _rest, name, action = path.rsplit("/", 2)
        self.writes.append((action, name, body["instanceIds"]))
        for fault in self._next():
            raise fault
        if action == "delete":
            self.members[name] = [one for one in self.members[name] if one["instanceId"] not in body["instanceIds"]]
            self.capacity[name] -= len(body["instanceIds"])
        for one in self.members[name] if action == "start" else []:
            if one["instanceId"] in body["instanceIds"]:
                one["properties"]["instanceView"] = {"statuses": [{"code": "PowerState/running"}]}
        return {}

    def settled(self, path: str, version: str, what: str = "") -> Body | None:
        return {}


def scaler(arm: FakeArm, limit: int = 0) -> Scaler:
    def read() -> list[scale_sets.ScaleSet]:
        return scale_sets.read(arm, GROUP, "hpc", "h100", limit)

    return Scaler(arm, read, lambda: 60.0, lambda _line: None, sleep=lambda _seconds: None)


def counts(outcome: Outcome) -> dict[str, tuple[int, int]]:
    """Return capacity and number of machines by scale set."""
    return {one.name: (one.capacity, len(one.instances)) for one in outcome.sets}


def test_a_set_grows_by_one_request() -> None:
    arm = FakeArm({"h100": 2})

    outcome = scaler(arm).grow(100)

    assert arm.writes == [("PATCH", "h100", 100)]
    assert (len(outcome.added), outcome.problems) == (98, [])
    assert counts(outcome) == {"h100": (100, 100)}


def test_a_second_run_changes_nothing() -> None:
    arm = FakeArm({"h100": 16})

    outcome = scaler(arm).grow(16)

    assert arm.writes == []
    assert not outcome.changed


def test_scale_sets_are_filled_in_their_order_and_numbers_sort_as_numbers() -> None:
    arm = FakeArm({"h100-10": 0, "h100-2": 0, "h100-1": 90})

    scaler(arm).grow(230)

    assert arm.writes == [("PATCH", "h100-1", 100), ("PATCH", "h100-2", 100), ("PATCH", "h100-10", 30)]


def test_more_than_the_limits_is_refused_before_any_change() -> None:
    arm = FakeArm({"h100": 2})

    with pytest.raises(ScaleError, match=r"count is 101, .* 100 = 100 instances. Set max_count"):
        scaler(arm).grow(101)
    assert arm.writes == []


def test_the_limit_of_the_file_takes_precedence() -> None:
    with pytest.raises(ScaleError, match="8 = 8 instances"):
        scaler(FakeArm({"h100": 2}), limit=8).grow(9)
    scaler(FakeArm({"h100": 2}), limit=300).grow(300)
    scaler(FakeArm({"h100": 2}, single=False)).grow(1000)


def test_a_refusal_for_quota_changes_nothing_and_says_where_to_ask() -> None:
    arm = FakeArm({"h100": 2})
    arm.faults = [QUOTA]

    outcome = scaler(arm).grow(16)

    assert counts(outcome) == {"h100": (2, 2)}
    assert not outcome.changed
    assert "Quota" in outcome.problems[0]
    assert "Ask for more quota" in outcome.problems[0]


@pytest.mark.parametrize("made", [2, 9])
def test_after_an_allocation_failure_the_capacity_is_what_exists(made: int) -> None:
    arm = FakeArm({"h100": 2}, spot=True)
    arm.faults, arm.makes = [ALLOCATION], made

    outcome = scaler(arm).grow(16)

    assert counts(outcome) == {"h100": (made, made)}
    assert len(outcome.added) == made - 2
    assert "Azure has no free machines" in outcome.problems[0]
    assert "Spot machines come last" in outcome.problems[0]


def test_machines_that_azure_could_not_make_are_deleted_by_name() -> None:
    arm = FakeArm({"h100": 2})
    arm.faults, arm.new_state = [ALLOCATION], ("Failed", "unknown")

    outcome = scaler(arm).grow(5)

    assert arm.writes[1] == ("delete", "h100", ["1001", "1002", "1003"])
    assert counts(outcome) == {"h100": (2, 2)}
    assert outcome.added == []


def test_a_failure_stops_before_the_next_scale_set() -> None:
    arm = FakeArm({"h100-1": 99, "h100-2": 0})
    arm.faults = [QUOTA]

    scaler(arm).grow(150)

    assert [write[1] for write in arm.writes] == ["h100-1"]


def test_an_interrupted_run_is_put_in_order() -> None:
    """The capacity is above the machines, and one machine is broken."""
    arm = FakeArm({"h100": 4})
    arm.capacity["h100"] = 16
    arm.members["h100"][3] = machine("h100", 3, "Failed", "stopped")

    outcome = scaler(arm).grow(4)

    assert arm.writes == [("PATCH", "h100", 4), ("delete", "h100", ["3"]), ("PATCH", "h100", 4)]
    assert counts(outcome) == {"h100": (4, 4)}
    assert [one.id for one in outcome.removed] == ["3"]
    assert outcome.problems == []


def test_evicted_machines_are_started_again_and_named_if_that_fails() -> None:
    arm = FakeArm({"h100": 3}, spot=True)
    arm.members["h100"][1] = machine("h100", 1, power="deallocated")
    broken = FakeArm({"h100": 3}, spot=True)
    broken.members["h100"][1] = machine("h100", 1, power="deallocated")
    broken.faults = [ALLOCATION]

    fine, failed = scaler(arm).grow(3), scaler(broken).grow(3)

    assert arm.writes == broken.writes == [("start", "h100", ["1"])]
    assert fine.problems == []
    assert "Azure cannot start machines" in failed.problems[0]
    assert "h100000001 (succeeded, deallocated); spot machines that Azure evicted" in failed.problems[1]


def test_a_machine_that_runs_but_failed_is_named_and_never_deleted() -> None:
    arm = FakeArm({"h100": 2})
    arm.members["h100"][0] = machine("h100", 0, "Failed", "running")

    outcome = scaler(arm).grow(2)

    assert arm.writes == []
    assert "h100000000 (failed, running)" in outcome.problems[0]


def test_machines_leave_by_name_and_the_capacity_is_never_lowered() -> None:
    arm = FakeArm({"h100-1": 4, "h100-2": 2})

    outcome = scaler(arm).remove(["H100-1000001", "h100-2_1", "h100-1000003", "gone"])

    assert arm.writes == [("delete", "h100-1", ["1", "3"]), ("delete", "h100-2", ["1"])]
    assert counts(outcome) == {"h100-1": (2, 2), "h100-2": (1, 1)}
    assert not scaler(arm).remove(["gone"]).changed


def test_a_capacity_below_the_machines_is_never_sent() -> None:
    one = scale_sets.read(FakeArm({"h100": 3}), GROUP, "hpc", "h100")[0]

    with pytest.raises(ScaleError, match="would delete"):
        one.body(2)
    assert one.body(3)["sku"]["capacity"] == 3


def test_a_wait_ends_at_the_deadline() -> None:
    arm = FakeArm({"h100": 0})
    arm.new_state = ("Creating", "starting")
    left = iter([50.0, 40.0, 5.0])
    one = Scaler(
        arm,
        lambda: scale_sets.read(arm, GROUP, "hpc", "h100"),
        lambda: next(left),
        lambda _line: None,
        sleep=lambda _seconds: None,
    )

    outcome = one.grow(2)

    assert outcome.added == []
    assert "machines that do not run: " in outcome.problems[0]


@pytest.mark.parametrize(
    ("tags", "name", "text"),
    [
        ({"gpucluster_set": "h100", "slurm_cluster": "other"}, "h100", "there is no set 'h100' in the cluster hpc"),
        ({"gpucluster_set": "h100", "slurm_cluster": "hpc"}, "h10", "did you mean 'h100'"),
        ({}, "h100", "there are none; run azure_up first"),
        ({"CycleCloudNodeArray": "hpc"}, "h100", "are CycleCloud's"),
        ({"gpucluster_set": "h100", "slurm_cluster": "hpc", "ClusterId": "x"}, "h100", "CycleCloud made"),
    ],
)
def test_a_set_that_is_not_ours_is_refused(tags: Body, name: str, text: str) -> None:
    arm = FakeArm({"x": 1})
    arm.tags = tags

    with pytest.raises(ScaleError, match=text):
        scale_sets.read(arm, GROUP, "hpc", name)


def test_the_name_of_a_machine_is_what_its_agent_says() -> None:
    arm = FakeArm({"h100": 1})
    arm.members["h100"][0]["properties"]["instanceView"]["computerName"] = "Hpc-GPU-1"

    (one,) = scale_sets.instances(scale_sets.read(arm, GROUP, "hpc", "h100"))

    assert one.node == "hpc-gpu-1"


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (RequestError(403, "AuthorizationFailed", "no"), "Virtual Machine Contributor"),
        (RequestError(409, "OperationNotAllowed", "something else"), ""),
        (RequestError(200, "ZonalAllocationFailed", "no"), "another zone"),
        (RequestError(409, "Conflict", "busy"), "in progress"),
    ],
)
def test_an_error_says_what_to_do(error: RequestError, text: str) -> None:
    assert text in plan.advice(error, spot=False)
    assert bool(plan.advice(error, spot=False)) == bool(text)


class ShortArm(FakeArm):
    """Its list of machines lacks the first one."""

    view: Body | None = None

    def rows(self, path: str, version: str, **query: str) -> list[Body]:
        found = super().rows(path, version, **query)
        return found[1:] if path.endswith("/virtualMachines") else found

    def get(self, path: str, version: str, **query: str) -> Body | None:
        return super().get(path, version, **query) if self.view is None else self.view


@pytest.mark.parametrize(
    "view",
    [
        None,
        {},
        {"virtualMachine": None},
        {"virtualMachine": {"statusesSummary": None}},
        {"virtualMachine": {"statusesSummary": [{"code": "ProvisioningState/succeeded"}]}},
        {"virtualMachine": {"statusesSummary": [{"code": "ProvisioningState/succeeded", "count": "3"}]}},
        {"virtualMachine": {"statusesSummary": ["ProvisioningState/succeeded"]}},
    ],
)
def test_a_list_that_lacks_a_machine_lowers_no_capacity(view: Body | None) -> None:
    """Azure would delete a machine of its choice, also one with jobs."""
    arm = ShortArm({"a": 4})
    arm.view = view
    said: list[str] = []
    scaler = Scaler(arm, lambda: scale_sets.read(arm, GROUP, "hpc", "h100", 100), lambda: 100.0, said.append)

    scaler.grow(4)

    number = 4 if view is None else "an unknown number of"
    assert f"a: Azure counts {number} machines and lists 3; the capacity stays" in said
    assert len(arm.members["a"]) == 4
