# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of Azure, nested as it nests them, as one message."""

from __future__ import annotations

import io
import json
import typing as t
import urllib.error
from email.message import Message
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine import reasons
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.client import Client, Place, RefusedError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_machine.reasons import causes, explained
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import NoAnswerError, RequestError
from ansible_collections.hpcai.gpucluster.tests.patience import cheap

AZURE = Path(__file__).parents[3] / "fixtures" / "azure"
FAILED = json.loads((AZURE / "operation_failed_overconstrained.json").read_text(encoding="utf-8"))
REFUSED = json.loads((AZURE / "refused_nested_allocation.json").read_text(encoding="utf-8"))
QUOTA = (
    "Operation could not be completed as it results in exceeding approved standardNDSH100v5Family Cores quota. "
    "Additional details - Deployment Model: Resource Manager, Location: southcentralus, Current Limit: 96, Current "
    "Usage: 0, Additional Required: 192, (Minimum) New Limit Required: 192. Submit a request for Quota increase at x"
)


def said(error: t.Any) -> str:
    return RequestError(400, "Outer", "outer", "id-7", causes=causes(error)).explained()


def test_a_quota_says_what_is_found_and_allowed() -> None:
    error = {"code": "InvalidTemplateDeployment", "details": [{"code": "QuotaExceeded", "message": QUOTA}]}

    assert said(error) == (
        "the quota standardNDSH100v5Family in southcentralus is too small: 192 more vCPUs are asked for, 0 are in use, "
        "96 are allowed; ask for a quota of at least 192, or take fewer or smaller machines (request id id-7)"
    )


@pytest.mark.parametrize("code", sorted(reasons.ADVICE))
def test_each_known_code_has_advice(code: str) -> None:
    assert said({"code": code, "message": "Because."}).startswith(f"{code}: Because; {reasons.ADVICE[code]}")


def test_errors_that_are_json_inside_a_message_are_opened() -> None:
    inner = {"error": {"code": "OperationNotAllowed", "message": "too many", "target": "/x/providers/A.B/c/n"}}
    error = {"code": "DeploymentFailed", "details": [{"code": "Conflict", "message": json.dumps(inner)}]}

    assert said(error) == "A.B/c n: OperationNotAllowed: too many (request id id-7)"


@pytest.mark.parametrize("error", [None, "text", [], {}, {"details": "x"}, {"details": [None]}])
def test_an_error_without_content_falls_back_to_the_answer(error: t.Any) -> None:
    assert said(error) == "Outer: outer (request id id-7)"


def test_two_reasons_are_both_said_once() -> None:
    one, two = {"code": "A", "message": "a"}, {"code": "B", "message": "b"}

    assert said({"code": "X", "details": [one, two, one]}) == "A: a; B: b (request id id-7)"


def test_errors_nested_without_end_are_cut() -> None:
    error: dict[str, t.Any] = {"code": "Leaf", "message": "leaf"}
    for _level in range(30):
        error = {"code": "Level", "message": "level", "details": [error]}

    assert said(error) == "Level: level (request id id-7)"


def test_no_answer_is_said_as_it_is() -> None:
    assert NoAnswerError("Azure cannot be reached").explained() == "Azure cannot be reached"


NESTED = (
    "AllocationFailed: Allocation failed. We do not have sufficient capacity for the requested VM size in this region; "
    f"{reasons.ADVICE['allocationfailed']}"
)


def test_a_failed_operation_names_the_instance_its_constraints_and_what_to_do() -> None:
    assert explained(causes(FAILED)) == (
        "11: OverconstrainedZonalAllocationRequest: Allocation failed. VM(s) with the following constraints cannot be "
        "allocated, because the condition is too restrictive. Constraints applied are: - Availability Zone - VM Size; "
        "no place fits all constraints; try another zone or take fewer machines"
    )


@pytest.mark.parametrize("before", ["", "At least one resource failed: ", "{x} failed with "])
@pytest.mark.parametrize("key", ["details", "innererror", "message"])
def test_a_refusal_names_its_innermost_code(before: str, key: str) -> None:
    inner = REFUSED["error"]["details"][0]
    inner = {**inner, "message": before + inner["message"]}
    error = {"details": [inner], "innererror": inner, "message": inner["message"]}[key]

    assert explained(
        causes({"error": {"code": "DeploymentFailed", "message": "At least one failed.", key: error}})
    ) == (NESTED)


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (
            "",
            "The requested VM size Standard_ND96isr_H100_v5 is not available in the current region.",
            "skunotavailable",
        ),
        (
            "BadRequest",
            "The requested size for resource '/x' is currently not available in location 'westus' zones '1'.",
            "skunotavailable",
        ),
        ("Conflict", "Following SKUs have failed for Capacity Restrictions: Standard_D4s_v3", "skunotavailable"),
        (
            "RollingUpgradeFailed",
            "Rolling upgrade stopped. Allocation failed. We do not have sufficient capacity for the requested VM size "
            "in this zone.",
            "zonalallocationfailed",
        ),
        (
            "MaxUnhealthyInstancePercentExceededInRollingUpgrade",
            "Rolling upgrade failed; instance 4: error code 'OverconstrainedZonalAllocationRequest'.",
            "overconstrainedzonalallocationrequest",
        ),
        (
            "VMStartTimedOut",
            "Allocation failed. VM(s) with the following constraints cannot be allocated.",
            "overconstrainedallocationrequest",
        ),
        ("OperationNotAllowed", "Operation results in exceeding quota limits of Core.", "quotaexceeded"),
        (
            "InvalidTemplateDeployment",
            "Deployment failed with multiple errors: 'Authorization failed for template resource 'x' of type "
            "'Microsoft.Authorization/roleDefinitions'. The client 'a' with object id 'b' does not have permission to "
            "perform action 'Microsoft.Authorization/roleDefinitions/write' at scope '/subscriptions/x'.'",
            "authorizationfailed",
        ),
    ],
)
def test_a_reason_in_a_text_gets_the_advice_of_its_code(code: str, text: str, kind: str) -> None:
    (one,) = causes({"error": {"code": code, "message": text}})

    assert one.kind == kind
    assert explained([one]) == f"{code or 'Error'}: {text.rstrip('.')}; {reasons.ADVICE[kind]}"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("AuthorizationFailed", "no right to read the quota of a VM size that is not available"),
        ("MaxUnhealthyInstancePercentExceededInRollingUpgrade", "Rolling upgrade failed: too many unhealthy VMs."),
        ("PublicIPCountLimitReached", "Cannot create more addresses; the allocation failed in this subnet."),
        ("OperationNotAllowed", "The VM is being deleted."),
    ],
)
def test_a_text_without_a_known_reason_gets_no_other_advice(code: str, text: str) -> None:
    assert causes({"code": code, "message": text})[0].kind == code.lower()


def test_a_policy_that_is_quoted_is_no_reason_of_its_own() -> None:
    text = 'Resource \'x\' was disallowed. Policy identifiers: \'[{"policyAssignment":{"name":"sizes"}}]\'.'

    assert explained(causes({"code": "RequestDisallowedByPolicy", "message": text})).startswith(
        f"RequestDisallowedByPolicy: {text.rstrip('.')}; a policy"
    )


def test_one_reason_of_many_resources_is_said_once() -> None:
    many = [{"code": "A", "message": "a", "target": str(number)} for number in range(5)]

    assert explained(causes({"code": "X", "details": many})) == "0, 1, 2 and 2 more: A: a"


@pytest.mark.parametrize(
    ("status", "body", "text"),
    [
        (409, REFUSED, f"409 {NESTED}"),
        (
            400,
            {"error": "invalid_request", "error_description": "Identity not found"},
            "400 invalid_request: Identity not",
        ),
        (403, {"error": {"code": "AuthorizationFailed", "message": "no"}}, "azure_up.yml gives it"),
        (403, {}, "403 why; the identity of the controller lacks this right"),
        (403, {"error": {"code": "RequestDisallowedByPolicy", "message": "no"}}, "no; a policy of the subscription"),
        (500, b"<html>", "500 why"),
    ],
)
def test_a_request_from_a_machine_says_the_reason(status: int, body: t.Any, text: str) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()

    class Opener:
        def open(self, *_args: t.Any, **_more: t.Any) -> t.Any:
            raise urllib.error.HTTPError("http://x", status, "why", Message(), io.BytesIO(content))

    asking = Client(Place("http://x", "http://x", ""))
    asking._local = t.cast("t.Any", Opener())
    with pytest.raises(RefusedError) as caught:
        asking.metadata("/metadata/instance", {})

    assert text in str(caught.value)


@pytest.mark.parametrize(
    "more",
    [
        {"innererror": {"message": "at Microsoft.X.Y()", "stacktrace": "z"}},
        {"details": [{"message": "Correlation 1234"}]},
        {"message": 'No machine is free. Parameters: {"message": "Only EU"}'},
    ],
)
def test_what_is_inside_without_a_code_hides_no_code(more: dict[str, t.Any]) -> None:
    error = {"code": "AllocationFailed", "message": "No machine is free.", **more}

    assert [one.code for one in reasons.causes(error)] == ["AllocationFailed"]


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("SubnetIsFull", "The subnet does not have enough capacity for 20 IP addresses; the VM cannot be created."),
        ("PlatformImageNotFound", "The platform image with sku 'x' is not available."),
        ("StorageFull", "The file share exceeded its quota."),
        ("PublicIPCountLimitReached", "The quota of public addresses is used."),
        ("InvalidParameter", "The specified disk size 4 GiB is not valid."),
        ("InvalidParameter", "The VM size is fine, but the value of adminPassword is not valid."),
    ],
)
def test_a_reason_that_is_no_lack_of_machines_gets_no_advice_about_machines(code: str, message: str) -> None:
    assert reasons.causes({"code": code, "message": message})[0].kind == code.lower()


def test_a_message_with_many_braces_takes_no_long_time() -> None:
    with cheap(0.1):
        assert reasons.causes({"code": "X", "message": '{"' * 100_000})[0].code == "X"
