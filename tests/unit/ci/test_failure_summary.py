# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last lines of a test run that failed, from recorded output of Molecule and pytest."""

from __future__ import annotations

import importlib.util
import typing as t
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
MOLECULE = ROOT / "tests/unit/fixtures/molecule/26.10.0"


@pytest.fixture(scope="module")
def program() -> t.Any:
    """Return the program as a module; it belongs to no package."""
    spec = importlib.util.spec_from_file_location("failure_summary", ROOT / ".ci/failure_summary.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_failed_task_is_named_with_its_scenario_step_host_and_message(program: t.Any) -> None:
    log = (MOLECULE / "verify_failed.log").read_text(encoding="utf-8")

    assert program.failures(log)[:3] == [
        "failed: scenario munge, step verify",
        "    control: Planted failure",
        "      stderr: 'ls: cannot access ''/nonexistent'': No such file or directory'",
    ]


def test_a_task_that_is_not_idempotent_is_named(program: t.Any) -> None:
    log = (MOLECULE / "idempotence_failed.log").read_text(encoding="utf-8")

    assert program.failures(log)[:3] == [
        "failed: scenario munge, step idempotence",
        "    CRITICAL Idempotence test failed because of the following tasks:",
        "    *  => Planted change",
    ]


def test_an_error_that_the_playbook_ignores_is_no_cause(program: t.Any) -> None:
    log = (MOLECULE / "verify_failed.log").read_text(encoding="utf-8").replace("PLAY RECAP", "...ignoring")

    assert program.failures(log) == ["failed: scenario munge, step verify"]


def test_the_last_gate_is_the_one_that_failed(program: t.Any) -> None:
    log = "\n== ruff check . (3 s)\n\n== python3 -m pytest tests/unit (9 s)\nE   ValueError: x\nFAILED a.py::b - x\n"

    assert program.failures(log) == [
        "failed: python3 -m pytest tests/unit",
        "    E   ValueError: x",
        "    FAILED a.py::b - x",
    ]


def test_a_gate_of_a_form_unknown_here_shows_its_last_lines(program: t.Any) -> None:
    assert program.failures("== yamllint --strict . (3 s)\na.yml\n  1:1  error  bad\n") == [
        "failed: yamllint --strict .",
        "    a.yml",
        "      1:1  error  bad",
    ]


def test_all_failures_fit_in_twenty_lines(program: t.Any) -> None:
    log = (MOLECULE / "verify_failed.log").read_text(encoding="utf-8")

    assert len(program.summary([log] * 9)) < 20
