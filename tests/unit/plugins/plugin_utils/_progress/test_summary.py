# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is printed: the line, and the summary."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import summary, text
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress.last_run import LastRun, Step
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress.tracker import Tracker
from ansible_collections.hpcai.gpucluster.tests.unit.support.ci_program import ci_program

ROOT = Path(__file__).parents[5]
STEPS = [
    Step("Compile Slurm once", 359.0),
    Step("Install packages", 12.0),
    Step("Gathering Facts", 0.5),
]


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-1, "0 s"), (8.4, "8 s"), (59.6, "1 min"), (80, "1 min 20 s"), (3599.9, "1 h"), (7500, "2 h 5 min")],
)
def test_seconds_are_said_as_people_do(seconds: float, words: str) -> None:
    assert text.duration(seconds) == words


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hpcai.gpucluster.slurm : Build | Compile Slurm", "Compile Slurm"),
        ("Install a | b : c", "c"),
        ("Gathering Facts", "Gathering Facts"),
        ("", ""),
    ],
)
def test_a_task_is_named_without_its_role(name: str, words: str) -> None:
    assert text.short_name(name) == words


def test_a_text_cannot_move_the_cursor() -> None:
    assert text.plain("a\n\x1b[2Jb\u00e9", 20) == "a ?[2Jb?"
    assert text.plain("x" * 30, 10) == "xxxxxxx..."


def started(clock: Clock) -> Tracker:
    """Return a run with two tasks done, in the midst of a long one that the last run had too."""
    tracker = Tracker(clock)
    tracker.last = LastRun([Step("One", 10.0), Step("Two", 10.0), Step("Compile Slurm", 360.0), Step("Four", 80.0)])
    for number, name in enumerate(("One", "Two", "hpcai.gpucluster.slurm : Build | Compile Slurm")):
        clock.now = 10.0 * number
        tracker.task(str(number), name)
    return tracker


def test_the_line_says_tasks_time_and_how_far_a_long_task_is() -> None:
    clock = Clock()
    tracker = started(clock)
    clock.now = 20.0 + 300.0

    assert tracker.words() == "3 of about 4 tasks, 2 min 20 s left; now: Compile Slurm (5 of about 6 min)"


def test_the_items_of_a_loop_are_counted_on_one_host() -> None:
    clock = Clock()
    tracker = started(clock)
    for host in ("a", "b", "a", "b", "b"):
        tracker.item(host)
    clock.now = 20.0 + 300.0

    assert tracker.words().endswith("now: Compile Slurm (5 of about 6 min, 2 items done)")


def test_a_task_that_takes_longer_than_usual_says_so() -> None:
    clock = Clock()
    tracker = started(clock)
    clock.now = 20.0 + 500.0

    assert tracker.words() == "3 of about 4 tasks, 1 min 20 s left; now: Compile Slurm (for 8 min 20 s)"


def test_nothing_is_invented_for_an_unknown_run() -> None:
    clock = Clock()
    tracker = Tracker(clock)
    assert tracker.words() == "starting"
    tracker.task("1", "Wait")
    clock.now = 95.0

    assert tracker.words() == "1 task, 1 min 35 s so far; now: Wait (for 1 min 35 s)"


def test_the_summary_says_what_changed_what_was_slow_and_why_machines_failed() -> None:
    changed: dict[str, list[int]] = {"control": [0, 1], "gpu1": [1], "gpu2": [1], "gpu3": []}
    lines = summary.lines(
        STEPS, 372.0, 4, changed, {"gpu3": "Install packages: no route", "gpu4": "Install packages: no route"}
    )

    assert lines == [
        "Summary: 3 tasks in 6 min 12 s on 4 machines; 1 unchanged.",
        "  changed control: 2 tasks: Compile Slurm once, Install packages",
        "  changed gpu[1-2]: 1 task: Install packages",
        "  slow 5 min 59 s: Compile Slurm once",
        "  slow 12 s: Install packages",
        "  failed gpu[3-4]: Install packages: no route",
    ]


def test_a_short_run_without_changes_has_one_line() -> None:
    assert summary.lines(STEPS[2:], 0.5, 1, {"a": []}, {}) == ["Summary: 1 task in 0 s on 1 machine; nothing changed."]


def test_a_summary_of_ten_thousand_machines_fits_a_screen() -> None:
    steps = [Step(f"Task {number}", 1) for number in range(50)]
    changed = {f"gpu{number}": list(range(number % 37 + 1)) for number in range(10_000)}
    failed = {f"gpu{number}": f"reason {number}" for number in range(10_000)}

    lines = summary.lines(steps, 100.0, 10_000, changed, failed)

    assert len(lines) < 80
    assert max(map(len, lines)) < 1000


@pytest.mark.parametrize(
    ("result", "why"),
    [
        ({"msg": "No package\nmatches slurm"}, "No package matches slurm"),
        ({"msg": "non-zero return code", "stderr": "a\nE: no space\n\n"}, "E: no space"),
        ({"msg": "non-zero return code", "stderr": "", "stdout": "said"}, "said"),
        ({"msg": "non-zero return code", "stderr": ""}, "non-zero return code"),
        ({"msg": "MODULE FAILURE: see below", "module_stderr": "Traceback\nKeyError: 'x'\n"}, "KeyError: 'x'"),
        ({"msg": "One or more items failed", "results": [{"msg": "ok"}, {"failed": True, "msg": "disk"}]}, "disk"),
        ({"censored": "the output has been hidden"}, "the output has been hidden"),
        ({"msg": ["a", 1]}, "['a', 1]"),
        ({}, "no reason given"),
    ],
)
def test_the_reason_is_one_line(result: dict[str, t.Any], why: str) -> None:
    assert summary.reason(result) == why


def test_the_summary_of_failed_tests_reads_nothing_of_it() -> None:
    program = ci_program("failure_summary")
    own = summary.lines(STEPS, 372.0, 2, {"msg": [0]}, {"gpu3": "FAILED! => fatal: [gpu3]: FAILED! msg: x", "E": "x"})
    log = ["TASK [Look]", "fatal: [a]: FAILED! =>", "    msg: broken", "Progress: 1 task; now: Look", *own]

    assert program.failures("\n".join(log))[:3] == ["failed: before the first step", "    a: Look", "      msg: broken"]
    assert len(program.failures("\n".join(log))) == 3
    assert program.not_run(["\n".join(own)]) == []


def test_nothing_looks_like_a_recap() -> None:
    # Molecule searches the output of a second run for "changed=" with a number.
    assert "changed=" not in "\n".join(summary.lines(STEPS, 99.0, 2, {"a": [0]}, {"b": "x"}))
