# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What we send, and what the stand-in answers, has the shape of the models of Microsoft's SDK."""

from __future__ import annotations

import copy
import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.client import Client
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.session import Session
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.stack import Stack, StackError, Wanted
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack.writer import Writer
from ansible_collections.hpcai.gpucluster.tests.azure_server.client import SUBSCRIPTION
from ansible_collections.hpcai.gpucluster.tests.azure_server.example import TEMPLATE
from ansible_collections.hpcai.gpucluster.tests.azure_server.service import Direct
from ansible_collections.hpcai.gpucluster.tests.unit.support import arm_schema

_DEPLOYMENTS, _STACKS = "azure.mgmt.resource.deployments.models", "azure.mgmt.resource.deploymentstacks.models"
# By the end of the method and path: the models of the request and of the answer.
MODELS = {
    "POST validate": ((_DEPLOYMENTS, "Deployment"), (_DEPLOYMENTS, "DeploymentValidateResult")),
    "POST whatIf": ((_DEPLOYMENTS, "DeploymentWhatIf"), None),
    "PUT training": ((_STACKS, "DeploymentStack"), (_STACKS, "DeploymentStack")),
    "GET training": (None, (_STACKS, "DeploymentStack")),
    "POST exportTemplate": (None, (_STACKS, "DeploymentStackTemplateDefinition")),
}


class Exchange(t.NamedTuple):
    """One request with its answer."""

    what: str
    body: t.Any
    status: int
    answer: t.Any


def _recorded() -> list[Exchange]:
    """Return the requests of a life: refused, failed, made, edited, and removed."""
    direct = Direct(subscriptions=[{"id": SUBSCRIPTION}], faults=["half_then_failed"])
    found: list[Exchange] = []

    def send(method: str, url: str, body: t.Any) -> t.Any:
        status, headers, content = direct(method, url, body)
        path = url.partition("?")[0]
        answer = json.loads(content) if content else {}
        found.append(Exchange(f"{method} {path.rpartition('/')[2]}", copy.deepcopy(body), status, answer))
        if "/operationresults/" in path and "properties" in answer:
            found.append(Exchange("GET result", None, status, answer))
        return status, headers, content

    client = Client(send, "https://azure.test")
    template = copy.deepcopy(TEMPLATE)

    def stack() -> Stack:
        session = Session(client, Writer(client, Deadline(30)), SUBSCRIPTION, None)
        return Stack(session, Wanted("training", "training", "training-rg", "southcentralus", template))

    with pytest.raises(StackError):
        stack().present()
    stack().present()
    template["resources"][0]["tags"] = {"note": "x"}
    stack().present()
    stack().absent()
    return found


RECORDED = _recorded()


@pytest.mark.parametrize("what", MODELS)
def test_requests_and_answers_have_the_shape_of_the_models(what: str) -> None:
    exchanges = [one for one in RECORDED if one.what == what and one.status < 300]
    request, answer = MODELS[what]

    assert exchanges
    for one in exchanges:
        assert not request or arm_schema.shape_faults(*request, one.body) == []
        assert not answer or arm_schema.shape_faults(*answer, one.answer) == []


def test_the_result_of_what_if_has_the_shape_of_the_model() -> None:
    results = [one.answer for one in RECORDED if one.what == "GET result"]

    assert {change["changeType"] for one in results for change in one["properties"]["changes"]} >= {"Create", "Modify"}
    for one in results:
        assert arm_schema.shape_faults(_DEPLOYMENTS, "WhatIfOperationResult", one) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"denySetting": {}}, "denySetting: unknown to DeploymentStackProperties"),
        ({"denySettings": {"mode": "denyAll"}}, "'denyAll' is none of denyDelete"),
        ({"actionOnUnmanage": {"resourceGroups": "delete"}}, "resources: required by ActionOnUnmanage"),
    ],
)
def test_a_planted_fault_is_caught(change: dict[str, t.Any], fault: str) -> None:
    body = next(one.body for one in RECORDED if one.what == "PUT training")
    wrong = {**body, "properties": {**body["properties"], **change}}

    assert any(fault in one for one in arm_schema.shape_faults(_STACKS, "DeploymentStack", wrong))
