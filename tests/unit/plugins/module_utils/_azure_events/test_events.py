# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from a document of events and the state of the node."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_events import events
from ansible_collections.hpcai.gpucluster.plugins.module_utils._azure_events.events import Job, Plan, State

# The shape of Azure's documentation of the API version 2020-07-01.
SCHEDULED: dict[str, t.Any] = {
    "EventId": "C7061BAC-AFDC-4513-B24B-AA5F13A16123",
    "EventStatus": "Scheduled",
    "EventType": "Reboot",
    "ResourceType": "VirtualMachine",
    "Resources": ["h100_3"],
    "NotBefore": "Mon, 11 Apr 2022 22:26:58 GMT",
    "Description": "Virtual machine is being restarted by an authorized user.",
    "EventSource": "User",
    "DurationInSeconds": -1,
}
NOT_BEFORE = 1649716018.0
SETTINGS = events.Settings(
    node="gpu1",
    metadata="http://169.254.169.254",
    drain=events.KINDS,
    requeue=("Preempt", "Terminate", "Reboot", "Redeploy"),
    margin=120.0,
    interval=2.0,
    check=(),
)
IN_SERVICE, OURS, OTHERS = State(False, False, False), State(True, True, False), State(True, False, False)
REBOOTING = State(False, False, True)
BATCH, FIXED, ENDING = Job("7", "RUNNING", True), Job("8", "RUNNING", False), Job("9", "COMPLETING", True)


def found(**changes: t.Any) -> list[events.Event]:
    """Return the events of this machine in a document with one event."""
    document = {"DocumentIncarnation": 2, "Events": [{**SCHEDULED, **changes}]}
    return events.of_machine(events.parsed(document), "h100_3", SETTINGS.drain)


def plan(one: list[events.Event], state: State, *jobs: Job, now: float = NOT_BEFORE - 900) -> Plan:
    return events.decide(SETTINGS, one, state, jobs, now)


def test_an_event_is_read() -> None:
    (one,) = found()

    assert tuple(one) == ("C7061BAC-AFDC-4513-B24B-AA5F13A16123", "Reboot", "Scheduled", ("h100_3",), NOT_BEFORE)
    assert events.reason([one]) == (
        "Azure event: Reboot C7061BAC-AFDC-4513-B24B-AA5F13A16123 not before Mon, 11 Apr 2022 22:26:58 GMT"
    )


def test_no_event_is_an_answer() -> None:
    assert events.parsed({"DocumentIncarnation": 1, "Events": []}) == []


@pytest.mark.parametrize("document", [None, {}, [], "", {"Events": None}, {"Events": [1]}, {"Events": [{}]}])
def test_a_document_without_a_list_is_not_a_document_without_events(document: t.Any) -> None:
    with pytest.raises(events.EventsError, match="no list of events"):
        events.parsed(document)


@pytest.mark.parametrize(
    "changes",
    [{"Resources": ["h100_4"]}, {"Resources": []}, {"EventType": "Unknown"}, {"EventType": None}],
)
def test_an_event_of_another_machine_or_kind_is_ignored(changes: dict[str, t.Any]) -> None:
    assert found(**changes) == []


@pytest.mark.parametrize("resources", ["h100_3", None, {"h100_3": 1}, 3])
def test_machines_that_are_no_list_are_not_no_machines(resources: t.Any) -> None:
    """The drain for an event would be lifted while the event is pending."""
    with pytest.raises(events.EventsError, match="has no list of machines"):
        found(Resources=resources)


def test_the_name_of_a_machine_has_no_case() -> None:
    assert len(found(Resources=["other", "H100_3"])) == 1


@pytest.mark.parametrize("text", ["", None, "soon", 17, "Mon, 99 Foo 2022 99:99:99 GMT"])
def test_an_event_without_a_time_may_begin_now(text: t.Any) -> None:
    one = found(NotBefore=text)

    assert one[0].not_before is None
    assert plan(one, OURS, BATCH).requeue == ("7",)


@pytest.mark.parametrize("kind", events.KINDS)
def test_a_node_in_service_is_drained_first_and_nothing_else(kind: str) -> None:
    step = plan(found(EventType=kind), IN_SERVICE, BATCH)

    assert step.drain.startswith(f"Azure event: {kind} ")
    assert step[1:] == ((), (), False)


@pytest.mark.parametrize(
    ("kind", "before", "requeued"),
    [
        ("Preempt", 900, ("7",)),
        ("Reboot", 900, ()),
        ("Reboot", 121, ()),
        ("Reboot", 120, ("7",)),
        ("Redeploy", 60, ("7",)),
        ("Terminate", -60, ("7",)),
        ("Freeze", -60, ()),
    ],
)
def test_jobs_that_ask_for_it_are_requeued_in_time(kind: str, before: float, requeued: tuple[str, ...]) -> None:
    step = plan(found(EventType=kind), OURS, BATCH, FIXED, ENDING, now=NOT_BEFORE - before)

    assert step == Plan(requeue=requeued)


def test_an_event_that_has_begun_requeues_and_is_not_acknowledged() -> None:
    one = found(EventStatus="Started", NotBefore="")

    assert plan(one, OURS, BATCH).requeue == ("7",)
    assert plan(one, OURS) == Plan()


def test_an_idle_node_acknowledges() -> None:
    assert plan(found(), OURS) == Plan(start=(SCHEDULED["EventId"],))


@pytest.mark.parametrize("job", [BATCH, FIXED, ENDING])
def test_a_node_with_a_job_does_not_acknowledge(job: Job) -> None:
    assert plan(found(), OURS, job).start == ()


def test_an_event_of_several_machines_is_not_acknowledged_for_the_others() -> None:
    assert plan(found(Resources=["h100_3", "h100_4"]), OURS) == Plan()


def test_the_drain_of_an_administrator_stays() -> None:
    assert plan(found(), OTHERS) == Plan()
    assert plan([], OTHERS) == Plan()
    # The machine goes away all the same, so the jobs go elsewhere.
    assert plan(found(EventType="Preempt"), OTHERS, BATCH) == Plan(requeue=("7",))


def test_the_node_returns_after_the_event_and_not_while_slurm_reboots_it() -> None:
    assert plan([], OURS) == Plan(resume=True)
    assert plan([], OURS._replace(away=True)) == Plan()
    assert plan([], IN_SERVICE) == Plan()


def test_a_node_that_is_down_or_rebooted_by_slurm_is_left() -> None:
    assert plan(found(), REBOOTING) == Plan()


def test_a_long_reason_is_cut() -> None:
    assert len(events.reason(found() * 20)) <= 240
