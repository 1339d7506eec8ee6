# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Passes over a Slurm and a cloud that behave as documented."""

from __future__ import annotations

import inspect
import json
import os
import random
import signal
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.cloud import ElasticError, Machine, Set
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.passes import Passes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.slurm import Slurm
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.state import Store
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import steady
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.unit.support.elastic import (
    ENDING,
    OFF,
    SILENT,
    STARTING,
    UP,
    Clock,
    KilledHost,
    World,
    passes,
)

if t.TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def clock(world: World) -> Clock:
    return Clock(world)


def test_nodes_that_slurm_resumes_get_machines_by_one_call(world: World, clock: Clock) -> None:
    world.set(STARTING, "c1", "c2", "c3")

    passes(world, clock)[0].until_settled(120)

    assert world.calls("start") == [["c1", "c2", "c3"]]
    assert world.machines() == ["c1", "c2", "c3"]


def test_a_repeated_resume_starts_nothing(world: World, clock: Clock) -> None:
    world.set(STARTING, "c1")
    for _turn in range(3):
        passes(world, clock)[0].once()

    assert world.calls("start") == [["c1"]]


def test_a_busy_slurm_is_asked_again(world: World, clock: Clock) -> None:
    world.set(STARTING, "c1")
    world.change(silent=True)
    assert passes(world, clock)[0].once()
    assert world.calls("start") == []

    world.change(silent=False)
    passes(world, clock)[0].once()
    assert world.calls("start") == [["c1"]]


@pytest.mark.parametrize("fault", [{"silent": True}, {"nodes": {}}, {"broken": 1}])
def test_nothing_follows_from_a_missing_answer(world: World, clock: Clock, fault: dict[str, t.Any]) -> None:
    world.change(machines={"c1": False, "stray": False})
    world.set(UP, "c2")
    made, _said = passes(world, clock)
    made.once()
    world.change(**fault)
    for _turn in range(5):
        clock.now += 1000
        made.once()

    assert world.machines() == ["c1", "stray"]
    assert "requeued" not in world.load()


def test_a_list_of_nodes_that_is_cut_at_the_end_of_a_line_deletes_no_machine(tmp_path: Path) -> None:
    """Slurm is not asked for the jobs of a node that the list lacks."""
    names, deleted, said, now = ("n1", "n2", "n3"), list[str](), list[str](), [1000.0]
    lines = [f"NodeName={name} NodeHostName={name} State=MIXED+CLOUD ThreadsPerCore=1 Reason=\n" for name in names]

    def run(argv: t.Any, *_more: t.Any) -> tuple[int, str, str]:
        if argv[:3] == ["scontrol", "show", "hostnames"]:
            return 0, "\n".join(argv[3].split(",")) + "\n", ""
        return 0, "".join(lines[:2]) if argv[0] == "scontrol" else "", ""

    class Cloud:
        def machines(self, _nodes: t.Any) -> list[Machine]:
            return [Machine(name, name) for name in names if name not in deleted]

        def stop(self, machines: list[Machine]) -> None:
            deleted.extend(machine.id for machine in machines)

    cloud: t.Any = Cloud()
    host = Host(run)
    one = Set("s", names, "command", 0, {}, 4, 3)
    store = Store(host, str(tmp_path), boot=lambda: "b")
    made = Passes([one], lambda _one, _memory: cloud, Slurm(run), store, said.append, lambda: now[0])
    for _turn in range(5):
        made.once()
        now[0] += 35

    assert deleted == []
    assert "Slurm's list lacks nodes of the set: n3" in said[-1]


def test_suspended_nodes_are_idle_as_soon_as_their_machines_are_gone(world: World, clock: Clock) -> None:
    world.change(machines={"c1": False, "c2": False})
    world.set(ENDING, "c1")
    world.set(UP, "c2")

    passes(world, clock)[0].until_settled(120)

    assert world.machines() == ["c2"]
    assert world.flags("c1") == OFF
    assert clock.slept < 5


def test_a_late_suspend_keeps_the_machine_of_a_node_that_runs_again(world: World, clock: Clock) -> None:
    world.change(machines={"c1": False})
    world.set(UP, "c1")

    passes(world, clock)[0].until_settled(120)

    assert world.machines() == ["c1"]


def test_nodes_without_capacity_are_idle_again_and_their_jobs_requeued(world: World, clock: Clock) -> None:
    world.change(room=1)
    world.set(STARTING, "c1", "c2", "c3")
    made, said = passes(world, clock)

    made.until_settled(120)

    assert world.load()["requeued"] == ["c2", "c3"]
    assert [world.flags(name) for name in ("c1", "c2", "c3")] == [UP, OFF, OFF]
    assert clock.slept < 30
    assert any("2 nodes get no machine, back to idle~: c2, c3: AllocationFailed" in line for line in said)


def test_a_set_without_capacity_is_not_asked_again_for_a_minute(world: World, clock: Clock) -> None:
    world.change(room=0)
    for _turn in range(2):
        world.set(STARTING, "c1")
        passes(world, clock)[0].until_settled(120)
    assert len(world.calls("start")) == 1

    clock.now += 61
    world.change(room=1)
    world.set(STARTING, "c1")
    passes(world, clock)[0].until_settled(120)
    assert world.machines() == ["c1"]


def test_a_machine_of_the_last_run_is_gone_before_the_next_one_starts(world: World, clock: Clock) -> None:
    world.change(machines={"c1": True})
    world.set(STARTING, "c1")

    assert passes(world, clock)[0].once()

    assert world.calls("start") == []
    world.tick()
    passes(world, clock)[0].once()
    assert world.calls("start") == [["c1"]]


@pytest.mark.parametrize("name", ["c1", "stray"])
def test_an_orphan_is_deleted_after_a_minute(world: World, clock: Clock, name: str) -> None:
    world.change(machines={name: False})
    made, said = passes(world, clock)
    made.once()
    assert world.machines() == [name]
    clock.now += 61
    made.once()

    assert world.machines() == []
    assert any("1 of them unknown to Slurm" in line for line in said)


def test_a_node_that_lost_its_machine_is_idle_again_after_a_minute(world: World, clock: Clock) -> None:
    world.set(["DOWN", "CLOUD", "NOT_RESPONDING"], "c1", reason="Not responding")
    world.set(SILENT, "c2")
    made, _said = passes(world, clock)
    made.once()
    assert "requeued" not in world.load()
    clock.now += 61
    made.until_settled(60)

    assert world.load()["requeued"] == ["c1", "c2"]
    assert world.flags("c1") == world.flags("c2") == OFF


@pytest.mark.parametrize(
    ("state", "reason"), [(["IDLE", "CLOUD", "DRAIN"], "admin looks"), (["DOWN", "CLOUD"], "admin looks")]
)
def test_what_an_administrator_took_out_is_not_changed(
    world: World, clock: Clock, state: list[str], reason: str
) -> None:
    world.set(state, "c1", reason=reason)
    world.set(["DOWN", "CLOUD", "POWERED_DOWN"], "c2", reason=reason)
    world.set([*ENDING, "DRAIN"], "c3", reason=reason)
    before = world.load()["nodes"]
    made, _said = passes(world, clock)
    for _turn in range(3):
        made.once()
        clock.now += 100

    assert world.load()["nodes"] == before


def test_a_machine_that_did_not_come_in_time_is_given_up(world: World, clock: Clock) -> None:
    world.change(machines={"c1": False})
    world.set(["DOWN", "CLOUD", "POWERED_DOWN"], "c1", reason="ResumeTimeout reached")

    passes(world, clock)[0].until_settled(120)

    assert world.machines() == []
    assert world.flags("c1") == OFF


def test_nodes_that_always_run_are_started(world: World, clock: Clock) -> None:
    world.set([*OFF, "DRAIN"], "c2")
    made, _said = passes(world, clock, min_count=2)
    for _turn in range(2):
        made.once()

    assert world.machines() == ["c1"]


def test_machines_of_a_set_that_slurm_does_not_know_stay(world: World, clock: Clock) -> None:
    world.change(machines={"x1": False})
    made, said = passes(world, clock, nodes=["x1", "x2"])
    for _turn in range(3):
        made.once()
        clock.now += 100

    assert world.machines() == ["x1"]
    assert "Slurm knows no node of this set" in said[0]


def test_other_nodes_are_never_touched(world: World, clock: Clock) -> None:
    world.set(["DOWN", "NOT_RESPONDING"], "c4", reason="Not responding")
    made, _said = passes(world, clock, nodes=["c1", "c2", "c3"])
    for _turn in range(3):
        made.once()
        clock.now += 100

    assert world.flags("c4") == ["DOWN", "NOT_RESPONDING"]


def test_a_second_pass_waits_for_the_first(world: World) -> None:
    store = Store(Host(world.run), str(world.directory), sleep=lambda _seconds: None)
    with store.locked(), pytest.raises(ElasticError, match="another pass has the lock"), store.locked(0.05):
        pass


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seen": 3}', '{"seen": {"a": 3}, "assigned": {"a": 3}}'])
def test_a_damaged_memory_is_an_empty_one(world: World, text: str) -> None:
    (world.directory / "state.json").write_text(text, encoding="utf-8")
    with Store(Host(world.run), str(world.directory)).locked() as memory:
        assert (memory.seen, memory.assigned) == ({}, {})


def turns(world: World, clock: Clock, seconds: int, **options: t.Any) -> list[str]:
    """Run the timer for some seconds and return what the program says."""
    said: list[str] = []
    for _turn in range(0, seconds, 30):
        made, lines = passes(world, clock, **options)
        made.once()
        world.tick()
        said += lines
        clock.now += 30
    return said


@pytest.mark.parametrize("seconds", [30, 90, 600])
def test_a_short_list_ends_no_node_that_answers(world: World, clock: Clock, seconds: int) -> None:
    world.change(machines={"c1": False, "c2": False}, jobs=["c1", "c2"])
    world.set(UP, "c1", "c2")
    turns(world, clock, 60)
    world.change(short=["c1"])
    said = turns(world, clock, seconds, end_limit=0)
    world.change(short=[])
    said += turns(world, clock, 300, end_limit=0)

    assert said == []
    assert (world.machines(), "requeued" in world.load()) == (["c1", "c2"], False)


def test_a_machine_that_boots_is_not_started_twice_by_a_short_list(world: World, clock: Clock) -> None:
    world.change(mute=True)
    world.set(STARTING, "c1")
    turns(world, clock, 60)
    world.change(short=["c1"])
    turns(world, clock, 60)
    assert world.calls("start") == [["c1"]]

    turns(world, clock, 90)
    assert world.calls("start")[1] == ["c1"]


def test_a_machine_with_a_job_is_kept(world: World, clock: Clock) -> None:
    """Slurm is asked right before, because the list of machines may have taken minutes."""
    world.change(machines={"c1": False, "c2": False, "stray": False}, jobs=["c1", "c3"])
    world.set(ENDING, "c1")
    said = turns(world, clock, 150)
    assert world.machines() == ["c1"]
    assert "cloud: keep 1 machines with jobs: c1" in said

    world.change(jobs=[])
    turns(world, clock, 30)
    assert world.machines() == []


def test_a_node_that_runs_again_while_the_cloud_answers_keeps_its_machine(world: World, clock: Clock) -> None:
    world.change(machines={"c1": False})
    world.set(ENDING, "c1")

    def run(argv: list[str], *more: t.Any) -> tuple[int, str, str]:
        if argv[-1] == "list":
            world.set(UP, "c1")
        return world.run(argv, *more)

    passes(world, clock, Host(run))[0].once()

    assert world.machines() == ["c1"]


def test_a_node_that_registers_while_the_cloud_refuses_a_machine_stays(world: World, clock: Clock) -> None:
    """It has a machine that the list lacked."""
    world.change(room=0)
    world.set(STARTING, "c1", "c2")

    def run(argv: list[str], *more: t.Any) -> tuple[int, str, str]:
        if argv[-1] == "start":
            world.set(UP, "c1")
        return world.run(argv, *more)

    passes(world, clock, Host(run))[0].once()

    assert world.load()["requeued"] == ["c2"]


@pytest.mark.parametrize("answer", [(1, "", "Unable to contact slurm controller"), (124, "", "")])
def test_without_an_answer_about_jobs_nothing_ends(world: World, clock: Clock, answer: tuple[int, str, str]) -> None:
    world.change(machines={"c1": False})
    world.set(ENDING, "c1")

    def run(argv: list[str], *more: t.Any) -> tuple[int, str, str]:
        return answer if argv[0] == "squeue" else world.run(argv, *more)

    made, said = passes(world, clock, Host(run))
    assert made.once()

    assert world.machines() == ["c1"]
    assert "'squeue --noheader" in said[0]


def test_a_node_without_a_known_machine_protects_machines_without_a_node(world: World, clock: Clock) -> None:
    world.set(UP, "c1")
    world.change(machines={"stray": False, "c1": False}, short=["c1"])
    said = turns(world, clock, 300)
    assert "stray" in world.machines()
    assert [line for line in said if "keep stray, which Slurm does not expect" in line]

    world.change(short=[])
    turns(world, clock, 90)
    assert world.machines() == ["c1"]


def test_a_pass_that_would_end_many_ends_none_and_says_so(tmp_path: Path) -> None:
    world = World(tmp_path, 8)
    clock = Clock(world)
    world.change(machines={f"c{number}": False for number in range(1, 5)})
    world.set(SILENT, "c7", "c8")
    world.set([*OFF], "c6")
    said = turns(world, clock, 300, end_limit=1)

    assert (len(world.machines()), "requeued" in world.load()) == (4, False)
    (line,) = said
    assert "2 nodes without their machine; end_limit allows 1" in line
    assert "sudo -u slurm gpucluster-elastic reconcile --end-limit 2" in line
    assert json.loads((tmp_path / "state.json").read_text(encoding="utf-8"))["alarms"]["cloud"] in line

    turns(world, clock, 30, end_limit=2)
    assert world.load()["requeued"] == ["c7", "c8"]
    assert "4 machines that Slurm does not expect" in turns(world, clock, 60, end_limit=3)[-1]
    turns(world, clock, 30, end_limit=4)
    assert world.machines() == []


def test_machines_that_slurm_suspends_do_not_count(tmp_path: Path) -> None:
    world = World(tmp_path, 8)
    world.change(machines={f"c{number}": False for number in range(1, 9)})
    world.set(ENDING, *world.load()["nodes"])
    turns(world, Clock(world), 60, end_limit=0)

    assert world.machines() == []


def fail(world: World, clock: Clock, *nodes: str) -> list[str]:
    """Let Slurm resume nodes whose machines do not register until it gives them up."""
    world.set(STARTING, *nodes)
    said = turns(world, clock, 60)
    world.set(["DOWN", "CLOUD", "POWERED_DOWN"], *nodes, reason="ResumeTimeout reached")
    return said + turns(world, clock, 60)


def test_a_set_whose_machines_do_not_register_is_held_until_a_person_releases_it(world: World, clock: Clock) -> None:
    world.change(mute=True)
    said = [line for node in ("c1", "c2", "c1") for line in fail(world, clock, node)]
    assert len(world.calls("start")) == 3

    world.set(STARTING, "c3")
    said += turns(world, clock, 300, min_count=4)
    assert len(world.calls("start")) == 3
    text = "cloud: the set is held: 3 machines or more were started and did not register."
    assert [line.startswith(text) for line in said].count(True) == 1
    assert world.flags("c3") == world.flags("c4") == OFF
    assert "held" in json.loads((world.directory / "state.json").read_text(encoding="utf-8"))["alarms"]["cloud"]

    with pytest.raises(ElasticError, match="found no set x; there are: cloud"):
        passes(world, clock)[0].release("x")
    passes(world, clock)[0].release("cloud")
    world.change(mute=False)
    world.set(STARTING, "c3")
    turns(world, clock, 60)
    assert (world.flags("c3"), world.machines()) == (UP, ["c3"])


def test_late_machines_of_a_set_that_works_hold_no_other_node(world: World, clock: Clock) -> None:
    world.set(STARTING, "c4")
    turns(world, clock, 60)
    world.change(mute=True)
    fail(world, clock, "c1", "c2", "c3")

    world.change(mute=False)
    world.set(STARTING, "c1")
    turns(world, clock, 60)
    assert (world.flags("c1"), world.flags("c4")) == (UP, UP)


def test_the_alarm_of_a_set_that_is_no_more_ends(world: World, clock: Clock) -> None:
    turns(world, clock, 10)
    file = world.directory / "state.json"
    state = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**state, "alarms": {"former": "held"}}), encoding="utf-8")
    turns(world, clock, 10)

    assert json.loads(file.read_text(encoding="utf-8"))["alarms"] == {}


def test_a_machine_that_registers_ends_the_count_of_its_set(world: World, clock: Clock) -> None:
    for _turn in range(4):
        world.change(mute=True)
        fail(world, clock, "c1" if _turn < 2 else "c3")
        world.change(mute=False)
        world.set(STARTING, "c2")
        turns(world, clock, 60)
        world.set(ENDING, "c2")
        turns(world, clock, 60)

    assert ["c3"] in world.calls("start")


def test_one_node_that_never_registers_is_held_beside_others_that_do(world: World, clock: Clock) -> None:
    for _turn in range(5):
        world.change(mute=True)
        fail(world, clock, "c1")
        world.change(mute=False)
        world.set(STARTING, "c2")
        turns(world, clock, 60)
        world.set(ENDING, "c2")
        turns(world, clock, 60)

    assert world.calls("start").count(["c1"]) == 3
    assert world.calls("start").count(["c2"]) == 5


def test_machines_that_vanish_while_they_boot_count_too(world: World, clock: Clock) -> None:
    world.change(mute=True)
    world.set(STARTING, "c1")
    for _turn in range(20):
        turns(world, clock, 60)
        world.change(machines={})
        turns(world, clock, 90)

    assert len(world.calls("start")) == 3


def test_a_pass_after_a_long_pause_begins_the_period_again(world: World, clock: Clock) -> None:
    """An old file looks like that."""
    world.change(machines={"stray": False})
    turns(world, clock, 30)
    clock.now += 3600
    turns(world, clock, 30)
    assert world.machines() == ["stray"]

    turns(world, clock, 60)
    assert world.machines() == []


def test_a_restored_directory_is_made_again(tmp_path: Path) -> None:
    with Store(Host(World(tmp_path).run), str(tmp_path / "elastic")).locked() as memory:
        memory.assigned["x"] = "c1"

    assert (tmp_path / "elastic").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "elastic/state.json").stat().st_mode & 0o777 == 0o600


def killed(world: World, clock: Clock, at: int) -> bool:
    """Run a resume or suspend in a process that dies at one of its accesses; return whether it did."""
    child = os.fork()
    if child == 0:
        made, _said = passes(world, clock, KilledHost(world.run, at))
        made.until_settled(3)
        os._exit(0)
    _pid, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def test_after_fifty_random_kills_there_are_no_orphans_and_no_zombies(tmp_path: Path) -> None:
    world = World(tmp_path, 8)
    clock, choice, kills = Clock(world), random.Random(21), 0
    names = list(world.load()["nodes"])
    while kills < 50:
        node = choice.choice(names)
        if "POWERED_DOWN" in world.flags(node):
            world.set(STARTING, node)
        elif world.flags(node) == UP:
            world.set(ENDING, node)
        content = world.load()
        content["room"] = choice.choice([3, 8])
        if choice.random() < 0.3:  # the cloud takes a machine away, or a person makes one
            content["machines"].pop(choice.choice(names), None)
            content["machines"][choice.choice([*names, "stray"])] = False
        world.save(content)
        kills += killed(world, clock, choice.randrange(1, 16))
        clock.now += choice.choice([1, 31, 61])
        world.tick()

    running = next(name for name in names if world.flags(name) == UP)
    kept = {name: gone for name, gone in world.load()["machines"].items() if name != running}
    world.change(room=9, machines={**kept, "stray": False})
    made, _said = passes(world, clock)
    for _turn in range(4):
        made.until_settled(60)
        clock.now += 61
    states = {name: state for name, (state, _reason) in world.load()["nodes"].items()}
    expected = sorted(name for name, state in states.items() if "POWERED_DOWN" not in state)
    assert world.machines() == expected
    assert all(state in (OFF, UP) for state in states.values())


def test_slurm_is_told_of_no_machine_by_a_plain_reason() -> None:
    seen: list[list[str]] = []

    def run(argv: list[str], *_more: t.Any) -> tuple[int, str, str]:
        seen.append(argv)
        return 0, "", ""

    Slurm(run).power_down(["c1"], 'no "room"\nhere' + "x" * 300)

    assert seen[0][-1].startswith("reason=gpucluster-elastic: no  room  here")
    assert len(seen[0][-1]) <= 210


def test_passes_count_periods_by_a_clock_that_nobody_can_set() -> None:
    """A clock that is set would end a period of grace, and with it machines."""
    assert inspect.signature(Passes).parameters["clock"].default is steady.seconds
