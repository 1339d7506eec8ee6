# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster deletes itself at its time: never without a warning, and never because something is missing or unclear."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_expiry import plan
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_expiry.plan import ExpiryError, Settings, State

SETTINGS = Settings("s", "hpc-rg", "hpc", "7d", 0.0, (24.0, 4.0, 1.0), "", "http://imds", "https://arm")
NOW = plan.parsed("2026-12-01T12:00:00Z")
DAY, HOUR = 86400.0, 3600.0


def at(hours: float) -> str:
    """Return the tag of a deletion some hours from now."""
    return plan.printed(NOW + hours * HOUR)


def warned(tag: str, hours_ago: float = 2.0) -> State:
    """Return the state after a warning of this tag."""
    return State("7d", tag, NOW - hours_ago * HOUR, 1.0)


@pytest.mark.parametrize("period", ["7d", "168h"])
def test_the_first_run_sets_the_time(period: str) -> None:
    step = plan.decide(SETTINGS._replace(period=period), "", State(), NOW, 0)

    assert (step.action, step.tag) == ("set", "2026-12-08T12:00:00Z")


def test_a_tag_that_exists_stays_at_the_first_run_of_a_new_controller() -> None:
    assert plan.decide(SETTINGS, at(100), State(), NOW, 0).action == "later"
    assert plan.decide(SETTINGS, "never", State(), NOW, 0).action == "off"


@pytest.mark.parametrize("lost", ["", "7d", "30d"])
def test_a_lost_tag_gets_its_last_value_back(lost: str) -> None:
    """A deployment writes the tags of its resources, and the period among them."""
    assert plan.decide(SETTINGS, lost, State("7d", at(30)), NOW, 0)[:1] == ("set",)
    assert plan.decide(SETTINGS, lost, State("7d", at(30)), NOW, 0).tag == at(30)
    assert plan.decide(SETTINGS, lost, State("7d", "never"), NOW, 0).tag == "never"


def test_another_period_counts_from_now() -> None:
    step = plan.decide(SETTINGS._replace(period="14d"), at(2), warned(at(2)), NOW, 0)

    assert (step.action, step.tag) == ("set", plan.printed(NOW + 14 * DAY))


@pytest.mark.parametrize("tag", ["tomorrow", "2026-13-01T00:00:00Z", "01.12.2026", "7 days", "{{ x }}"])
def test_an_unclear_tag_deletes_nothing(tag: str) -> None:
    with pytest.raises(ExpiryError, match="Nothing is deleted"):
        plan.decide(SETTINGS, tag, warned(tag), NOW, 0)


@pytest.mark.parametrize("text", ["2026-12-01T12:00:00Z", "2026-12-01T12:00:00.123Z", "2026-12-01T12:00Z"])
def test_times_are_read_in_usual_forms(text: str) -> None:
    assert plan.parsed(text) == NOW


@pytest.mark.parametrize(("hours", "action"), [(25, "later"), (24, "warn"), (1, "warn"), (0.1, "warn")])
def test_warnings_begin_a_day_before(hours: float, action: str) -> None:
    assert plan.decide(SETTINGS, at(hours), State("7d", at(hours)), NOW, 0).action == action


def test_it_deletes_at_its_time_after_a_warning() -> None:
    step = plan.decide(SETTINGS, at(0), warned(at(0)), NOW, 0)

    assert step.action == "delete"


@pytest.mark.parametrize("state", [State(), State("7d", at(-1)), warned(at(-2)), warned(at(-1), hours_ago=0.5)])
def test_it_never_deletes_less_than_an_hour_after_the_first_warning_of_this_time(state: State) -> None:
    """A tag with a wrong year, a controller that was off for days, and a warning about another time."""
    step = plan.decide(SETTINGS, at(-1), state, NOW, 0)

    assert step.action == "warn"
    assert step.at >= NOW + 0.5 * HOUR


@pytest.mark.parametrize("jobs", [3, None])
def test_it_waits_for_jobs_if_asked_and_not_for_ever(jobs: int | None) -> None:
    patient = SETTINGS._replace(wait_hours=12.0)

    assert plan.decide(SETTINGS, at(0), warned(at(0)), NOW, jobs).action == "delete"
    assert plan.decide(patient, at(0), warned(at(0)), NOW, jobs).action == "wait"
    assert plan.decide(patient, at(0), warned(at(0)), NOW, 0).action == "delete"
    assert plan.decide(patient, at(-12), warned(at(-12), 20), NOW, jobs).action == "delete"


def test_each_warning_is_said_once() -> None:
    said = []
    state = State("7d", at(0), 1.0)
    for hours in (24, 23, 5, 4, 3, 1, 0.5, 0.1):
        step = plan.Step("warn", NOW + hours * HOUR)
        now = plan.announces(SETTINGS, state, step, NOW)
        state = state._replace(hours_said=now or state.hours_said)
        said.append(now)

    assert said == [24, 0, 0, 4, 0, 1, 0, 0]


@pytest.mark.parametrize("period", ["", "7", "d", "0d", "-1d", "7w", "7 d", "90m"])
def test_a_wrong_period_is_refused(period: str) -> None:
    with pytest.raises(ExpiryError, match="allowed"):
        plan.seconds(period)
