# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes and the operations that Azure continues by itself."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import (
    NoAnswerError,
    Redactor,
    RequestError,
    SlowError,
    ThrottledError,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import writer as module

HOST = "https://azure.test"
PATH = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets/h100"
VERSION = "2025-04-01"
OPERATION = f"{HOST}/operations/1?api-version=1"
STARTED = {"Azure-AsyncOperation": OPERATION, "Retry-After": "7"}


class Send:
    """Gives prepared answers (status, headers, body) or raises prepared errors, and notes what was asked."""

    def __init__(self, *answers: t.Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, method: str, url: str, body: t.Any) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(f"{method} {url.removeprefix(HOST).partition('?')[0]}")
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers, content = answer
        return status, headers, content if isinstance(content, bytes) else json.dumps(content).encode()


class Case:
    """A writer on prepared answers, with the pauses that it made."""

    def __init__(self, *answers: t.Any, seconds: float = 1000, secret: str = "") -> None:
        self.now = 0.0
        self.pauses: list[float] = []
        self.send = Send(*answers)
        client = Client(self.send, HOST, redact=Redactor(secret))
        self.writer = module.Writer(client, Deadline(seconds, lambda: self.now), self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds

    def put(self) -> t.Any:
        return self.writer.put(PATH, VERSION, {"a": 1})


def resource(state: str) -> dict[str, t.Any]:
    return {"name": "h100", "properties": {"provisioningState": state}}


def test_a_write_that_is_done_at_once_takes_one_request() -> None:
    case = Case((200, {}, resource("Succeeded")))

    assert case.put() == resource("Succeeded")
    assert case.send.asked == [f"PUT {PATH}"]


def test_an_operation_is_polled_as_often_as_azure_asks_and_the_resource_read_at_the_end() -> None:
    case = Case(
        (201, STARTED, resource("Creating")),
        (200, {"Retry-After": "3"}, {"status": "InProgress"}),
        (200, {}, {"status": "Succeeded"}),
        (200, {}, resource("Succeeded")),
    )

    assert case.put() == resource("Succeeded")
    assert case.pauses == [7, 3]
    assert case.send.asked == [f"PUT {PATH}", "GET /operations/1", "GET /operations/1", f"GET {PATH}"]


def test_without_an_operation_the_state_of_the_resource_is_followed() -> None:
    case = Case((200, {}, resource("Updating")), (200, {}, resource("Updating")), (200, {}, resource("Succeeded")))

    assert case.put() == resource("Succeeded")
    assert len(case.pauses) == 2


def test_an_operation_that_fails_names_the_innermost_reason() -> None:
    inner = json.dumps({"error": {"code": "AllocationFailed", "message": "no capacity s3cret-word", "target": "h100"}})
    error = {"code": "DeploymentFailed", "message": "see details", "details": [{"code": "Conflict", "message": inner}]}
    case = Case((202, STARTED, {}), (200, {}, {"status": "Failed", "error": error}), secret="s3cret-word")

    with pytest.raises(module.OperationFailedError) as caught:
        case.put()

    assert (caught.value.code, caught.value.causes[0].target) == ("AllocationFailed", "h100")
    assert "no capacity (hidden)" in str(caught.value)


@pytest.mark.parametrize("state", ["Failed", "Canceled"])
def test_a_resource_in_a_bad_state_is_an_error(state: str) -> None:
    with pytest.raises(module.OperationFailedError, match=state):
        Case((200, {}, resource(state))).put()


@pytest.mark.parametrize(
    "lost",
    [(404, {}, {}), (503, {}, {}), NoAnswerError("reset"), (410, {}, {})],
    ids=["404", "503", "no answer", "410"],
)
def test_a_lost_poll_is_replaced_by_the_resource_itself(lost: t.Any) -> None:
    case = Case((201, STARTED, {}), lost, (200, {}, resource("Creating")), (200, {}, resource("Succeeded")))

    assert case.put() == resource("Succeeded")


def test_a_poll_that_must_wait_too_long_is_no_lost_poll() -> None:
    case = Case((201, STARTED, {}), ThrottledError("Azure answered 429 and asks to wait 4000 s", 429))

    with pytest.raises(ThrottledError, match="4000 s"):
        case.put()


def test_a_poll_that_is_no_json_is_read_again_and_then_lost() -> None:
    html: t.Any = (200, {}, b"<html>")
    once = Case((201, STARTED, {}), html, (200, {}, {"status": "Succeeded"}), (200, {}, resource("Succeeded")))
    ever = Case(
        (202, {"Location": f"{HOST}/x", "Retry-After": "0"}, {}), html, html, html, (200, {}, resource("Deleting"))
    )
    ever.send.answers.append((404, {}, {}))

    assert once.put() == resource("Succeeded")
    assert ever.writer.delete(PATH, VERSION)
    assert ever.send.answers == []


def test_a_lost_poll_of_an_action_is_an_error_because_nothing_else_tells_its_end() -> None:
    case = Case((202, STARTED, {}), (404, {}, {}))

    with pytest.raises(NoAnswerError, match="accepted the request, and its progress cannot be read"):
        case.writer.post(f"{PATH}/reimage", VERSION)


def test_an_action_returns_its_result_from_the_location() -> None:
    case = Case(
        (202, {"Location": f"{HOST}/result/1", "Retry-After": "0"}, {}),
        (202, {"Location": f"{HOST}/result/2"}, {}),
        (200, {}, {"status": "Succeeded", "properties": {"changes": []}}),
    )

    assert case.writer.post(f"{PATH}/whatIf", VERSION, {}) == {"status": "Succeeded", "properties": {"changes": []}}
    assert case.send.asked[1:] == ["GET /result/1", "GET /result/2"]


def test_the_wait_ends_at_the_deadline_and_says_that_azure_continues() -> None:
    case = Case((201, STARTED, {}), *[(200, {"Retry-After": "7"}, {"status": "InProgress"})] * 9, seconds=20)

    with pytest.raises(SlowError, match=r"not finished after 20 s and continues; run again"):
        case.put()
    assert sum(case.pauses) <= 20


def test_the_token_goes_to_no_other_host() -> None:
    foreign = {"Azure-AsyncOperation": "https://evil.test/operations/1", "Retry-After": "0"}
    case = Case((201, foreign, {}), (200, {}, resource("Succeeded")))

    assert case.put() == resource("Succeeded")
    assert case.send.asked == [f"PUT {PATH}", f"GET {PATH}"]


def test_a_deletion_is_over_when_the_resource_is_gone() -> None:
    assert Case((204, {}, b"")).writer.delete(PATH, VERSION) is False
    assert Case((404, {}, {})).writer.delete(PATH, VERSION) is False
    case = Case((202, {"Location": f"{HOST}/x", "Retry-After": "0"}, {}), (404, {}, {}), (404, {}, {}))
    assert case.writer.delete(PATH, VERSION) is True
    assert case.send.asked[-1] == f"GET {PATH}"


def test_a_deletion_that_leaves_the_resource_is_an_error() -> None:
    case = Case((202, {"Location": f"{HOST}/x", "Retry-After": "0"}, {}), (404, {}, {}), (200, {}, resource("Failed")))

    with pytest.raises(module.OperationFailedError):
        case.writer.delete(PATH, VERSION)


def test_a_refused_poll_stays_a_refusal() -> None:
    case = Case((201, STARTED, {}), (403, {}, {"error": {"code": "AuthorizationFailed", "message": "no"}}))

    with pytest.raises(RequestError) as caught:
        case.put()
    assert caught.value.is_refusal()


def test_a_resource_that_vanishes_while_it_is_made_is_an_error() -> None:
    with pytest.raises(module.OperationFailedError, match="vanished"):
        Case((201, {}, resource("Creating")), (404, {}, {})).put()


def test_an_expired_token_is_renewed_once() -> None:
    case = Case((401, {}, {}), (200, {}, resource("Succeeded")))

    assert case.put() == resource("Succeeded")
    with pytest.raises(RequestError, match="401"):
        Case((401, {}, {}), (401, {}, {})).put()


def test_settled_waits_for_another_caller() -> None:
    case = Case((200, {"Retry-After": "2"}, resource("deploying")), (200, {}, resource("succeeded")))

    assert case.writer.settled(PATH, VERSION) == resource("succeeded")
    assert case.pauses == [2]
    assert Case((200, {}, resource("deleting")), (404, {}, {})).writer.settled(PATH, VERSION) is None


def test_an_unreadable_answer_to_a_write_is_replaced_by_the_resource() -> None:
    case = Case((200, {}, b"<html>"), (200, {}, b"{"), (200, {}, resource("Succeeded")))

    assert case.put() == resource("Succeeded")
