# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task that never fails says why any status is fine; any other names the statuses that are no failure."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none

ROOT = Path(__file__).parents[3]
PATHS = sorted(path for part in ("playbooks", "roles", "molecule") for path in (ROOT / part).rglob("*.yml"))
REASON = "# Any status is fine: "


def unexplained(text: str) -> list[int]:
    """Return the lines that ignore each failure without a comment right above that gives the reason."""
    lines = text.splitlines()
    return [
        number
        for number, line in enumerate(lines)
        if line.strip() == "failed_when: false" and not lines[number - 1].strip().startswith(REASON)
    ]


def test_a_task_that_never_fails_says_why() -> None:
    expect_none(
        f"{path.relative_to(ROOT)}:{number + 1}: say on the line above why any status is fine: {REASON}..."
        for path in PATHS
        for number in unexplained(path.read_text(encoding="utf-8"))
    )


def test_a_task_without_a_reason_is_found() -> None:
    assert unexplained("- x\n  # why\n  failed_when: false\n  # Any status is fine: y\n  failed_when: false") == [2]


def fails(path: str, **results: t.Mapping[str, t.Any]) -> bool:
    """Return whether the task that registers the result calls it a failure, by Ansible's own templating."""
    role = (ROOT / path).parents[1]
    name = next(iter(results))
    (task,) = (task for task in yaml_load((ROOT / path).read_text("utf-8")) if task.get("register") == name)
    variables = yaml_load((role / "vars/main.yml").read_text("utf-8")) if (role / "vars").is_dir() else {}
    templar = Templar(loader=DataLoader(), variables={**variables, **results})
    given = task["failed_when"] if isinstance(task["failed_when"], list) else [task["failed_when"]]
    return all(templar.evaluate_conditional(trust_as_template(str(one))) for one in given)


@pytest.mark.parametrize(("code", "expected"), [(0, False), (1, False), (3, False), (127, True), (None, True)])
def test_a_wait_for_the_database_that_breaks_is_a_failure(code: int | None, expected: bool) -> None:
    found = {} if code is None else {"rc": code}

    assert fails("roles/slurm/tasks/database_convert.yml", __slurm_converted=found) is expected


@pytest.mark.parametrize(("code", "expected"), [(0, False), (2, False), (124, False), (1, True), (127, True)])
def test_a_validation_that_does_not_start_is_a_failure(code: int, expected: bool) -> None:
    assert fails("molecule/validate/tasks/run.yml", __verify_run={"rc": code}) is expected
