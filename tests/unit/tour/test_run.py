# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner of the tour runs what the page shows, and fails where the page is not true."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.tour import run as tour

PAGE = """
```console
$ first
one
$ second --option
two ...
```

```sh
not this
```

```console needs=containers
$ third
three
```
"""


class Shell:
    """Answers from a table, the last answer for ever."""

    def __init__(self, **answers: list[tuple[int, str]]) -> None:
        self.answers = answers
        self.calls: list[str] = []

    def __call__(self, command: str) -> tuple[int, str]:
        self.calls.append(command)
        given = self.answers[command.split()[0]]
        return given.pop(0) if len(given) > 1 else given[0]


def test_commands_are_run_in_their_order() -> None:
    shell = Shell(first=[(0, "srun: job 2 queued and waiting for resources\none\n")], second=[(0, "two and more \n")])

    assert tour.run(PAGE, shell) is None
    assert shell.calls == ["first", "second --option"]


def test_a_part_that_needs_more_is_not_run_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    tour.run(PAGE, Shell(first=[(0, "one")], second=[(0, "two x")]))
    assert "not run (no containers): third" in capsys.readouterr().out

    shell = Shell(first=[(0, "one")], second=[(0, "two x")], third=[(0, "four")])
    fault = tour.run(PAGE, shell, ["containers"])
    assert fault
    assert "$ third" in fault.text()


@pytest.mark.parametrize("answer", [(0, "two"), (0, "one\none"), (0, ""), (1, "one")])
def test_another_result_fails_and_ends_the_tour(answer: tuple[int, str]) -> None:
    shell = Shell(first=[answer])

    assert tour.run(PAGE, shell) is not None
    assert shell.calls == ["first"]


@pytest.mark.parametrize(
    ("printed", "cause"),
    [
        ("two\nthree", ["two", "three"]),
        ("x\n" * 90 + "    - 'FAIL: 1 of 9 checks failed'\n" + "y\n" * 90, ["    - 'FAIL: 1 of 9 checks failed'"]),
        ("x\n" * 90 + "last", ["x"] * 7 + ["last"]),
        ("    msg: x\n" * 90, ["    msg: x"] * 8),
        ("", []),
    ],
)
def test_the_cause_of_a_fault_fits_in_the_summary_of_a_run(printed: str, cause: list[str]) -> None:
    fault = tour.run(PAGE, Shell(first=[(2, printed)]))

    assert fault
    assert fault.cause().splitlines() == ["$ first: exit status 2", *cause]


def test_slurm_is_asked_again_and_a_change_is_made_once() -> None:
    page = "```console\n$ sinfo\nidle\n```\n"
    shell = Shell(sinfo=[(0, "mixed"), (0, "idle")])
    waits: list[t.Any] = []

    assert tour.run(page, shell, sleep=waits.append) is None
    assert len(shell.calls) == 2
    assert waits == [2]


def test_the_page_has_what_a_newcomer_wants_to_see() -> None:
    page = (Path(__file__).parents[3] / "docs/tour.md").read_text(encoding="utf-8")
    commands = "\n".join(step.command for step in tour.steps(page))

    for words in ("nvidia-smi -L", "fault=gpu_lost", "fault=none", "sinfo -R", "validate.yml", "--container-image"):
        assert words in commands
    assert page.count("```console") == len(tour._BLOCK.findall(page))
