# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The loop with a Slurm that is made up: what happens to a sick node, and what never happens."""

from __future__ import annotations

import contextlib
import json
import tarfile
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import cli, journal, plan, slurm, world
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.support.repair_cluster import FAULT, WEEK, FakeSlurm, Killed

if t.TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def cluster(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path)


def in_service(cluster: FakeSlurm, name: str) -> bool:
    """Return whether a node takes jobs of users."""
    return cluster.machines[name].flags == {"IDLE"} and name not in cluster.reserved and not cluster.jobs


@pytest.mark.parametrize(
    ("cured_by", "reason", "steps"),
    [
        ("gpu_reset", FAULT, ["gpu_reset"]),
        ("reboot", FAULT, ["gpu_reset", "reboot"]),
        (
            "service nvidia-persistenced",
            "NHC: gpu_persistence: expected persistence mode on, found off",
            ["service nvidia-persistenced"],
        ),
    ],
)
def test_a_sick_node_is_captured_repaired_validated_and_returned(
    cluster: FakeSlurm, cured_by: str, reason: str, steps: list[str]
) -> None:
    cluster.sicken("gpu1", cured_by, reason)

    cluster.go_on()

    done = [line for line in cluster.log if line in {f"{step} gpu1" for step in (*steps, "capture")}]
    assert done == ["capture gpu1", *(f"{step} gpu1" for step in steps)]
    assert "pair gpu1 gpu2" in cluster.log
    assert cluster.state("gpu1") == journal.RETURNED
    assert in_service(cluster, "gpu1")
    assert in_service(cluster, "gpu2")


def test_the_archive_has_what_the_node_and_the_controller_know(cluster: FakeSlurm, tmp_path: Path) -> None:
    cluster.sicken("gpu1", "reboot")

    cluster.go_on()

    (path,) = (tmp_path / "captures").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        assert archive.getnames() == ["controller/case.json", "controller/node.txt", "dmesg.txt"]


def _calls_of_a_repair(tmp_path: Path) -> int:
    whole = FakeSlurm(tmp_path)
    whole.sicken("gpu1", "reboot")
    whole.end()
    return whole.calls


@pytest.mark.parametrize("after", [False, True])
def test_a_repair_that_is_killed_at_any_call_goes_on(tmp_path: Path, after: bool) -> None:
    calls = _calls_of_a_repair(tmp_path / "whole")
    begun = set()
    for call in range(1, calls + 1):
        cluster = FakeSlurm(tmp_path / f"{call}")
        cluster.sicken("gpu1", "reboot")
        cluster.kill_at, cluster.kill_after = call, after

        begun.update(cluster.end())

        assert cluster.state("gpu1") == journal.RETURNED, call
        assert in_service(cluster, "gpu1"), call
        assert cluster.log.count("reboot gpu1") == 1, call
    assert begun >= {plan.CLAIM, plan.CAPTURE, "gpu_reset", "reboot", plan.HEALTH, plan.PAIR, plan.RETURN}


@pytest.mark.parametrize(("cured_by", "pair_works"), [("nothing", True), ("reboot", False)])
def test_a_node_that_fails_its_validation_never_returns(
    cluster: FakeSlurm, tmp_path: Path, cured_by: str, pair_works: bool
) -> None:
    cluster.sicken("gpu1", cured_by)
    cluster.pair_works = pair_works

    cluster.go_on(10)

    assert cluster.state("gpu1") == journal.OUT
    machine = cluster.machines["gpu1"]
    assert machine.flags == {"IDLE", "DRAIN"}
    assert machine.reason.startswith("repair: needs a person, tried gpu_reset, ")
    assert f"; when mended, 'gpucluster-repair retry gpu1': {FAULT[:40]}" in machine.reason
    (ticket,) = (json.loads(path.read_text()) for path in (tmp_path / "tickets").glob("*.json"))
    assert [one["step"] for one in ticket["tried"]][:2] == ["claim", "capture"]
    assert ticket["categories"] == ["Resource.Hpc.Unhealthy.M"]
    before = list(cluster.log)
    cluster.go_on(5)
    assert cluster.log == before  # nothing is tried again


@pytest.mark.parametrize(
    ("reason", "flags"),
    [
        *(
            (said, {"IDLE", "DRAIN"})
            for said in ("RMA 123", "repair by Anna", "NHC", "", "Prolog error", "Not responding")
        ),
        (FAULT, {"IDLE", "DRAIN", "FAIL"}),
        (FAULT, {"IDLE", "DRAIN", "POWERED_DOWN"}),
        (FAULT, {"IDLE", "DRAIN", "CLOUD"}),  # power saving of somebody else may take the machine at any time
        (FAULT, {"IDLE"}),
    ],
)
def test_a_node_that_the_health_check_did_not_drain_is_left_alone(
    cluster: FakeSlurm, reason: str, flags: set[str]
) -> None:
    cluster.sicken("gpu1", "reboot", reason)
    cluster.machines["gpu1"].flags = set(flags)

    cluster.go_on(5)

    assert (cluster.machines["gpu1"].reason, cluster.machines["gpu1"].flags) == (reason, flags)
    assert not cluster.reserved
    assert cluster.log == []


@pytest.mark.parametrize("drained", [True, False])
def test_a_person_takes_over_a_node_in_repair(cluster: FakeSlurm, drained: bool) -> None:
    cluster.sicken("gpu1", "reboot")
    cluster.repair().run()  # it reboots now
    cluster.boot("gpu1")
    machine = cluster.machines["gpu1"]
    machine.reason = "RMA 123" if drained else ""
    machine.flags = {"IDLE", "DRAIN"} if drained else {"IDLE"}

    cluster.go_on(5)

    assert cluster.state("gpu1") == journal.HANDED_OVER
    assert machine.reason == ("RMA 123" if drained else "")
    assert not cluster.reserved
    assert not cluster.jobs


@pytest.mark.parametrize("hidden", ["", "in the state", "in the list"])
def test_jobs_of_users_end_first(cluster: FakeSlurm, hidden: str) -> None:
    """A job counts also if only the state of the node shows it, or only the list of jobs."""
    cluster.sicken("gpu1", "reboot")
    cluster.jobs["7"] = ("train", ["gpu1"])
    cluster.stale, cluster.blind = {"gpu1"} if hidden == "in the state" else set(), hidden == "in the list"

    cluster.go_on(3)
    assert not cluster.reserved
    assert cluster.machines["gpu1"].reason == FAULT
    assert cluster.log[-1] == "gpu1 waits until its jobs are over"
    program = cluster.repair()
    with pytest.raises(world.Waiting):
        world.free(program._slurm, program._world, "gpu1")

    del cluster.jobs["7"]
    cluster.blind = False
    cluster.go_on()
    assert cluster.state("gpu1") == journal.RETURNED


def test_a_job_of_a_user_with_the_name_of_a_repair_is_a_job_of_a_user(cluster: FakeSlurm) -> None:
    cluster.sicken("gpu1", "reboot")
    cluster.repair().run()  # it reboots now
    cluster.boot("gpu1")
    cluster.jobs["7"] = (slurm.JOB, ["gpu1"])

    cluster.go_on(5)
    assert cluster.jobs == {"7": (slurm.JOB, ["gpu1"])}
    assert cluster.repair().cases()["gpu1"].open

    del cluster.jobs["7"]
    cluster.go_on()
    assert cluster.state("gpu1") == journal.RETURNED


def test_each_test_over_two_nodes_has_a_token_of_its_own(cluster: FakeSlurm) -> None:
    for _time in range(2):
        cluster.sicken("gpu1", "reboot")
        cluster.go_on()
    first, second = (found["GPUCLUSTER_PAIR_TOKEN"] for found in cluster.secrets)

    assert first != second
    assert len(bytes.fromhex(first)) == 32


@pytest.mark.parametrize("calls", [1, 10, 20, 25, 30, 35, 40, 45, 50, 60])
def test_a_program_that_is_removed_ends_what_it_began(cluster: FakeSlurm, calls: int) -> None:
    cluster.sicken("gpu1", "reboot")
    cluster.kill_at = calls
    with contextlib.suppress(Killed):
        cluster.repair().run()
        cluster.boot("gpu1")
        cluster.repair().run()
    cluster.kill_at = 0

    cluster.repair(mode="observe").stop()

    assert not cluster.reserved
    assert not cluster.jobs
    machine = cluster.machines["gpu1"]
    assert machine.reason in (FAULT, "")
    assert "DRAIN" in machine.flags or not machine.sick
    assert not any(case.open for case in cluster.repair().cases().values())


def test_the_partner_has_no_job_and_is_not_sick(tmp_path: Path) -> None:
    cluster = FakeSlurm(tmp_path, ["gpu1", "gpu2", "gpu3", "cpu1"])
    cluster.sicken("gpu1", "reboot")
    cluster.jobs["7"] = ("train", ["gpu2"])
    cluster.machines["cpu1"].partition = "cpu"
    cluster.machines["gpu3"].cured_by = "nothing"  # nobody has seen it yet

    cluster.go_on(5)
    assert not [line for line in cluster.log if line.startswith("pair ")]
    assert cluster.repair().cases()["gpu1"].open

    cluster.machines["gpu3"].cured_by = ""
    cluster.go_on(5)
    assert "pair gpu1 gpu3" in cluster.log
    assert cluster.state("gpu1") == journal.RETURNED
    assert cluster.jobs == {"7": ("train", ["gpu2"])}


def test_without_a_partner_nothing_is_proved(tmp_path: Path) -> None:
    cluster = FakeSlurm(tmp_path, ["gpu1"])
    cluster.sicken("gpu1", "gpu_reset")

    cluster.go_on(5, pair_wait_minutes=1)

    assert cluster.state("gpu1") == journal.OUT
    assert "reboot gpu1" not in cluster.log
    assert cluster.machines["gpu1"].reason.startswith("repair: needs a person, tried gpu_reset, health, pair failed")


def test_a_health_check_that_drains_the_node_again_does_not_end_the_repair(cluster: FakeSlurm) -> None:
    cluster.sicken("gpu1", "reboot")

    for _pass in range(12):
        cluster.go_on(1)
        if cluster.reserved and "DRAIN" in cluster.machines["gpu1"].flags:
            cluster.machines["gpu1"].reason = FAULT

    events = journal.Journal(str(cluster.directory), lambda: 0.0).events()
    assert [one["event"] for one in events if one["event"] in (journal.CLAIMED, *journal.ENDS)] == [
        "claimed",
        "returned",
    ]


@pytest.mark.parametrize("jump", [WEEK, -WEEK])
def test_a_clock_that_jumps_ends_no_wait_and_lets_none_last(tmp_path: Path, jump: float) -> None:
    cluster = FakeSlurm(tmp_path, ["gpu1"])
    cluster.sicken("gpu1", "gpu_reset")

    cluster.go_on(5, pair_wait_minutes=5)
    cluster.ahead = jump
    cluster.go_on(3, pair_wait_minutes=5)
    assert cluster.repair().cases()["gpu1"].open

    cluster.go_on(8, pair_wait_minutes=5)
    assert cluster.state("gpu1") == journal.OUT


@pytest.mark.parametrize(("ahead", "uptime"), [(0, 0), (-2 * WEEK, 3600), (2 * WEEK, 2 * WEEK), (-600, 3600)])
def test_another_boot_or_controller_counts_from_its_first_look(tmp_path: Path, ahead: float, uptime: float) -> None:
    cluster = FakeSlurm(tmp_path, ["gpu1"])
    cluster.sicken("gpu1", "gpu_reset")
    cluster.go_on(5, pair_wait_minutes=5)

    cluster.booted, cluster.ahead = cluster.now - uptime, ahead
    cluster.go_on(10, pair_wait_minutes=5)
    assert cluster.repair().cases()["gpu1"].open

    cluster.go_on(4, pair_wait_minutes=5)
    assert cluster.state("gpu1") == journal.OUT


def test_a_site_of_one_node_can_do_without_a_pair(tmp_path: Path) -> None:
    cluster = FakeSlurm(tmp_path, ["gpu1"])
    cluster.sicken("gpu1", "gpu_reset")

    cluster.go_on(3, pair=False)

    assert cluster.state("gpu1") == journal.RETURNED


@pytest.mark.parametrize(("given", "nodes", "most"), [("5%", 100, 5), ("5%", 19, 1), ("3", 100, 3), ("0", 100, 1)])
def test_few_nodes_are_in_repair_at_a_time(tmp_path: Path, given: str, nodes: int, most: int) -> None:
    cluster = FakeSlurm(tmp_path, [f"gpu{index}" for index in range(nodes)])
    for index in range(nodes - 1):
        cluster.sicken(f"gpu{index}", "nothing")

    cluster.repair(max_nodes=given).run()  # all of them reboot now

    assert len(cluster.reserved) == most


@pytest.mark.parametrize("text", ["many", "-1", "101%", ""])
def test_a_wrong_limit_is_refused(text: str) -> None:
    with pytest.raises(plan.SettingsError):
        plan.limit(text, 10)


def test_three_returns_in_seven_days_need_a_person(cluster: FakeSlurm) -> None:
    for _time in range(3):
        cluster.sicken("gpu1", "gpu_reset")
        cluster.go_on(3)
        assert cluster.state("gpu1") == journal.RETURNED
        cluster.now += 86400
    resets = cluster.log.count("gpu_reset gpu1")
    cluster.sicken("gpu1", "gpu_reset")

    cluster.go_on(3)

    assert cluster.state("gpu1") == journal.OUT
    assert cluster.log.count("gpu_reset gpu1") == resets == 3
    assert cluster.log.count("capture gpu1") == 4
    said = cluster.machines["gpu1"].reason
    assert said.startswith("repair: needs a person, 3 returns in 7 days, tried ")
    assert "when mended, 'scontrol update NodeName=gpu1 State=RESUME'" in said  # retry would give it up again


def test_old_returns_do_not_count(cluster: FakeSlurm) -> None:
    for _time in range(4):
        cluster.sicken("gpu1", "gpu_reset")
        cluster.go_on(3)
        assert cluster.state("gpu1") == journal.RETURNED
        cluster.now += WEEK / 2


@pytest.mark.parametrize("mode", ["observe", "capture", "propose"])
def test_a_mode_does_no_more_than_it_says(cluster: FakeSlurm, tmp_path: Path, mode: str) -> None:
    cluster.sicken("gpu1", "reboot")

    cluster.go_on(4, mode=mode)

    assert cluster.machines["gpu1"].reason == FAULT
    assert cluster.machines["gpu1"].flags == {"IDLE", "DRAIN"}
    assert not cluster.reserved
    assert not cluster.jobs
    assert cluster.log.count("capture gpu1") == (0 if mode == "observe" else 1)
    assert len(list((tmp_path / "tickets").glob("*.json"))) == (1 if mode == "propose" else 0)
    cluster.go_on(8)  # and then act
    assert cluster.state("gpu1") == journal.RETURNED


def test_a_mode_that_is_set_back_stops_a_repair(cluster: FakeSlurm) -> None:
    cluster.sicken("gpu1", "nothing")
    cluster.repair().run()  # it reboots now
    cluster.boot("gpu1")

    cluster.go_on(3, mode="observe")

    assert cluster.state("gpu1") == journal.PARKED
    assert cluster.machines["gpu1"].reason == FAULT
    assert cluster.log.count("reboot gpu1") == 1
    cluster.go_on(8)  # and again act
    assert cluster.state("gpu1") == journal.OUT
    assert cluster.log.count("reboot gpu1") == 2


def test_two_controllers_never_repair_the_same_node(cluster: FakeSlurm, tmp_path: Path) -> None:
    """Each has its own state directory, which is wrong; the reservation keeps them apart."""
    cluster.sicken("gpu1", "reboot")
    cluster.repair(directory=str(tmp_path)).run()
    machine = cluster.machines["gpu1"]
    cluster.boot("gpu1")
    machine.reason, jobs = FAULT, dict(cluster.jobs)  # not even if the reason looks new

    cluster.repair(directory=str(tmp_path / "other")).run()

    assert cluster.log[-1].endswith("which is not ours")
    assert cluster.jobs == jobs
    assert len(cluster.reserved) == 1


def test_one_run_at_a_time_has_the_state_directory(tmp_path: Path) -> None:
    import subprocess
    import sys
    import threading

    code = (
        "import fcntl, sys; stream = open(sys.argv[1], 'a'); fcntl.lockf(stream, fcntl.LOCK_EX); "
        "print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(journal.Busy), journal.alone(str(tmp_path)):
            pytest.fail("two runs at once")
        timer = threading.Timer(0.5, lambda: other.communicate(""))
        timer.start()
        with journal.alone(str(tmp_path), PATIENCE):  # a command of an administrator waits
            timer.join()
    with journal.alone(str(tmp_path)):
        pass


def test_a_failed_capture_means_no_repair(cluster: FakeSlurm) -> None:
    cluster.sicken("gpu1", "gpu_reset")
    cluster.capture_works = False

    cluster.go_on(5)

    assert cluster.state("gpu1") == journal.OUT
    assert cluster.log.count("capture gpu1") == 3
    assert "gpu_reset gpu1" not in cluster.log


def test_a_node_that_does_not_answer_needs_a_person(cluster: FakeSlurm) -> None:
    cluster.sicken("gpu1", "reboot")
    cluster.machines["gpu1"].answers = False

    cluster.repair().run()

    assert "reboot gpu1" not in cluster.log
    assert cluster.machines["gpu1"].reason.startswith("repair: needs a person, tried gpu_reset failed, reboot failed; ")


def test_a_reboot_that_never_ends_is_a_failed_step(cluster: FakeSlurm) -> None:
    cluster.sicken("gpu1", "nothing")
    cluster.repair().run()
    cluster.now += 31 * 60

    cluster.repair().run()

    assert cluster.state("gpu1") == journal.OUT
    assert "reboot failed" in cluster.machines["gpu1"].reason


def test_a_person_releases_a_node_or_lets_it_begin_again(cluster: FakeSlurm) -> None:
    cluster.sicken("gpu1", "nothing")
    cluster.go_on(6)
    assert cluster.repair().retry("gpu2") == "gpu2 is not a node that this program has given up"
    assert cluster.repair().retry("gpu1").startswith("gpu1 begins again")
    assert cluster.machines["gpu1"].reason == FAULT
    cluster.go_on(6)
    assert cluster.log.count("capture gpu1") == 2
    assert cluster.state("gpu1") == journal.OUT

    cluster.machines["gpu1"].flags = {"IDLE"}
    cluster.go_on(1)

    assert cluster.state("gpu1") == journal.RELEASED


def test_a_ticket_goes_to_the_address_of_the_site(cluster: FakeSlurm) -> None:
    cluster.sicken("gpu1", "nothing", "NHC: nhc: expected the checks of the site to pass, found ERROR")

    cluster.go_on(3, webhook="https://tickets.example")

    assert [ticket["node"] for ticket in cluster.posts] == ["gpu1"]
    said = "tried nothing; when mended, 'scontrol update NodeName=gpu1 State=RESUME'"
    assert said in cluster.machines["gpu1"].reason


def test_half_a_line_of_the_journal_is_skipped(tmp_path: Path) -> None:
    path = tmp_path / "repair.jsonl"
    path.write_bytes(
        b'{"time": 1, "node": "gpu1", "case": "a", "event": "claimed", "reason": "NHC: x: y"}\n{"time": 2, "no'
    )
    found = journal.Journal(str(tmp_path), lambda: 3.0)

    found.add("gpu1", "a", journal.BEGIN, step="claim")

    assert [event["event"] for event in found.events()] == ["claimed", "begin"]
    assert journal.cases(found.events())["gpu1"].begun == "claim"


def test_a_node_that_is_drained_again_while_it_returns_is_tested_again(
    cluster: FakeSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program is killed after it has resumed the node, and the health check finds another fault."""
    cluster.sicken("gpu1", "gpu_reset")
    update = cluster._update

    def killing(args: list[str]) -> tuple[int, str, str]:
        answer = update(args)
        if "State=RESUME" in args and cluster.repair().cases()["gpu1"].begun == plan.RETURN:
            cluster.kill_at = cluster.calls
            monkeypatch.undo()
        return answer

    monkeypatch.setattr(cluster, "_update", killing)
    for _pass in range(12):
        if cluster.kill_at:
            break
        with contextlib.suppress(Killed):
            cluster.repair().run()
    assert cluster.kill_at, "the return never began"
    cluster.sicken("gpu1", "reboot")

    cluster.go_on()

    assert cluster.state("gpu1") == journal.RETURNED
    assert in_service(cluster, "gpu1")
    assert "reboot gpu1" in cluster.log


@pytest.mark.parametrize(("cured_by", "state"), [("reboot", journal.RETURNED), ("nothing", journal.OUT)])
def test_a_list_of_nodes_that_lacks_one_ends_no_case(cluster: FakeSlurm, cured_by: str, state: str) -> None:
    cluster.sicken("gpu1", cured_by)
    cluster.go_on(1 if cured_by == "reboot" else 12)
    cluster.short.add("gpu1")
    cluster.go_on(2)
    cluster.short.clear()
    cluster.go_on()

    assert cluster.state("gpu1") == state


@pytest.mark.parametrize("out", [False, True])
def test_a_node_that_was_removed_from_slurm_ends_its_case(cluster: FakeSlurm, out: bool) -> None:
    cluster.sicken("gpu1", "nothing")
    cluster.go_on(12 if out else 0)
    cluster.repair().run()
    cluster.reserved.clear()
    del cluster.machines["gpu1"]
    cluster.jobs.clear()
    cluster.go_on(2)

    assert cluster.state("gpu1") == (journal.RELEASED if out else journal.HANDED_OVER)


@pytest.mark.parametrize("field", ["time", "node", "case", "event"])
def test_a_damaged_line_of_the_journal_stops_no_repair(cluster: FakeSlurm, field: str) -> None:
    cluster.sicken("gpu1", "reboot")
    cluster.go_on(1)
    line = {"time": cluster.now, "node": "gpu1", "case": "x", "event": "returned", field: [1]}
    with (cluster.directory / "repair.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")

    cluster.go_on()

    assert cluster.state("gpu1") == journal.RETURNED


def test_elastic_nodes_are_repaired_and_one_machine_starts_as_partner(tmp_path: Path) -> None:
    cluster = FakeSlurm(tmp_path, ["gpu1", "gpu2", "gpu3"])
    cluster.sicken("gpu1", "reboot")
    cluster.machines["gpu1"].flags.add("CLOUD")
    for name in ("gpu2", "gpu3"):
        cluster.machines[name].flags = {"IDLE", "CLOUD", "POWERED_DOWN"}

    cluster.go_on(20, elastic=["gpu1", "gpu2", "gpu3"])

    assert cluster.state("gpu1") == journal.RETURNED
    assert "pair gpu1 gpu2" in cluster.log
    assert "make gpu3" not in cluster.log


def test_the_elastic_nodes_are_those_of_the_other_program(tmp_path: Path) -> None:
    path = tmp_path / "elastic.json"
    assert cli.elastic_nodes(str(path)) == ()
    path.write_text(json.dumps({"nodes": {"gpu1": "/subscriptions/1", "gpu2": "/subscriptions/2"}, "directory": "/x"}))
    assert cli.elastic_nodes(str(path)) == ("gpu1", "gpu2")
    path.write_text("{")
    with pytest.raises(plan.SettingsError, match=r"elastic\.json is not usable"):
        cli.elastic_nodes(str(path))
