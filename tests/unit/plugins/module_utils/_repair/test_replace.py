# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Replacement of a machine by an elastic set and by a spare, with a Slurm that is made up."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import cli, journal, plan, replace, states
from ansible_collections.hpcai.gpucluster.tests.unit.support.repair_cluster import FAULT, POOL, FakeSlurm

if t.TYPE_CHECKING:
    from pathlib import Path

RULES = [{"check": "gpu_count", "steps": ["replace"], "category": "M", "source": "s"}]
SET: dict[str, t.Any] = {"rules": RULES, "commands": {}, "elastic": ["gpu1"]}
SPARES: dict[str, t.Any] = {"rules": RULES, "commands": {}, "spares": POOL}


def with_set(directory: Path) -> FakeSlurm:
    """Return a cluster whose gpu1 is a sick node of an elastic set."""
    cluster = FakeSlurm(directory)
    cluster.sicken("gpu1", "replace")
    cluster.machines["gpu1"].flags.add("CLOUD")
    return cluster


def with_spares(directory: Path, *spares: str) -> FakeSlurm:
    """Return a cluster whose gpu1 is sick and has spares."""
    cluster = FakeSlurm(directory, ["gpu1", "gpu2", "gpu8", "gpu9"])
    cluster.pool = set(spares)
    cluster.sicken("gpu1", "nothing")
    return cluster


def tried(cluster: FakeSlurm, name: str = "gpu1") -> list[tuple[str, bool]]:
    return [(one.step, one.ok) for one in cluster.repair().cases()[name].tried]


def ticket(directory: Path) -> dict[str, t.Any]:
    (path,) = (directory / "tickets").glob("*.json")
    return dict(json.loads(path.read_text()))


def test_a_set_makes_a_new_machine_which_is_validated(tmp_path: Path) -> None:
    cluster = with_set(tmp_path)

    cluster.go_on(20, **SET)

    assert [line for line in cluster.log if line.split()[0] in ("end", "make")] == ["end gpu1", "make gpu1"]
    steps = ["claim", "capture", "replace", "health", "pair", "return"]
    assert tried(cluster) == [(step, True) for step in steps]
    assert cluster.state("gpu1") == journal.RETURNED
    assert cluster.machines["gpu1"].flags == {"IDLE", "CLOUD"}
    assert not cluster.reserved
    assert not cluster.jobs


@pytest.mark.parametrize("after", [False, True])
def test_a_replacement_by_the_set_that_is_killed_at_any_call_goes_on(tmp_path: Path, after: bool) -> None:
    whole = with_set(tmp_path / "whole")
    whole.end(**SET)
    begun = set()
    for call in range(1, whole.calls + 1):
        cluster = with_set(tmp_path / f"{call}")
        cluster.kill_at, cluster.kill_after = call, after

        begun.update(cluster.end(**SET))

        assert cluster.state("gpu1") == journal.RETURNED, call
        assert cluster.log.count("end gpu1") in (1, 2 if after else 1), call
        assert cluster.machines["gpu1"].boot == 2, call
        assert not cluster.reserved, call
        assert not cluster.jobs, call
    assert begun >= {"claim", "capture", "replace", "health", "pair", "return"}


def test_a_cloud_without_capacity_is_asked_again_until_the_time_is_over(tmp_path: Path) -> None:
    cluster = with_set(tmp_path)
    cluster.capacity = False

    cluster.go_on(40, **SET, command_minutes=5, reboot_minutes=5)

    assert cluster.state("gpu1") == journal.OUT
    assert cluster.log.count("end gpu1") == 1
    assert cluster.log.count("make gpu1") > 2
    assert tried(cluster)[-1] == ("replace", False)
    machine = cluster.machines["gpu1"]
    assert "DRAIN" in machine.flags
    assert machine.reason.startswith("repair: needs a person, tried replace failed")
    assert "no new machine in 10 minutes" in ticket(tmp_path)["tried"][-1]["text"]
    assert cluster.repair(**SET).retry("gpu1").startswith("gpu1 has no machine; scontrol update NodeName=gpu1")


def test_capacity_that_comes_back_is_used(tmp_path: Path) -> None:
    cluster = with_set(tmp_path)
    cluster.capacity = False
    cluster.go_on(10, **SET)
    cluster.capacity = True

    cluster.go_on(20, **SET)

    assert cluster.state("gpu1") == journal.RETURNED


def test_a_person_who_takes_a_node_without_a_machine_has_it(tmp_path: Path) -> None:
    cluster = with_set(tmp_path)
    cluster.go_on(2, **SET)
    machine = cluster.machines["gpu1"]
    machine.flags, machine.reason = {"IDLE", "CLOUD", "DRAIN", "POWERED_DOWN"}, "RMA 123"

    cluster.go_on(3, **SET)

    assert cluster.state("gpu1") == journal.HANDED_OVER
    assert machine.reason == "RMA 123"
    assert not cluster.reserved


def test_a_person_who_resumes_the_old_machine_keeps_it(tmp_path: Path) -> None:
    cluster = with_set(tmp_path)
    cluster.go_on(1, **SET)
    cluster.machines["gpu1"].flags, cluster.machines["gpu1"].cured_by = {"IDLE", "CLOUD"}, ""

    cluster.go_on(3, **SET)

    assert cluster.state("gpu1") == journal.HANDED_OVER
    assert cluster.machines["gpu1"].flags == {"IDLE", "CLOUD"}


def test_a_cloud_node_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    cluster = with_set(tmp_path)

    cluster.go_on(4, rules=RULES)

    assert cluster.log == []
    assert not cluster.reserved


def test_a_command_of_the_site_comes_before_the_set(tmp_path: Path) -> None:
    cluster = with_set(tmp_path)

    cluster.go_on(6, **{**SET, "commands": {"replace": ["swap"]}})

    assert "replace gpu1" in cluster.log
    assert "end gpu1" not in cluster.log
    assert cluster.state("gpu1") == journal.RETURNED


def test_a_set_without_a_machine_starts_one_partner(tmp_path: Path) -> None:
    cluster = FakeSlurm(tmp_path, ["gpu1", "gpu2", "gpu3"])
    cluster.sicken("gpu1", "replace")
    cluster.machines["gpu1"].flags.add("CLOUD")
    for name in ("gpu2", "gpu3"):
        cluster.machines[name].flags = {"IDLE", "CLOUD", "POWERED_DOWN"}

    cluster.go_on(20, **{**SET, "elastic": ["gpu1", "gpu2", "gpu3"]})

    assert cluster.state("gpu1") == journal.RETURNED
    assert "pair gpu1 gpu2" in cluster.log
    assert "make gpu3" not in cluster.log


OLD = "2026-11-23T06:00:00"


@pytest.mark.parametrize(
    ("flags", "answers", "boot", "wanted"),
    [
        ({"IDLE", "CLOUD", "DRAIN"}, True, OLD, replace.OFF),
        ({"IDLE", "CLOUD", "DRAIN"}, True, "2026-11-23T06:00:01", replace.OFF),
        ({"DOWN", "CLOUD", "DRAIN"}, False, OLD, replace.OFF),
        ({"IDLE", "CLOUD", "DRAIN", "POWER_DOWN"}, True, OLD, replace.WAIT),
        ({"IDLE", "CLOUD", "POWERING_DOWN"}, True, OLD, replace.WAIT),
        ({"IDLE", "CLOUD", "POWERED_DOWN"}, True, OLD, replace.ON),
        ({"IDLE", "CLOUD", "POWERED_DOWN", "DRAIN"}, True, OLD, replace.ON),
        ({"IDLE", "CLOUD", "POWERED_DOWN", "POWER_UP"}, True, OLD, replace.WAIT),
        ({"IDLE", "CLOUD", "POWERING_UP", "DRAIN"}, False, OLD, replace.WAIT),
        ({"DOWN", "CLOUD", "POWERED_DOWN"}, False, OLD, replace.WAIT),
        ({"IDLE", "CLOUD", "DRAIN"}, True, "2026-11-23T06:05:00", replace.DONE),
        ({"IDLE", "CLOUD"}, True, "2026-11-23T06:05:00", replace.DONE),
        ({"DOWN", "CLOUD", "DRAIN"}, False, "2026-11-23T06:05:00", replace.WAIT),
    ],
)
def test_the_state_of_power_saving_gives_the_next_call(flags: set[str], answers: bool, boot: str, wanted: str) -> None:
    assert replace.power(states.Node("gpu1", frozenset(flags), "", answers, boot), OLD) == wanted


@pytest.mark.parametrize(
    ("other", "same"),
    [(OLD, True), ("2026-11-23T05:59:59", True), ("2026-11-23T06:00:11", False), ("None", False), ("", False)],
)
def test_a_boot_time_varies_by_the_time_of_a_message(other: str, same: bool) -> None:
    assert states.same_boot(other, OLD) == same


def test_a_spare_takes_the_place_of_a_node(tmp_path: Path) -> None:
    cluster = with_spares(tmp_path, "gpu8", "gpu9")

    cluster.go_on(8, **SPARES)

    assert tried(cluster) == [("claim", True), ("capture", True), ("spare", True), ("swap", True)]
    assert cluster.swapped == ["gpu8"]
    assert cluster.pool == {"gpu9"}
    assert cluster.state("gpu1") == journal.OUT
    assert cluster.machines["gpu1"].reason == f"repair: replaced by gpu8, tried spare: {FAULT}"
    assert ticket(tmp_path)["replaced_by"] == "gpu8"
    assert "check gpu8" in cluster.log
    assert not cluster.reserved
    assert not cluster.jobs


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("pool", [("gpu8", "gpu9"), ("gpu9",)])
def test_a_case_has_one_spare_also_if_it_is_killed_at_any_call(
    tmp_path: Path, pool: tuple[str, ...], after: bool
) -> None:
    whole = with_spares(tmp_path / "whole", *pool)
    whole.end(**SPARES)
    begun = set()
    for call in range(1, whole.calls + 1):
        cluster = with_spares(tmp_path / f"{call}", *pool)
        cluster.kill_at, cluster.kill_after = call, after

        begun.update(cluster.end(**SPARES))

        assert len(cluster.swapped) == 1, call
        assert cluster.state("gpu1") == journal.OUT, call
        assert cluster.machines["gpu1"].reason.startswith(f"repair: replaced by {cluster.swapped[0]}"), call
        assert not cluster.reserved, call
        assert not cluster.jobs, call
    assert begun >= {"claim", "capture", "spare", "swap", "out"}


@pytest.mark.parametrize("step", ["claim", "capture", "spare", "swap", "out"])
def test_a_case_that_is_killed_before_the_end_of_a_step_is_written_has_one_spare(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, add = with_spares(tmp_path, "gpu8", "gpu9"), journal.Journal.add

    class Kill(BaseException):
        pass

    def killing(self: journal.Journal, node: str, case: str, what: str, **more: t.Any) -> None:
        if (what == journal.END and more.get("step") == step) or what == step:
            raise Kill
        add(self, node, case, what, **more)

    monkeypatch.setattr(journal.Journal, "add", killing)
    with pytest.raises(Kill):
        cluster.go_on(8, **SPARES)
    assert cluster.repair().cases()["gpu1"].begun == step
    assert ("gpu8" in cluster.reserved) == (step == "spare")  # after the swap, jobs can use it at once
    monkeypatch.setattr(journal.Journal, "add", add)

    cluster.go_on(8, **SPARES)

    assert cluster.swapped == ["gpu8"]
    assert cluster.state("gpu1") == journal.OUT
    assert not cluster.reserved


def test_two_controllers_take_different_spares(tmp_path: Path) -> None:
    """Each has its own state directory, which is wrong; the second one acts between any two calls of the first one."""
    first = with_spares(tmp_path / "whole", "gpu8", "gpu9")
    first.end(**SPARES)
    for call in range(1, first.calls + 1):
        cluster = with_spares(tmp_path / f"{call}", "gpu8", "gpu9")
        cluster.sicken("gpu2", "nothing")
        other = {**SPARES, "directory": str(tmp_path / f"{call}" / "other")}
        (tmp_path / f"{call}" / "other").mkdir()
        run, calls = cluster.run, 0

        def interleaved(*given: t.Any, _run: t.Any = run, _call: int = call) -> tuple[int, str, str]:
            nonlocal calls
            calls += 1
            if calls == _call:
                cluster.run = _run  # type: ignore[method-assign]  # noqa: B023
                cluster.repair(**other).run("gpu2")  # noqa: B023
            return t.cast("tuple[int, str, str]", _run(*given))

        cluster.run = interleaved  # type: ignore[assignment, method-assign]
        cluster.repair(**SPARES).run("gpu1")
        cluster.run = run  # type: ignore[method-assign]
        cluster.repair(**SPARES).run("gpu1")
        cluster.repair(**other).run("gpu2")

        assert sorted(cluster.swapped) == ["gpu8", "gpu9"], call
        assert not cluster.reserved, call


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"partition": "cpu"}, "gpu9: other partitions, GRES or features"),
        ({"gres": "gpu:h100:4"}, "gpu9: other partitions, GRES or features"),
        ({"features": "a100"}, "gpu9: other partitions, GRES or features"),
        ({"flags": {"IDLE", "DRAIN"}}, "gpu9: not idle"),
        ({"flags": {"ALLOCATED", "RESERVED"}}, "gpu9: not idle"),
        ({"flags": {"IDLE", "CLOUD"}}, "gpu9: other partitions"),
        ({"answers": False}, "gpu9: not idle"),
        ({"cured_by": "nothing"}, "gpu9: gpu_count is unhealthy"),
    ],
)
def test_a_spare_that_does_not_fit_is_not_taken(tmp_path: Path, change: dict[str, t.Any], says: str) -> None:
    cluster = with_spares(tmp_path, "gpu9")
    cluster.machines["gpu1"].features = "h100"
    for name, value in {"features": "h100", **change}.items():
        setattr(cluster.machines["gpu9"], name, value)

    cluster.go_on(6, **SPARES)

    assert cluster.swapped == []
    assert cluster.pool == {"gpu9"}
    assert cluster.machines["gpu1"].reason.startswith("repair: needs a person, tried spare failed")
    (said,) = (one["text"] for one in ticket(tmp_path)["tried"] if one["step"] == "spare")
    assert says in said
    assert not cluster.reserved
    assert not cluster.jobs


def test_the_sockets_of_gpus_do_not_matter() -> None:
    shown = "NodeName={}\n   Gres=gpu:h100:8({})\n   State=IDLE\n   Partitions=gpu\n"
    one, other = states.parse(shown.format("gpu1", "S:0-1") + "\n" + shown.format("gpu9", "S:0,3"))

    assert replace.fits(other, one)


def test_the_next_spare_is_taken_if_the_first_one_is_sick(tmp_path: Path) -> None:
    cluster = with_spares(tmp_path, "gpu8", "gpu9")
    cluster.machines["gpu8"].cured_by = "nothing"

    cluster.go_on(6, **SPARES)

    assert cluster.swapped == ["gpu9"]
    assert cluster.pool == {"gpu8"}


def test_without_spares_the_ticket_says_so(tmp_path: Path) -> None:
    cluster = with_spares(tmp_path)

    cluster.go_on(6, **SPARES)

    assert cluster.state("gpu1") == journal.OUT
    assert "tried spare failed" in cluster.machines["gpu1"].reason
    assert ticket(tmp_path)["tried"][-1]["text"] == f"no spare in {POOL}: it is empty"
    assert ticket(tmp_path)["replaced_by"] == ""


def test_a_sick_spare_takes_no_other_spare(tmp_path: Path) -> None:
    cluster = with_spares(tmp_path, "gpu1", "gpu9")

    cluster.go_on(6, **SPARES)

    assert cluster.swapped == []
    assert tried(cluster)[-1] == ("spare", False)


@pytest.mark.parametrize("commands", [{"replace": ["swap"]}, {}])
def test_a_spare_is_the_last_way(tmp_path: Path, commands: dict[str, list[str]]) -> None:
    """The command and the set come first; the new machine is sick, too."""
    cluster = with_spares(tmp_path, "gpu9")
    cluster.machines["gpu1"].flags.add("CLOUD")

    cluster.go_on(20, **{**SPARES, "commands": commands, "elastic": ["gpu1"]})

    assert [step for step, _ok in tried(cluster)] == ["claim", "capture", "replace", "health", "spare", "swap"]
    assert ("replace gpu1" in cluster.log) == bool(commands)
    assert ("make gpu1" in cluster.log) != bool(commands)
    assert cluster.swapped == ["gpu9"]
    assert "DRAIN" in cluster.machines["gpu1"].flags
    assert cluster.machines["gpu1"].reason.startswith("repair: replaced by gpu9, tried replace, health failed, spare: ")


def test_a_node_that_begins_again_takes_no_second_spare(tmp_path: Path) -> None:
    cluster = with_spares(tmp_path, "gpu8", "gpu9")
    cluster.go_on(6, **SPARES)
    assert cluster.repair(**SPARES).retry("gpu1").startswith("gpu1 begins again")

    cluster.go_on(6, **SPARES)

    assert cluster.swapped == ["gpu8"]
    assert cluster.machines["gpu1"].reason.startswith("repair: replaced by gpu8, tried nothing")
    cluster.machines["gpu1"].flags, cluster.machines["gpu1"].reason = {"IDLE"}, ""  # a person has mended it
    cluster.go_on(1, **SPARES)
    cluster.sicken("gpu1", "nothing")
    cluster.go_on(6, **SPARES)
    assert cluster.swapped == ["gpu8", "gpu9"]


def test_a_mode_that_is_set_back_gives_the_spare_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = with_spares(tmp_path, "gpu9")

    class Kill(BaseException):
        pass

    with monkeypatch.context() as patch:
        patch.setattr(journal.Journal, "add", _kill_at_begin_of("swap", Kill))
        with pytest.raises(Kill):
            cluster.go_on(6, **SPARES)
    assert set(cluster.reserved) == {"gpu1", "gpu9"}

    cluster.go_on(3, **SPARES, mode="observe")

    assert cluster.state("gpu1") == journal.PARKED
    assert not cluster.reserved
    assert cluster.pool == {"gpu9"}


def _kill_at_begin_of(step: str, kill: type[BaseException]) -> t.Callable[..., None]:
    add = journal.Journal.add

    def killing(self: journal.Journal, node: str, case: str, what: str, **more: t.Any) -> None:
        if what == journal.BEGIN and more.get("step") == step:
            raise kill
        add(self, node, case, what, **more)

    return killing


def test_a_mended_node_becomes_the_next_spare(tmp_path: Path) -> None:
    cluster = with_spares(tmp_path, "gpu9")
    cluster.go_on(6, **SPARES)
    assert not cluster.pool
    cluster.machines["gpu1"].cured_by = ""

    assert cluster.repair(**SPARES).spare("gpu1") == f"gpu1 is a spare of {POOL}"

    assert cluster.pool == {"gpu1"}
    assert cluster.machines["gpu1"].flags == {"IDLE"}
    assert cluster.repair(**SPARES).spare("gpu8") == f"gpu8 is a spare of {POOL}"
    assert cluster.repair(**SPARES).spare("gpu8") == f"gpu8 is a spare of {POOL}"
    assert cluster.pool == {"gpu1", "gpu8"}


def test_what_cannot_be_a_spare_is_refused(tmp_path: Path) -> None:
    cluster = with_set(tmp_path)
    assert cluster.repair().spare("gpu2") == "the site has no spares: repair_spares is empty"
    assert cluster.repair(**SPARES).spare("gpu1").startswith("gpu1 cannot be a spare: CLOUD+DRAIN+IDLE")
    cluster.machines["gpu2"].flags = {"ALLOCATED"}
    assert cluster.repair(**SPARES).spare("gpu2").startswith("gpu2 cannot be a spare: ALLOCATED")
    assert not cluster.pool


def test_a_ladder_without_replace_takes_no_spare() -> None:
    settings = plan.Settings("act", "5%", "", RULES, {}, spares=POOL)

    assert plan.steps(journal.Case("gpu1", "c", FAULT, 0.0, "act"), settings) == ["spare"]
    reboot = settings._replace(rules=[{**RULES[0], "steps": ["reboot"]}])
    assert plan.steps(journal.Case("gpu1", "c", FAULT, 0.0, "act"), reboot) == ["reboot"]


def test_the_nodes_of_elastic_sets_are_those_of_the_other_program(tmp_path: Path) -> None:
    path = tmp_path / "elastic.json"
    assert cli.elastic_nodes(str(path)) == ()
    one = {"name": "h100", "nodes": ["gpu1", "gpu2"], "provider": "azure", "min_count": 0, "options": {}}
    one.update(end_limit=10, start_limit=3)
    path.write_text(json.dumps({"sets": [one], "directory": "/x"}))
    assert cli.elastic_nodes(str(path)) == ("gpu1", "gpu2")
    path.write_text("{")
    with pytest.raises(plan.SettingsError, match=r"elastic\.json is not a valid configuration"):
        cli.elastic_nodes(str(path))
