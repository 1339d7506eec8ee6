# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stand-in for Azure refuses what Azure refuses; its scale sets, quotas and metadata service do as they say."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.tests.azure_server import instances
from ansible_collections.hpcai.gpucluster.tests.azure_server.client import SUBSCRIPTION
from ansible_collections.hpcai.gpucluster.tests.azure_server.faults import NAMED
from ansible_collections.hpcai.gpucluster.tests.azure_server.service import Direct, State

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hpc-rg"
SET = f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/hpc"
FLEET: dict[str, t.Any] = {"id": SUBSCRIPTION, "uniform": [["hpc", 3]]}
EVENT = {"EventId": "1", "EventType": "Preempt", "EventStatus": "Scheduled", "Resources": ["hpc_0"]}


class Server:
    """One fleet."""

    def __init__(self, **spec: t.Any) -> None:
        self.direct = Direct(subscriptions=[FLEET], **spec)

    def __call__(self, method: str, path: str, body: t.Any = None) -> tuple[int, t.Any]:
        """Return status and answer, without waiting for the operation."""
        status, _headers, content = self.direct(method, f"https://azure.test{path}?api-version=1", body)
        return status, json.loads(content) if content else {}

    def names(self) -> list[str]:
        self("GET", SET)
        return [one["instanceId"] for one in self.direct.state.subscriptions[0].instances[SET.lower()]]

    def power(self) -> list[str]:
        self("GET", SET)
        rows = self.direct.state.subscriptions[0].instances[SET.lower()]
        return [one["properties"]["instanceView"]["statuses"][-1]["code"] for one in rows]


def test_a_set_grows_and_shrinks_by_its_capacity() -> None:
    server = Server()

    status, answer = server("PATCH", SET, {"sku": {"capacity": 5}})
    grown = server.names()
    server("PATCH", SET, {"sku": {"capacity": 1}})

    assert (status, answer["properties"]["provisioningState"]) == (200, "Updating")
    assert (grown, server.names()) == (["0", "1", "2", "3", "4"], ["0"])


def test_named_instances_are_deleted_and_the_capacity_follows() -> None:
    server = Server()

    assert server("POST", f"{SET}/delete", {"instanceIds": ["1"]})[0] == 202
    assert server.names() == ["0", "2"]
    assert server("GET", SET)[1]["sku"]["capacity"] == 2
    assert server("POST", f"{SET}/delete", {})[1]["error"]["code"] == "InvalidParameter"
    assert server("POST", f"{SET}/delete", {"instanceIds": ["7"]})[0] == 400


@pytest.mark.parametrize("action", sorted(instances.POWER))
def test_an_action_sets_the_power_of_the_named_instances(action: str) -> None:
    server = Server()

    assert server("POST", f"{SET}/{action}", {"instanceIds": ["0"]})[0] == 202
    assert server.power() == [f"PowerState/{instances.POWER[action]}", *["PowerState/running"] * 2]


def test_a_quota_refuses_more_machines_and_is_listed() -> None:
    server = Server(quotas={"standardNDSH100v5Family": 300})

    server("PATCH", SET, {"sku": {"capacity": 4}})
    usages = server("GET", f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/x/usages")[1]["value"]

    assert len(server.names()) == 3
    assert (usages[0]["currentValue"], usages[0]["limit"]) == (288, 300)


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", f"/subscriptions/{SUBSCRIPTION}/resourcegroups/none", None, "ResourceGroupNotFound"),
        ("PUT", f"{GROUP}/providers/Microsoft.Resources/deploymentStacks/s", {}, "InvalidRequestContent"),
        ("POST", f"{GROUP}/providers/Microsoft.Resources/deployments/d/whatIf", {"properties": {}}, "InvalidRequest"),
        ("GET", f"{GROUP}/providers/Microsoft.Network/virtualNetworks/none", None, "ResourceNotFound"),
        ("PUT", f"/subscriptions/{SUBSCRIPTION}/resourcegroups/hpc-rg", {"location": "x"}, "InvalidResourceGroupLoc"),
        ("POST", f"{GROUP}/nothing", {}, "NotFound"),
    ],
)
def test_what_azure_refuses_is_refused(method: str, path: str, body: t.Any, code: str) -> None:
    status, answer = Server()(method, path, body)

    assert 400 <= status < 500
    assert answer["error"]["code"].startswith(code)


def test_the_metadata_service_wants_its_header_and_acknowledges_events() -> None:
    state = State({"imds": {"events": [dict(EVENT)], "machine": {"name": "hpc_0", "tagsList": []}}})

    def ask(method: str, path: str, body: bytes = b"", marked: bool = True) -> tuple[int, t.Any]:
        status, _headers, content = state.answer(method, f"/metadata/{path}?api-version=1", "", "", body, marked)
        return status, json.loads(content) if content else {}

    assert ask("GET", "scheduledevents", marked=False)[0] == 400
    assert ask("GET", "scheduledevents")[1] == {"DocumentIncarnation": 1, "Events": [EVENT]}
    assert ask("POST", "scheduledevents", b'{"StartRequests": [{"EventId": "2"}]}')[0] == 400
    assert ask("POST", "scheduledevents", b'{"StartRequests": [{"EventId": "1"}]}')[0] == 200
    assert ask("GET", "scheduledevents")[1]["Events"][0]["EventStatus"] == "Started"
    assert ask("GET", "instance")[1]["compute"]["name"] == "hpc_0"
    token = ask("GET", "identity/oauth2/token")[1]["access_token"]
    assert state.answer("GET", "/subscriptions?api-version=1", "", token, b"")[0] == 200


def test_there_are_at_least_twenty_faults_and_each_is_of_one_kind() -> None:
    assert len(NAMED) >= 20
    for rows in NAMED.values():
        for one in rows:
            assert ("match" in one) != ("stage" in one)


@pytest.mark.parametrize(("number", "name"), [(0, "n000000"), (35, "n00000Z"), (36, "n000010"), (99, "n00002R")])
def test_host_names_count_to_the_base_of_36(number: int, name: str) -> None:
    assert instances.computer_name("n", number) == name
