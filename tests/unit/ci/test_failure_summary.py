# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last lines of a test run that failed, from recorded output of Molecule and pytest."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.support.ci_program import ci_program

ROOT = Path(__file__).parents[3]
MOLECULE = ROOT / "tests/unit/fixtures/molecule/26.10.0"
# As ansible.builtin.assert fails, in the YAML result format.
ASSERTION = """TASK [Look at the verdict]
fatal: [localhost]: FAILED! =>
    assertion: 'report.checks |
  selectattr(''node'', ''eq'', ''gpu3'')
        == [''drained: Prolog error'']'
    changed: false
    evaluated_to: false
    msg: Assertion failed"""

# As ansible.builtin.shell fails when the first line of its errors is indented.
ERRORS = """TASK [Lose records, and restore them]
fatal: [control]: FAILED! =>
    changed: true
    rc: 1
    stderr: |4-
         Deleting users...
          ldapuser

        gpucluster-backup: systemctl start slurmctld failed: Job for slurmctld.service failed.
        See "systemctl status slurmctld.service" and "journalctl -xeu slurmctld.service" for details.
    stderr_lines: <omitted>
    stdout: ''"""

# As a module fails on one item of a loop.
ITEM = """TASK [Wait until the machines answer]
failed: [localhost] (item=gpu2) =>
    __lab_machine: gpu2
    changed: false
    elapsed: 60
    msg: gpu2 does not answer; 'podman logs gpucluster-lab100-gpu2' may say why"""


@pytest.fixture(scope="module")
def program() -> t.Any:
    """Return the program as a module; it belongs to no package."""
    return ci_program("failure_summary")


def test_a_failed_task_is_named_with_its_scenario_step_host_and_message(program: t.Any) -> None:
    log = (MOLECULE / "verify_failed.log").read_text(encoding="utf-8")

    assert program.failures(log)[:3] == [
        "failed: scenario munge, step verify",
        "    control: Planted failure",
        "      stderr: 'ls: cannot access ''/nonexistent'': No such file or directory'",
    ]


def test_a_failed_task_is_named_in_a_log_without_colours_as_well(program: t.Any) -> None:
    log = (MOLECULE / "verify_failed_plain.log").read_text(encoding="utf-8")

    assert program.failures(log) == [
        "failed: scenario training, step verify",
        "    localhost: Read who is slow",
        "      assertion: __verify_run.rc == 2",
        "      msg: Assertion failed",
    ]


def test_an_assertion_that_failed_is_shown_whole(program: t.Any) -> None:
    assert program.failures(ASSERTION)[1:] == [
        "    localhost: Look at the verdict",
        "      assertion: 'report.checks | selectattr(''node'', ''eq'', ''gpu3'') == [''drained: Prolog error'']'",
        "      msg: Assertion failed",
    ]


def test_errors_of_several_lines_are_shown_up_to_their_end(program: t.Any) -> None:
    host, errors = program.summary([ERRORS])[1:]

    assert host == "    control: Lose records, and restore them"
    assert errors.startswith("      stderr: |4- Deleting users... ldapuser")
    assert errors.endswith(' "systemctl status slurmctld.service" and "journalctl -xeu slurmctld.service" for details.')


def test_the_output_of_a_command_that_failed_is_shown_up_to_its_end(program: t.Any) -> None:
    log = ERRORS.replace("stdout: ''", "stdout: |-\n" + "        one of many lines\n" * 90 + "        the last one")

    shown = program.summary([log])[-1]
    assert shown.startswith("      stdout: |-")
    assert shown.endswith("one of many lines the last one")
    assert len(shown) == program.WIDTH


def test_an_item_of_a_loop_that_failed_is_a_cause(program: t.Any) -> None:
    assert program.failures(ITEM)[1:] == [
        "    localhost: Wait until the machines answer",
        "      msg: gpu2 does not answer; 'podman logs gpucluster-lab100-gpu2' may say why",
    ]


def test_a_step_without_a_known_cause_shows_its_last_lines(program: t.Any) -> None:
    log = (MOLECULE / "verify_failed.log").read_text(encoding="utf-8").replace("fatal: [", "broken: [")

    shown = program.failures(log)

    assert shown[1].startswith("    task: ")
    assert "    CRITICAL Ansible return code was 2" in shown[4]


def test_a_step_that_was_stopped_names_its_task(program: t.Any) -> None:
    log = (
        "== molecule test -s nfs (9 s)\nINFO     nfs ➜ verify: Executing\n  │ TASK [Write a file] ****\n"
        "\nStopped: the tests may take 60 s (GPUCLUSTER_TEST_SECONDS)\n"
    )

    assert program.failures(log) == [
        "failed: scenario nfs, step verify",
        "    task: Write a file",
        "    TASK [Write a file] ****",
        "    Stopped: the tests may take 60 s (GPUCLUSTER_TEST_SECONDS)",
    ]


def test_a_task_that_is_tried_again_is_no_cause(program: t.Any) -> None:
    log = "FAILED - RETRYING: [control]: It runs (30 retries left).\n" + ERRORS

    assert program.failures(log)[1] == "    control: Lose records, and restore them"


def test_a_task_that_is_not_idempotent_is_named(program: t.Any) -> None:
    log = (MOLECULE / "idempotence_failed.log").read_text(encoding="utf-8")

    assert program.failures(log)[:3] == [
        "failed: scenario munge, step idempotence",
        "    CRITICAL Idempotence test failed because of the following tasks:",
        "    *  => Planted change",
    ]


def test_an_error_that_the_playbook_ignores_is_no_cause(program: t.Any) -> None:
    log = (MOLECULE / "verify_failed.log").read_text(encoding="utf-8").replace("PLAY RECAP", "...ignoring")

    assert not [line for line in program.failures(log) if "nonexistent" in line]


def test_the_last_gate_is_the_one_that_failed(program: t.Any) -> None:
    log = "\n== ruff check . (3 s)\n\n== python3 -m pytest tests/unit (9 s)\nE   ValueError: x\nFAILED a.py::b - x\n"

    assert program.failures(log) == [
        "failed: python3 -m pytest tests/unit",
        "    E   ValueError: x",
        "    FAILED a.py::b - x",
    ]


def test_of_many_failures_each_cause_is_shown_once_and_without_the_way_through_the_program(program: t.Any) -> None:
    failure = """tests/a.py:29: in <module>
    SIZES = load()
a/records.py:47: in load
    return _one()
E   a.CatalogueError: a.yml: a wrong figure
E     one
E     two
E     three
"""
    again = failure.replace("E   ", "E       ")
    log = f"== pytest (3 s)\n{failure}____ ERROR ____\n{again}tests/b.py:9: AssertionError\n"

    assert program.failures(log) == [
        "failed: pytest",
        "    E   a.CatalogueError: a.yml: a wrong figure",
        "    E     one",
        "    E     two",
        "    tests/b.py:9: AssertionError",
    ]


def test_a_gate_of_a_form_unknown_here_shows_its_last_lines(program: t.Any) -> None:
    assert program.failures("== yamllint --strict . (3 s)\na.yml\n  1:1  error  bad\n") == [
        "failed: yamllint --strict .",
        "    a.yml",
        "      1:1  error  bad",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "plugins/modules/a.py:3:1: F401 `os` imported but unused",
        "docs/a.yml:2:5: [error] wrong indentation (indentation)",
        "plugins/action/a.py:7: error: Missing return statement  [return]",
        "roles/a/files/a.sh:5:24: note: Double quote to prevent globbing and word splitting. [SC2086]",
        "roles/a/tasks/main.yml:4: yaml[truthy]: Truthy value should be one of [false, true]",
        "ERROR: plugins/modules/a.py:0:0: missing-gplv3-license: GPLv3 license header not found",
    ],
)
def test_the_place_that_a_gate_names_is_shown(line: str, program: t.Any) -> None:
    log = f"== gate . (3 s)\n{line}\n" + "one more line\n" * 5

    assert program.failures(log)[1] == f"    {line}"


def test_all_failures_fit_in_twenty_lines(program: t.Any) -> None:
    log = (MOLECULE / "verify_failed.log").read_text(encoding="utf-8")

    assert len(program.summary([log] * 9)) < 20


def test_what_a_scenario_did_not_run_is_said_once_with_its_name(program: t.Any) -> None:
    log = """INFO     nhc \u279c verify: Executing
  \u2502 TASK [Say that this is not run] ***
  \u2502 ok: [gpu1] =>
  \u2502     msg: 'not run: LBNL NHC as provider (no mirror)'
  \u2502     msg: node.dcgm was not run
INFO     login \u279c prepare: Executing
  \u2502     msg: "not run: upstream enroot (no mirror)"
SKIPPED [1] tests/integration/a/test_b.py:183: not run: the example of DeepOps (no mirror)
SKIPPED [1] tests/integration/a/test_b.py:190: not on this system
"""

    assert program.not_run(["INFO     [health > verify] Executing\n    msg: 'not run: NHC (no mirror)'\n"]) == [
        "NHC (no mirror) [scenario health]"
    ]
    assert program.not_run([log, log]) == [
        "LBNL NHC as provider (no mirror) [scenario nhc]",
        "upstream enroot (no mirror) [scenario login]",
        "the example of DeepOps (no mirror)",
        "tests/integration/a/test_b.py (not on this system)",
    ]


def test_what_a_scenario_did_not_run_fits_into_a_line_of_its_log() -> None:
    texts = [path.read_text("utf-8") for path in ROOT.glob("molecule/*/*.yml")]
    said = [line for text in texts for line in re.findall(r"msg: .*\bnot run: .*", text)]

    assert len(said) > 1
    assert all(re.fullmatch(r'msg: "not run: [^"]{1,50}"', line) for line in said), said
