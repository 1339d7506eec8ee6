# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Errors of Azure, nested as it nests them, as one message."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import NoAnswerError, RequestError, causes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_stack import explain

QUOTA = (
    "Operation could not be completed as it results in exceeding approved standardNDSH100v5Family Cores quota. "
    "Additional details - Deployment Model: Resource Manager, Location: southcentralus, Current Limit: 96, Current "
    "Usage: 0, Additional Required: 192, (Minimum) New Limit Required: 192. Submit a request for Quota increase at x"
)


def said(error: t.Any) -> str:
    return explain.message(RequestError(400, "Outer", "outer", "id-7", causes=causes(error, str)))


def test_a_quota_says_what_is_found_and_allowed() -> None:
    error = {"code": "InvalidTemplateDeployment", "details": [{"code": "QuotaExceeded", "message": QUOTA}]}

    assert said(error) == (
        "the quota standardNDSH100v5Family in southcentralus is too small: 192 more vCPUs are asked for, 0 are in use, "
        "96 are allowed; ask for a quota of at least 192, or take fewer or smaller machines (request id id-7)"
    )


@pytest.mark.parametrize("code", sorted(explain.ADVICE))
def test_each_known_code_has_advice(code: str) -> None:
    assert said({"code": code, "message": "Because."}).startswith(f"{code}: Because; {explain.ADVICE[code]}")


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
    assert explain.message(NoAnswerError("Azure cannot be reached")) == "Azure cannot be reached"
