# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Waits end when the state is reached, when the time is over, and at once when Slurm is not installed."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import waiting
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run

SINFO = (Path(__file__).parents[3] / "fixtures/slurm/24.11.5/sinfo-nodes.txt").read_text(encoding="utf-8")
PING = "Slurmctld(primary) at control is UP\nSlurmctld(backup) at second is DOWN\n"


class Clock:
    """A clock that only sleeping advances."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def answers(*found: tuple[int, str, str]) -> t.Callable[[t.Sequence[str]], tuple[int, str, str]]:
    """Return a runner that gives one answer after the other, the last one forever."""
    left = list(found)
    return lambda _args: left.pop(0) if len(left) > 1 else left[0]


def line(name: str, state: str, reason: str = "none") -> str:
    return f"{name}|batch|{state}|24.11.5|gpu:h100:8|96|{reason}\n"


def wait(query: t.Callable[[], waiting.Found], seconds: float = 60) -> tuple[waiting.Found, Clock]:
    clock = Clock()
    return waiting.wait(query, seconds, clock, clock.sleep), clock


@pytest.mark.parametrize(("text", "reached"), [(PING, True), ("Slurmctld(primary) at control is DOWN\n", False)])
def test_one_controller_that_answers_is_enough(text: str, reached: bool) -> None:
    assert waiting.controller(answers((1, text, ""))).reached is reached


@pytest.mark.parametrize(
    ("state", "registered"),
    [
        *((state, True) for state in ("idle", "mixed", "drained", "draining", "planned", "reserved", "powering_down")),
        *((state, False) for state in ("down", "unknown", "idle*", "drained*", "down*", "inval", "not_responding")),
        *((state, False) for state in ("UNKNOWN", "unk*")),
    ],
)
def test_states_of_a_node_that_has_registered(state: str, registered: bool) -> None:
    found = waiting.nodes(answers((0, line("gpu1", state), "")), ["gpu1"])

    assert (found.reached, found.nodes["gpu1"][0]) == (registered, registered)


def test_each_node_is_judged_by_itself() -> None:
    text = line("gpu1", "idle") + line("gpu2", "down*", "Not responding") + line("gpu4", "down")
    found = waiting.nodes(answers((0, text, "")), ["gpu1", "gpu2", "gpu3"])

    assert not found.reached
    assert found.nodes == {
        "gpu1": (True, "idle"),
        "gpu2": (False, "down, slurmd does not answer: Not responding"),
        "gpu3": (False, ""),
    }


def test_real_output_of_sinfo() -> None:
    found = waiting.nodes(answers((0, SINFO, "")), ["gpu1", "gpu2"])

    assert found.reached, found


def test_a_controller_that_is_down_is_a_problem_of_all_nodes() -> None:
    found = waiting.nodes(answers((1, "", "slurm_load_node: Unable to contact slurm controller\n")), ["gpu1"])

    assert (found.reached, found.nodes["gpu1"]) == (False, (False, ""))
    assert found.problem == "slurm_load_node: Unable to contact slurm controller"


def test_pending_jobs_do_not_hold_a_wait() -> None:
    text = "PENDING|7 next of bob, PENDING, 1:00 left\n"

    assert waiting.jobs(answers((0, text, "")), []).reached
    found = waiting.jobs(answers((0, f"{text}COMPLETING|5 train of alice, COMPLETING, 0:10 left\n", "")), ["gpu1"])
    assert (found.reached, list(found.jobs)) == (False, ["5 train of alice, COMPLETING, 0:10 left"])


def test_jobs_that_nobody_can_count_have_not_ended() -> None:
    found = waiting.jobs(answers((1, "", "")), ["gpu1"])

    assert (found.reached, found.problem) == (False, "squeue exited 1")


def test_only_the_jobs_of_the_named_nodes_count() -> None:
    calls: list[list[str]] = []

    def run(args: list[str]) -> tuple[int, str, str]:
        calls.append(args)
        return 0, "", ""

    waiting.jobs(run, ["gpu1", "gpu2"])
    waiting.jobs(run, [])

    assert [[word for word in args if "nodelist" in word] for args in calls] == [["--nodelist=gpu1,gpu2"], []]


def test_a_wait_ends_as_soon_as_the_state_is_reached() -> None:
    run = answers((1, "", "refused"), (1, "", "refused"), (0, PING, ""))
    found, clock = wait(lambda: waiting.controller(run))

    assert found.reached
    assert clock.pauses == [0.5, 0.5]


def test_a_wait_ends_with_its_time_and_asks_a_last_time() -> None:
    queries = []

    def query() -> waiting.Found:
        queries.append(1)
        return waiting.Found(False, "refused")

    found, clock = wait(query, seconds=1.2)

    assert clock.now == pytest.approx(1.2)
    assert (found.problem, len(queries)) == ("refused", 4)


def test_zero_seconds_are_one_query() -> None:
    assert wait(lambda: waiting.Found(False), seconds=0)[1].pauses == []


def test_a_long_wait_asks_the_controller_less_often() -> None:
    _found, clock = wait(lambda: waiting.Found(False), seconds=3600)

    assert (clock.pauses[0], clock.pauses[-1]) == (0.5, 5.0)
    assert len(clock.pauses) < 1100


def test_nobody_waits_for_commands_that_are_not_installed() -> None:
    run = answers((bounded_run.MISSING, "", "scontrol cannot be started"))
    for query in (lambda: waiting.controller(run), lambda: waiting.nodes(run, ["a"]), lambda: waiting.jobs(run, [])):
        found, clock = wait(query)
        assert (found.reached, found.missing, clock.pauses) == (False, True, [])


def controllers(states: str, ports: str, known: set[str]) -> t.Callable[[t.Sequence[str]], tuple[int, str, str]]:
    """Return a runner on a controller that can resolve the known names."""

    def run(args: t.Sequence[str]) -> tuple[int, str, str]:
        if args[0] == "getent":
            return (0, f"10.0.0.2 STREAM {args[2]}\n", "") if args[2] in known else (2, "", "")
        return 0, ports if "--future" in args else states, ""

    return run


@pytest.mark.parametrize(
    ("ports", "known", "reached"),
    [
        ("gpu1|6818\ngpu2|0\n", {"gpu1"}, False),
        ("gpu1|6818\ngpu2|0\n", {"gpu1", "gpu2"}, True),  # known since slurmctld was started
        ("gpu1|6818\ngpu2|6818\n", set(), True),  # NodeAddr
        ("", set(), True),  # Slurm said nothing
    ],
)
def test_an_idle_node_whose_name_the_controller_does_not_know_takes_no_jobs(
    ports: str, known: set[str], reached: bool
) -> None:
    run = controllers(line("gpu1", "idle") + line("gpu2", "idle"), ports, known)

    found = waiting.nodes(run, ["gpu1", "gpu2"])

    assert found.reached is reached
    assert found.nodes["gpu1"] == (True, "idle")
    assert found.nodes["gpu2"][0] is reached
    assert "cannot resolve the name gpu2" in found.nodes["gpu2"][1] or reached


@pytest.mark.parametrize("state", ["idle*", ""])
def test_the_reason_is_named_also_before_slurmd_registers_and_after_it_was_not_reached(state: str) -> None:
    run = controllers(line("gpu2", state) if state else "", "gpu2|0\n", set())

    assert "cannot resolve the name gpu2" in waiting.nodes(run, ["gpu2"]).nodes["gpu2"][1]


def test_a_name_is_asked_for_only_where_slurmctld_has_no_address() -> None:
    calls: list[str] = []

    def run(args: t.Sequence[str]) -> tuple[int, str, str]:
        calls.append(args[0])
        states = line("gpu1", "idle") + line("gpu2", "idle")
        return 0, "gpu1|6818\ngpu2|6818\n" if "--future" in args else states, ""

    assert waiting.nodes(run, ["gpu1", "gpu2"]).reached
    assert calls == ["sinfo", "sinfo"]


def outside(states: str, nodes: str) -> t.Callable[[t.Sequence[str]], tuple[int, str, str]]:
    """Return a runner on a controller whose sinfo shows some nodes, and whose scontrol shows all."""
    return lambda args: (1, nodes, "") if args[0] == "scontrol" else (0, "" if "--future" in args else states, "")


def test_a_node_in_no_partition_is_named_without_a_wait() -> None:
    run = outside(line("gpu2", "idle"), "NodeName=gpu1 Arch=x86_64 State=IDLE\nNode gpu3 not found\n")

    found, clock = wait(lambda: waiting.nodes(run, ["gpu1", "gpu2"]))

    assert (found.reached, clock.pauses) == (False, [])
    assert found.nodes["gpu1"] == (False, "gpu1 is in no partition; name it in slurm_partitions")


def test_other_nodes_are_waited_for_beside_a_node_in_no_partition() -> None:
    run = outside(line("gpu2", "down*"), "NodeName=gpu1 State=IDLE\n")

    assert wait(lambda: waiting.nodes(run, ["gpu1", "gpu2"]), seconds=1)[1].pauses


def test_a_node_that_sinfo_does_not_show_yet_is_not_in_no_partition() -> None:
    run = outside("", "NodeName=gpu1 State=IDLE Partitions=batch\n")

    assert waiting.nodes(run, ["gpu1"]).nodes["gpu1"] == (False, "")
