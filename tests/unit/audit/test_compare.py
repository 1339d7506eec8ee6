# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of the public audit has the verdicts of a real run, and a verdict that changes is noticed."""

from __future__ import annotations

import copy
import json
import re
import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.tests.audit import compare

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/testing.md").read_text(encoding="utf-8")
# What scenario audit of Molecule recorded with clustermax 0.2.1.
RESULT = json.loads((ROOT / "tests/unit/fixtures/clustermax/0.2.1.json").read_text(encoding="utf-8"))


@pytest.fixture
def result() -> dict[str, t.Any]:
    return copy.deepcopy(RESULT)


def faults(result: dict[str, t.Any], page: str = PAGE) -> list[str]:
    return compare.faults(compare.table(page), compare.found(result))


def test_the_page_says_what_a_real_run_found(result: dict[str, t.Any]) -> None:
    assert faults(result) == []
    assert compare.leaks(result) == []


def test_the_recorded_run_is_of_the_release_that_the_scenario_installs() -> None:
    requirements = (ROOT / "tests/audit/requirements.txt").read_text(encoding="utf-8")
    pins = re.findall(r"^([\w.-]+)==[\w.]+$", requirements, re.MULTILINE)

    assert f"clustermax=={RESULT['version']}" in requirements.splitlines()
    assert len(pins) == len([line for line in requirements.splitlines() if line and not line.startswith("#")])


def test_all_criteria_for_slurm_are_in_the_result() -> None:
    assert len(RESULT["criteria"]) == 59
    assert compare.found(RESULT).keys() == RESULT["criteria"].keys() | {compare.TOOLS}


def test_a_criterion_that_changes_is_noticed(result: dict[str, t.Any]) -> None:
    for key, old in RESULT["checks"].items():
        owners = [name for name, keys in RESULT["criteria"].items() if key in keys]
        changed = copy.deepcopy(result)
        changed["checks"][key] = "fail" if old != "fail" else "pass"
        rows = compare.table(PAGE)
        single = [name for name in owners if rows[name].audit != compare.HOST and len(RESULT["criteria"][name]) == 1]
        assert [name for name in single if not any(fault.startswith(f"{name}:") for fault in faults(changed))] == []


@pytest.mark.parametrize("tool", ["git", "jq"])
def test_a_missing_tool_is_noticed(tool: str, result: dict[str, t.Any]) -> None:
    result["values"]["access"]["essentialTools"][tool] = False

    assert faults(result) == ["essential-tools: the table has 'pass', the audit says 'warning'"]


def test_rows_that_are_missing_or_too_many_are_noticed(result: dict[str, t.Any]) -> None:
    result["criteria"]["new-criterion"] = []
    del result["criteria"]["prolog-fast"]

    assert faults(result) == [
        "new-criterion: the audit has it, the table does not",
        "prolog-fast: the table has it, the audit does not",
    ]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (compare.Row("fail", "pass", ""), "the verdict is pass, but the audit says 'fail'"),
        (compare.Row("pass", "fail", "no"), "the verdict is fail, but the audit says 'pass'"),
        (compare.Row("fail", "fail", ""), "needs a reason"),
        (compare.Row("host", "fail", "hardware"), "but the grade depends on the host"),
        (compare.Row("fail", "maybe", "no"), "the verdict is 'maybe'"),
    ],
)
def test_a_row_that_contradicts_itself_is_noticed(row: compare.Row, words: str) -> None:
    found = compare.faults({"lmod": row}, {"lmod": "fail" if row.audit == compare.HOST else row.audit})

    assert any(words in fault for fault in found), found


def test_the_worst_check_of_a_criterion_decides() -> None:
    result = {"criteria": {"pyxis": ["a", "b", "c"]}, "checks": {"a": "pass", "b": "warning", "c": "skipped"}}
    result["values"] = RESULT["values"]

    assert compare.found(result)["pyxis"] == "warning"


def test_a_location_in_the_result_is_a_leak(result: dict[str, t.Any]) -> None:
    result["values"]["serverLocation"]["externalIp"] = "192.0.2.1"

    assert compare.leaks(result) == ["the audit asked for its location: externalIp is 192.0.2.1"]


@pytest.mark.parametrize("name", ["prometheus", "nodeExporter"])
def test_monitoring_that_the_audit_does_not_detect_is_noticed(name: str, result: dict[str, t.Any]) -> None:
    assert compare.undetected(result) == []

    result["values"]["healthChecks"]["monitoringStack"][name] = False

    assert compare.undetected(result) == [f"the audit does not detect {name}"]


def test_the_audit_runs_without_a_way_out_and_outside_of_a_job() -> None:
    text = (ROOT / "molecule/audit/verify.yml").read_text(encoding="utf-8")
    tasks = yaml_load(text)[0]["tasks"]
    commands = {task["name"]: task.get("ansible.builtin.command", {}).get("argv", []) for task in tasks}
    run = next(task for task in tasks if commands[task["name"]][:1] == ["/opt/clustermax/venv/bin/cmax"])

    for name in ("http_proxy", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"):
        assert run["environment"][name] == "http://127.0.0.1:9"
    # In an allocation it would set the vboost clocks of the nodes.
    assert "srun" not in str(run)
    assert "patience" in run["timeout"]
