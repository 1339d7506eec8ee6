# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The estimate of the time that is left, on recorded runs of site.yml on the lab."""

from __future__ import annotations

import dataclasses
import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import estimate, history
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress.tracker import Tracker
from ansible_collections.hpcai.gpucluster.tests.patience import slowness
from ansible_collections.hpcai.gpucluster.tests.unit.support.progress_replay import (
    Clock,
    at_pace,
    replay,
    seconds_of_an_event,
    stream,
)

SHIPPED = history.read(history.SHIPPED)


def recorded(name: str, options: str = "site", kind: str = "") -> history.Run:
    """Return what the callback keeps of a recorded run."""
    return replay(stream(name), [], [], kind=kind).as_run(options)


@pytest.mark.parametrize("scale", [0.4, 1.0, 2.5])
@pytest.mark.parametrize("seed", range(4))
def test_the_end_of_a_second_run_is_known_within_a_fifth_from_30_percent_on(scale: float, seed: int) -> None:
    # The shipped figures are from another run ("second"); the run before this one installed everything.
    own = replay(at_pace(stream("first"), scale, 0.3, 99), [], []).as_run()
    replayed = replay(at_pace(stream("third"), scale, 0.3, seed), [own], SHIPPED)

    assert replayed.seconds > 10
    assert replayed.error(0.3) <= 0.2


@pytest.mark.parametrize("scale", [0.5, 1.0, 2.0])
def test_a_second_run_at_another_speed_than_the_first_is_known_as_well(scale: float) -> None:
    own = replay(at_pace(stream("first"), 1.0, 0.3, 99), [], []).as_run()
    errors = [replay(at_pace(stream("third"), scale, 0.3, seed), [own], SHIPPED).error(0.3) for seed in range(40)]

    assert sum(error > 0.2 for error in errors) <= 2


@pytest.mark.parametrize(("before", "later"), [(0.5, 1.0), (1.0, 2.0), (1.0, 0.5), (2.0, 1.0)])
def test_the_estimate_follows_a_load_that_changes_in_the_middle(before: float, later: float) -> None:
    known = [recorded("second"), recorded("first")]
    runs = [replay(at_pace(stream("third"), before, 0.3, seed, later), known, SHIPPED) for seed in range(20)]
    change = before / (before + later)

    assert sum(run.error(change + 0.25) > 0.2 for run in runs) <= 1


@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_a_machine_that_is_busier_than_before_is_noticed(scale: float) -> None:
    assert replay(at_pace(stream("third"), scale, 0.2, 1), [recorded("first")], SHIPPED).error(0.3) <= 0.2


def test_a_third_run_needs_no_shipped_figures() -> None:
    assert replay(stream("third"), [recorded("second"), recorded("first")], []).error(0.3) <= 0.1


def test_a_run_in_check_mode_is_not_taken_for_an_installation() -> None:
    runs = [recorded("second"), recorded("first")]

    assert replay(stream("check"), runs, SHIPPED, "other", "check").error(0.3) <= 0.2


def test_a_limited_run_is_not_taken_for_a_whole_one() -> None:
    runs = [recorded("limit", "--limit gpu1", "subset"), recorded("second"), recorded("first")]

    assert replay(stream("limit"), runs, [], "--limit gpu2", "subset").error(0.3) <= 0.1
    assert replay(stream("limit"), [], SHIPPED, "--limit gpu2", "subset").error(0.3) <= 0.1


def test_an_installation_expects_to_compile_until_it_sees_the_cache() -> None:
    replayed = replay(stream("first"), [], SHIPPED)

    assert replayed.ends[2][1] > 300
    assert replayed.error(0.75) <= 0.2


def test_without_the_scale_the_estimate_would_be_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate, "SLOWEST", 1.0)
    assert replay(at_pace(stream("third"), 2.5, 0.0, 0), [recorded("first")], SHIPPED).error(0.3) > 0.2


def test_a_playbook_that_nobody_knows_has_no_estimate() -> None:
    events = [[0, "play", "Mine"], [1, "task", "1", "My task"], [30, "end"]]

    assert replay(events, [], SHIPPED).ends == []


@pytest.mark.parametrize("batches", [1, 3])
def test_batches_of_a_play_are_counted(batches: int) -> None:
    one: list[t.Any] = [[0, "play", "Nodes"], [0, "task", "1", "Install"], [10, "task", "2", "Start"]]
    events = [[when + 20 * number, *rest] for number in range(batches) for when, *rest in one]
    events.append([20 * batches, "end"])
    known = replay(events, [], []).as_run()

    replayed = replay(events, [known], [])

    assert len(known.steps) == 2 * batches
    assert replayed.error(0.0) <= 0.01


def test_a_part_of_site_is_estimated_from_the_figures_of_site() -> None:
    events = [event for event in stream("third") if event[1] != "end"]
    plays = [place for place, event in enumerate(events) if event[1] == "play"]
    first = next(place for place in plays if events[place][2] == "Build Slurm once")
    start = events[first][0]
    part = [[when - start, *rest] for when, *rest in events[first:]]
    part.append([part[-1][0], "end"])

    assert replay(part, [], SHIPPED).error(0.3) <= 0.25


def test_the_strategy_free_counts_a_task_once() -> None:
    tracker = Tracker(Clock())
    tracker.play("Play")
    for identity in ("a", "b", "a", "b", "c"):
        tracker.task(identity, f"Task {identity}")

    assert [step.task for step in tracker.steps] == ["Task a", "Task b", "Task c"]


@pytest.mark.parametrize("hosts", [1, 10_000])
def test_an_event_costs_less_than_a_millisecond(hosts: int) -> None:
    runs = [dataclasses.replace(recorded("second"), options=str(number)) for number in range(8)]

    assert seconds_of_an_event(hosts, runs, time.process_time) < 0.001 * slowness()
