"""How long to wait, and for what."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure import pipeline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.deadline import Deadline
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.errors import ThrottledError


class Clock:
    """A time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Answer(t.NamedTuple):
    status_code: int
    headers: dict[str, str]


def waiting(clock: Clock, limit: float = 300) -> pipeline.Waiting:
    return pipeline.Waiting(pipeline.Gate(lambda: clock.now, clock.sleep), limit, clock.sleep)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "0.5"}, 0.5),
        # The server's clock counts, however wrong ours is.
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:30 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 30),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT", "Date": "Wed, 21 Oct 2015 07:28:30 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
        ({"x-ms-user-quota-resets-after": "00:00:04"}, 4),
        ({"x-ms-user-quota-resets-after": "00:01:02"}, 62),
        ({"x-ms-user-quota-resets-after": "later"}, None),
        ({}, None),
    ],
)
def test_what_an_answer_asks_for(headers: dict[str, str], seconds: float | None) -> None:
    assert pipeline.seconds_to_wait(headers) == seconds


def test_a_429_stops_every_thread_for_the_time_it_names() -> None:
    clock = Clock()

    waiting(clock).after_failure({"history": [1]}, Answer(429, {"Retry-After": "9"}))

    assert 9 <= clock.now <= 9.25


def test_a_429_without_a_time_and_a_500_wait_longer_each_time() -> None:
    clock = Clock()
    history: dict[str, t.Any] = {"history": [1]}

    for status in (429, 500, 500):
        waiting(clock).after_failure(history, Answer(status, {}))
        history["history"].append(1)

    assert sum(clock.slept) == pytest.approx(0.5 + 1 + 2, rel=0.26)
    assert history["waited"] == pytest.approx(clock.now)


def test_the_limit_ends_the_waiting_before_it_begins() -> None:
    clock = Clock()

    with pytest.raises(ThrottledError, match=r"1200 s.*max_wait allows 300 s"):
        waiting(clock).after_failure({"history": [1]}, Answer(429, {"Retry-After": "1200"}))
    assert clock.now == 0


def test_the_limit_holds_for_the_sum() -> None:
    clock = Clock()
    history: dict[str, t.Any] = {"history": [1]}

    for _number in range(2):
        waiting(clock, limit=30).after_failure(history, Answer(503, {"Retry-After": "10"}))
    with pytest.raises(ThrottledError):
        waiting(clock, limit=30).after_failure(history, Answer(503, {"Retry-After": "10"}))
    assert clock.now <= 30


def test_no_pause_leads_past_the_deadline() -> None:
    clock = Clock()
    gate = pipeline.Gate(lambda: clock.now, clock.sleep)
    limited = pipeline.Waiting(gate, 300, clock.sleep, Deadline(20, lambda: clock.now))

    limited.after_failure({"history": []}, Answer(429, {"Retry-After": "10"}))
    with pytest.raises(ThrottledError, match=r"asks to wait 15 s, and (9|10) s are left of the deadline of 20 s"):
        limited.after_failure({"history": []}, Answer(429, {"Retry-After": "15"}))
    assert clock.now < 11


def test_a_used_up_quota_closes_the_gate_before_a_429_is_earned() -> None:
    clock = Clock()
    gate = pipeline.Gate(lambda: clock.now, clock.sleep)
    headers = {"x-ms-user-quota-remaining": "0", "x-ms-user-quota-resets-after": "00:00:03"}

    pipeline.Waiting(gate, 300).after_success(Answer(200, {**headers, "x-ms-user-quota-remaining": "1"}))
    gate.wait()
    assert clock.now == 0
    pipeline.Waiting(gate, 300).after_success(Answer(200, headers))
    gate.wait()
    assert clock.now == gate.waited == 3
    gate.wait()
    assert gate.waited == 3
