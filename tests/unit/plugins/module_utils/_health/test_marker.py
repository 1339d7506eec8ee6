# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the node is drained, when it comes back, and when it is left alone."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import marker
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.process import DONE, Result
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import (
    HEALTHY,
    NOT_APPLICABLE,
    NOT_RUN,
    SUSPECT,
    UNHEALTHY,
    UNKNOWN,
    Verdict,
)
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health.machines import FakeMachine

if t.TYPE_CHECKING:
    from collections.abc import Sequence

# As Slurm 24.11 prints it, shortened.
SHOWN = """NodeName=gpu1 Arch=x86_64 CoresPerSocket=2
   CPUAlloc=0 CPUEfctv=2 CPUTot=2 CPULoad=0.10
   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=batch
   BootTime=2026-11-20T09:00:00 SlurmdStartTime=2026-11-20T09:00:10
{reason}
"""


class FakeSlurm:
    """A controller with one node, as far as scontrol shows and changes it."""

    def __init__(self, state: str = "IDLE", reason: str = "", rc: int = 0) -> None:
        self.state = state
        self.reason = reason
        self.rc = rc
        self.calls: list[list[str]] = []

    def __call__(self, argv: Sequence[str], _stdin: str) -> Result:
        self.calls.append(list(argv[1:]))
        if self.rc:
            return Result(
                DONE, self.rc, "", "slurm_load_node error: Unable to contact slurm controller (connect failure)"
            )
        if argv[1] == "show":
            reason = f"   Reason={self.reason} [root@2026-11-20T10:00:00]" if self.reason else ""
            return Result(DONE, 0, SHOWN.format(state=self.state, reason=reason))
        settings = dict(part.split("=", 1) for part in argv[2:])
        if settings["State"] == "DRAIN":
            self.state = self.state.removesuffix("+DRAIN") + "+DRAIN"
            self.reason = settings["Reason"]
        else:
            self.state, self.reason = "IDLE", ""
        return Result(DONE, 0)

    def writes(self) -> list[list[str]]:
        return [call for call in self.calls if call[0] == "update"]


def verdicts(**status: str) -> list[Verdict]:
    return [Verdict(name, said, f"expected good, found {said}") for name, said in status.items()]


def mark(
    slurm: FakeSlurm, found: list[Verdict], kept: dict[str, t.Any] | None = None, resume: bool = True
) -> marker.Action:
    machine = FakeMachine({}, {"scontrol": slurm})
    return marker.mark(marker.Slurm(machine, "gpu1"), found, resume, {} if kept is None else kept)


SICK = verdicts(memory=HEALTHY, gpu_count=UNHEALTHY)
WELL = verdicts(memory=HEALTHY, gpu_count=HEALTHY, raid=NOT_APPLICABLE, dcgm=NOT_RUN)


@pytest.mark.parametrize(
    "state",
    [
        "IDLE",
        "MIXED",
        "ALLOCATED",
        "COMPLETING",
        "IDLE*",
        "IDLE+PLANNED",
        "MIXED+PLANNED",
        "IDLE-",
        "MIXED+MAINTENANCE",
    ],
)
def test_a_sick_node_is_drained_with_a_reason(state: str) -> None:
    slurm = FakeSlurm(state)

    action = mark(slurm, SICK)

    assert action.kind == "drain"
    assert slurm.reason == "NHC: gpu_count: expected good, found unhealthy"
    assert len(slurm.writes()) == 1


@pytest.mark.parametrize(
    "reason", ["RMA 123, do not touch", "not NHC: but mine", "Prolog error again, mine", "nhc: lower case", ""]
)
@pytest.mark.parametrize("state", ["IDLE+DRAIN", "MIXED+DRAIN", "DOWN+DRAIN", "DRAINED", "DRAINING"])
@pytest.mark.parametrize("found", [SICK, WELL], ids=["sick", "well"])
def test_a_persons_drain_is_left_alone(state: str, reason: str, found: list[Verdict]) -> None:
    slurm = FakeSlurm(state, reason)

    action = mark(slurm, found)

    assert action.kind == "leave"
    assert not slurm.writes()


def test_what_slurm_wrote_when_the_prolog_refused_a_job_gives_way_to_the_finding() -> None:
    slurm = FakeSlurm("IDLE+DRAIN", "Prolog error")

    assert mark(slurm, WELL).kind == "leave"  # the checks know nothing better
    assert mark(slurm, SICK).kind == "drain"
    assert slurm.reason == "NHC: gpu_count: expected good, found unhealthy"
    assert mark(slurm, WELL).kind == "resume"


@pytest.mark.parametrize("state", ["FAIL", "FAILING", "IDLE+FAIL"])
@pytest.mark.parametrize("reason", ["RMA 123 * do not touch", "NHC: but it is a person who said FAIL"])
def test_a_node_that_a_person_declared_failed_is_left_alone(state: str, reason: str) -> None:
    slurm = FakeSlurm(state, reason)

    assert [mark(slurm, found).kind for found in (SICK, WELL)] == ["leave", "leave"]
    assert not slurm.writes()


def test_every_sick_check_is_named() -> None:
    slurm = FakeSlurm()
    mark(slurm, verdicts(memory=UNHEALTHY, gpu_count=UNHEALTHY, raid=UNHEALTHY))

    assert slurm.reason.startswith("NHC: memory, gpu_count, raid: ")


def test_a_reason_too_long_for_all_names_is_written_once_and_proved() -> None:
    names = [f"check_number_{number}" for number in range(30)]
    sick, well = (verdicts(**dict.fromkeys(names, said)) for said in (UNHEALTHY, HEALTHY))
    slurm = FakeSlurm()

    assert [mark(slurm, sick).kind for _round in range(3)] == ["drain", "leave", "leave"]
    assert 0 < len(marker.named(slurm.reason)) < 30
    assert set(marker.named(slurm.reason)) < set(names)
    assert mark(slurm, well).kind == "resume"


def test_a_drained_node_of_ours_comes_back_when_it_is_well() -> None:
    slurm = FakeSlurm("IDLE+DRAIN", "NHC: gpu_count: expected 8 GPUs, found 7")

    assert mark(slurm, WELL).kind == "resume"
    assert slurm.state == "IDLE"


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        # Not the check that drained it, so nothing is proved.
        ("NHC: host_to_device: expected at least 48 GB/s, found 13", WELL),
        ("NHC: gpu_count, nvlink: expected 8", WELL),
        ("NHC: gpu_count: expected 8 GPUs", verdicts(gpu_count=HEALTHY, memory=UNKNOWN)),
        ("NHC: gpu_count: expected 8 GPUs", verdicts(gpu_count=HEALTHY, memory=SUSPECT)),
        ("NHC: gpu_count: expected 8 GPUs", verdicts(gpu_count=NOT_RUN)),
        ("NHC: gpu_count: expected 8 GPUs", verdicts(gpu_count=UNKNOWN)),
        ("NHC: something that this program never wrote", WELL),
    ],
)
def test_a_node_comes_back_only_when_it_is_proved_well(reason: str, found: list[Verdict]) -> None:
    slurm = FakeSlurm("IDLE+DRAIN", reason)

    assert mark(slurm, found).kind == "leave"
    assert not slurm.writes()


def test_nothing_comes_back_that_was_not_asked_back() -> None:
    slurm = FakeSlurm("IDLE+DRAIN", "NHC: gpu_count: expected 8 GPUs, found 7")

    assert mark(slurm, WELL, resume=False).kind == "leave"
    assert not slurm.writes()


def test_the_same_fault_is_written_once() -> None:
    slurm = FakeSlurm()
    kept: dict[str, t.Any] = {}

    figures = [Verdict("gpu_count", UNHEALTHY, f"expected 8, found {found}") for found in (7, 6, 7)]
    kinds = [mark(slurm, [figure], kept).kind for figure in figures]

    assert kinds == ["drain", "leave", "leave"]
    assert len(slurm.writes()) == 1


def test_a_fault_of_a_moment_is_over_with_the_next_check() -> None:
    slurm = FakeSlurm()
    kept: dict[str, t.Any] = {}

    assert [mark(slurm, found, kept).kind for found in (WELL, SICK, WELL)] == ["leave", "drain", "resume"]


def test_a_new_fault_joins_the_old_one_until_both_are_gone() -> None:
    slurm = FakeSlurm("IDLE+DRAIN", "NHC: host_to_device: expected at least 48 GB/s, found 13")

    mark(slurm, SICK)
    assert slurm.reason == "NHC: gpu_count, host_to_device: expected good, found unhealthy"
    assert mark(slurm, WELL).kind == "leave"
    assert mark(slurm, [*WELL, *verdicts(host_to_device=HEALTHY)]).kind == "resume"


def test_of_the_old_faults_only_one_that_passes_now_leaves_the_reason() -> None:
    slurm = FakeSlurm("IDLE+DRAIN", "NHC: host_to_device, raid: expected something else")

    mark(slurm, [*SICK, *verdicts(host_to_device=HEALTHY, raid=UNKNOWN)])

    assert slurm.reason == "NHC: gpu_count, raid: expected good, found unhealthy"


@pytest.mark.parametrize("state", ["DOWN", "DOWN*", "DOWN+NOT_RESPONDING"])
def test_a_down_node_is_left_alone(state: str) -> None:
    slurm = FakeSlurm(state, "Not responding")

    assert mark(slurm, SICK).kind == "leave"
    assert not slurm.writes()


@pytest.mark.parametrize(
    "flag",
    [
        *("REBOOT_REQUESTED", "REBOOT_ISSUED", "FUTURE"),
        *("POWERING_DOWN", "POWERED_DOWN", "POWER_DOWN", "POWERING_UP"),
    ],
)
@pytest.mark.parametrize("found", [SICK, WELL], ids=["sick", "well"])
def test_a_node_that_slurm_reboots_is_left_alone(flag: str, found: list[Verdict]) -> None:
    slurm = FakeSlurm(f"IDLE+DRAIN+{flag}", "NHC: gpu_count: expected 8 GPUs")

    assert mark(slurm, found).kind == "leave"
    assert not slurm.writes()


def test_a_well_node_asks_the_controller_rarely() -> None:
    slurm = FakeSlurm()
    kept: dict[str, t.Any] = {}

    for _round in range(130):
        mark(slurm, WELL, kept)

    assert len(slurm.calls) == 10


def test_a_controller_that_does_not_answer_is_asked_again_next_time() -> None:
    slurm = FakeSlurm(rc=1)
    kept: dict[str, t.Any] = {}

    with pytest.raises(marker.MarkError, match="Unable to contact slurm controller"):
        mark(slurm, SICK, kept)
    slurm.rc = 0

    assert mark(slurm, SICK, kept).kind == "drain"


def test_a_drain_without_an_answer_is_seen_by_the_next_check() -> None:
    slurm = FakeSlurm()
    kept: dict[str, t.Any] = {}
    mark(slurm, WELL, kept)
    slurm.rc = 1
    with pytest.raises(marker.MarkError):
        mark(slurm, SICK, kept)
    slurm.rc, slurm.state, slurm.reason = 0, "IDLE+DRAIN", "NHC: gpu_count: expected good, found unhealthy"

    assert mark(slurm, WELL, kept).kind == "resume"


def test_reason_fits_one_line_and_breaks_no_quoting() -> None:
    text = marker.reason([Verdict("gpu_count", UNHEALTHY, 'a "quoted" reason\nof two lines ' + "x" * 500)])

    assert "\n" not in text
    assert '"' not in text
    assert len(text) <= 240
    assert marker.named(text) == ["gpu_count"]


@pytest.mark.parametrize("text", ["", "slurm_load_node error: Node gpu1 not found", "NodeName=gpu1"])
def test_an_answer_without_a_state_marks_nothing(text: str) -> None:
    with pytest.raises(marker.MarkError):
        marker.node(text)


def test_what_is_not_proved_yet_is_named() -> None:
    slurm = FakeSlurm("IDLE+DRAIN", "NHC: gpu_count, nvlink: expected 8")

    assert mark(slurm, WELL).text == "not proved healthy yet: nvlink"


@pytest.mark.parametrize(
    "text",
    [
        "NodeName=a\n   State=IDLE+DRA\ufffdIN\n",
        "NodeName=a\n   State=N/A\n",
        "NodeName=a\n   State=IDLE+DRAIN Wei",
        "",
    ],
)
def test_a_node_that_is_not_understood_is_not_marked(text: str) -> None:
    """Without its last lines, a node of ours looks drained by a person."""
    with pytest.raises(marker.MarkError, match="scontrol shows no state, or is cut"):
        marker.node(text)
