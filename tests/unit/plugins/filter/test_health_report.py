# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter health_report as playbooks call it."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.health_report import FilterModule

health_report = FilterModule().filters()["health_report"]


def said(node: str, **statuses: str) -> str:
    checks = [{"check": name, "status": status, "reason": f"because {name}"} for name, status in statuses.items()]
    return json.dumps({"node": node, "status": "x", "checks": checks})


def test_one_line_per_check_and_one_column_per_node() -> None:
    found = health_report(
        [
            said("gpu1", gpu_count="healthy", raid="not applicable"),
            said("gpu20", gpu_count="unhealthy", raid="not applicable"),
        ],
        ["gpu1", "gpu20", "gpu3"],
    )

    assert found["table"] == ["check      gpu1  gpu20", "gpu_count  ok    SICK", "gpu3: no answer"]
    assert found["faults"] == [
        {"node": "gpu20", "check": "gpu_count", "status": "unhealthy", "reason": "because gpu_count"}
    ]
    assert found["missing"] == ["gpu3"]
    assert found["summary"] == ["gpu20: gpu_count: unhealthy: because gpu_count", "gpu3: no answer"]
    assert not found["healthy"]


@pytest.mark.parametrize(
    ("outputs", "expected", "healthy"),
    [
        ([said("a", memory="healthy")], ["a"], True),
        ([said("a", memory="healthy", raid="not applicable")], [], True),
        ([said("a", memory="healthy", dcgm="not run")], [], False),
        ([said("a", raid="not applicable")], [], False),
        ([said("a", memory="unknown")], ["a"], False),
        ([said("a", memory="suspect")], ["a"], False),
        ([said("a", memory="healthy")], ["a", "b"], False),
        ([], [], False),
        ([""], [], False),
        (["srun: error: a: task 0: Exited with exit code 1\n" + said("a", memory="healthy")], ["a"], True),
        (["0: " + said("a", memory="healthy") + "  "], ["a"], True),
        ([said("a", memory="healthy")[:-4]], ["a"], False),
        (['{"node": "a"}'], ["a"], False),
        (['{"node": "a", "checks": []}'], ["a"], False),
    ],
)
def test_only_answers_make_a_node_healthy(outputs: list[str], expected: list[str], healthy: bool) -> None:
    assert health_report(outputs, expected)["healthy"] is healthy


@pytest.mark.parametrize(
    ("statuses", "status", "summary"),
    [
        ({"memory": "healthy", "raid": "not applicable"}, "healthy", []),
        (
            {"memory": "healthy", "nvlink_allreduce": "not run"},
            "not run",
            ["a: nvlink_allreduce: not run: because nvlink_allreduce"],
        ),
        ({"raid": "not applicable"}, "not run", ["a: not run: none of the checks applies to it"]),
        (
            {"memory": "unhealthy", "dcgm": "not run"},
            "unhealthy",
            ["a: memory: unhealthy: because memory", "a: dcgm: not run: because dcgm"],
        ),
    ],
)
def test_what_did_not_run_is_named_and_neither_healthy_nor_sick(
    statuses: dict[str, str], status: str, summary: list[str]
) -> None:
    found = health_report([said("a", **statuses)])

    assert (found["status"], found["healthy"], found["summary"]) == (status, status == "healthy", summary)
    marks = {"not run": "not run", "not applicable": "-", "healthy": "ok", "unhealthy": "SICK"}
    assert [line.split(maxsplit=1)[1] for line in found["table"][1:]] == [
        marks[said_] for said_ in statuses.values() if said_ != "not applicable"
    ]


@pytest.mark.parametrize("outputs", ["text", None, [1], {"a": 1}])
def test_anything_but_outputs_is_refused(outputs: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match="expected a list of outputs"):
        health_report(outputs)
