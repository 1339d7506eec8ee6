# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A step reaches the one machine that has the address of the node; the stand-in for Azure answers."""

from __future__ import annotations

import json
import typing as t
from urllib.parse import urlsplit

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import (
    Answer,
    AzureError,
    Client,
    Place,
    RefusedError,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import azure
from ansible_collections.hpcai.gpucluster.tests.azure_server.client import SUBSCRIPTION
from ansible_collections.hpcai.gpucluster.tests.azure_server.service import Direct

if t.TYPE_CHECKING:
    import urllib.request

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/hpc-rg"
SET = f"{GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/hpc"
VM = f"{GROUP}/providers/Microsoft.Compute/virtualMachines/"
STEPS = ("redeploy", "reimage")
OPTIONS = {"subscription_id": SUBSCRIPTION, "resource_group": "hpc-rg"}


class Service(Client):
    """The client, whose requests go to the stand-in without a network."""

    def __init__(self, **spec: t.Any) -> None:
        super().__init__(Place("https://azure.test", "https://azure.test", ""), lambda _seconds: None)
        fleet = {"id": SUBSCRIPTION, "uniform": [["hpc", 3]], "vms": 2}
        self.direct = Direct(subscriptions=[fleet], **spec)
        self.direct.state.imds.machine["resourceId"] = f"{VM}control"
        self.posts: list[str] = []
        self.refusals: list[tuple[int, str]] = []  # for the next POST

    def _sent(self, _opener: t.Any, request: urllib.request.Request, what: str) -> Answer:
        url, token = urlsplit(request.full_url), str(request.get_header("Authorization") or "").partition(" ")[2]
        body = t.cast("bytes", request.data or b"")
        if request.get_method() == "POST":
            self.posts.append(f"{url.path} {body.decode()}".strip())
            if self.refusals:
                status, code = self.refusals.pop(0)
                raise RefusedError(f"{what}: {status} {code}", status)
        marked = request.get_header("Metadata") == "true"
        target = f"{url.path}?{url.query}"
        status, headers, content = self.direct.state.answer(
            request.get_method(), target, "https://azure.test", token, body, marked
        )
        found = json.loads(content) if content else {}
        if status >= 400:
            raise RefusedError(f"{what}: {found['error']['code']}", status)
        return Answer(found, None, headers.get("Azure-AsyncOperation") or headers.get("Location") or "")


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds


def machines(service: Service, found: dict[str, set[str]], clock: Clock | None = None) -> azure.Machines:
    clock = clock or Clock()
    return azure.Machines(service, OPTIONS, lambda: clock.now, clock.pause, lambda host: found.get(host, set()))


def address(service: Service, machine: str) -> str:
    """Return the private address of a machine."""
    own = service.direct.state.subscriptions[0]
    nics = [*own.nics, *(nic for rows in own.instance_nics.values() for nic in rows)]
    (nic,) = (one for one in nics if one["properties"]["virtualMachine"]["id"].lower() == machine.lower())
    return str(nic["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"])


def a_vm(service: Service) -> str:
    return str(service.direct.state.subscriptions[0].machines[1]["id"])


@pytest.mark.parametrize("step", STEPS)
def test_an_instance_of_a_scale_set_is_named_to_its_set(step: str) -> None:
    service = Service()
    found = {"gpu2": {address(service, f"{SET}/virtualMachines/1")}}

    assert machines(service, found).do(step, "gpu2", 600) == f"{SET}/virtualMachines/1"
    assert service.posts == [f'{SET}/{step} {{"instanceIds": ["1"]}}']


@pytest.mark.parametrize("step", STEPS)
def test_a_virtual_machine_has_its_own_request(step: str) -> None:
    service = Service()
    machine = a_vm(service)

    assert machines(service, {"gpu2": {address(service, machine)}}).do(step, "gpu2", 600) == machine
    assert service.posts == [f"{machine}/{step}"]


def test_a_host_without_a_machine_is_refused() -> None:
    service = Service()

    with pytest.raises(AzureError, match=r"machines with the address of gpu2 \(192.0.2.1\): none"):
        machines(service, {"gpu2": {"192.0.2.1"}}).do("redeploy", "gpu2", 600)
    assert service.posts == []


def test_an_address_of_two_machines_is_refused() -> None:
    service = Service()
    both = {address(service, f"{SET}/virtualMachines/0"), address(service, f"{SET}/virtualMachines/1")}

    with pytest.raises(AzureError, match=r"virtualMachines/0, .*virtualMachines/1"):
        machines(service, {"gpu2": both}).do("redeploy", "gpu2", 600)
    assert service.posts == []


def test_the_controller_itself_is_refused() -> None:
    service = Service()
    machine = a_vm(service)
    service.direct.state.imds.machine["resourceId"] = machine.upper()

    with pytest.raises(AzureError, match="is this controller"):
        machines(service, {"gpu2": {address(service, machine)}}).do("redeploy", "gpu2", 600)
    assert service.posts == []


@pytest.mark.parametrize("status", [408, 409, 500, 503])
def test_a_busy_machine_is_asked_again(status: int) -> None:
    service, clock = Service(), Clock()
    found = {"gpu2": {address(service, f"{SET}/virtualMachines/1")}}
    service.refusals = [(status, "Busy")] * 3

    machines(service, found, clock).do("redeploy", "gpu2", 600)

    assert (len(service.posts), clock.now) == (4, 40.0)


def test_a_machine_that_stays_busy_is_given_up() -> None:
    service = Service()
    service.refusals = [(409, "Conflict")] * 99

    with pytest.raises(AzureError, match="409 Conflict"):
        machines(service, {"gpu2": {address(service, a_vm(service))}}).do("redeploy", "gpu2", 60)
    assert len(service.posts) == 7


def test_a_missing_right_is_said_at_once() -> None:
    service = Service()
    service.refusals = [(403, "AuthorizationFailed")]

    with pytest.raises(AzureError, match="403 AuthorizationFailed"):
        machines(service, {"gpu2": {address(service, a_vm(service))}}).do("redeploy", "gpu2", 600)
    assert len(service.posts) == 1


class Following(Client):
    """A client whose operation answers what a test wants."""

    def __init__(self, *answers: Answer | AzureError) -> None:
        self.answers = list(answers)

    def ask(self, method: str, path: str, query: t.Mapping[str, str], body: t.Any = None) -> Answer:
        answer = Answer({}, None, "https://azure.test/operations/1") if method == "POST" else self.answers.pop(0)
        if isinstance(answer, AzureError):
            raise answer
        return answer

    def rows(self, path: str, query: t.Mapping[str, str]) -> list[dict[str, t.Any]]:
        configuration = {"properties": {"privateIPAddress": "10.0.0.9"}}
        nic = {"virtualMachine": {"id": f"{VM}gpu"}, "ipConfigurations": [configuration]}
        # An interface without a machine belongs to nobody.
        free = {"ipConfigurations": [configuration]}
        return [{"properties": nic}, {"properties": free}] if path.endswith("/networkInterfaces") else []

    def metadata(self, path: str, query: dict[str, str]) -> dict[str, t.Any]:
        return {"compute": {"resourceId": f"{VM}control"}}


@pytest.mark.parametrize("said", [{}, {"compute": None}, {"compute": {"resourceId": ""}}])
def test_a_controller_that_does_not_know_its_own_machine_changes_none(
    monkeypatch: pytest.MonkeyPatch, said: dict[str, t.Any]
) -> None:
    monkeypatch.setattr(Following, "metadata", lambda *_query: said)
    client = Following()

    with pytest.raises(AzureError, match="does not say which machine is this controller"):
        azure.Machines(client, OPTIONS, lambda: 0.0, lambda _seconds: None, lambda _host: {"10.0.0.9"}).do(
            "redeploy", "gpu", 60
        )


RUNS = Answer({"status": "InProgress"}, None, "")
ENDED = Answer({"status": "Succeeded"}, None, "")
ACCEPTED = Answer({}, None, "https://azure.test/operationresults/1")
DONE = Answer({}, None, "")


@pytest.mark.parametrize(
    "answers",
    [
        [ENDED],
        [RUNS, RUNS, ENDED],
        [ACCEPTED, ACCEPTED, DONE],
        [RUNS, AzureError("no answer: timed out"), RefusedError("busy", 503), ENDED],
    ],
)
def test_an_operation_is_followed_to_its_end(answers: list[Answer | AzureError]) -> None:
    client, clock = Following(*answers), Clock()
    found = azure.Machines(client, OPTIONS, lambda: clock.now, clock.pause, lambda _host: {"10.0.0.9"})

    assert found.do("redeploy", "gpu1", 600) == f"{VM}gpu"
    assert client.answers == []
    assert clock.now == 10.0 * len(answers)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            Answer({"status": "Failed", "error": {"code": "Allocation", "message": "no room"}}, None, ""),
            "Allocation: no",
        ),
        (
            Answer(
                {
                    "status": "Failed",
                    "error": {
                        "code": "X",
                        "message": "'Failed'",
                        "details": [{"code": "AllocationFailed", "message": "y"}],
                    },
                },
                None,
                "",
            ),
            "^AllocationFailed: y; Azure has no free machines",
        ),
        (Answer({"status": "Canceled"}, None, ""), "canceled"),
        (RefusedError("GET: 404 Gone", 404), "404 Gone"),
        (RUNS, "redeploy of .* did not end within 60 s"),
    ],
)
def test_an_operation_that_fails_or_never_ends_is_an_error(answer: Answer | AzureError, words: str) -> None:
    client, clock = Following(*[answer] * 99), Clock()
    found = azure.Machines(client, OPTIONS, lambda: clock.now, clock.pause, lambda _host: {"10.0.0.9"})

    with pytest.raises(AzureError, match=words):
        found.do("redeploy", "gpu1", 60)
    assert clock.now <= 60


def test_a_host_has_its_addresses() -> None:
    assert "127.0.0.1" in azure.addresses("127.0.0.1")
    with pytest.raises(AzureError, match=r"^no-such-host\.invalid has no address"):
        azure.addresses("no-such-host.invalid")
