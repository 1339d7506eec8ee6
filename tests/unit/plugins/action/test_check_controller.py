# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action asks of a controller, and what it refuses."""

from __future__ import annotations

import time
import types
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.action import check_controller
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import config_plan, files
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs

ALICE = {"name": "alice", "uid": 2101}
BUSY = {"leaving": {"alice": 2001}, "jobs": {"alice": ["17 (RUNNING on gpu1)"]}}
ANSWERED = ["slurm_state_info", "slurm_release", "slurm_config_info"]


class Controller(check_controller.ActionModule):
    """The action before a controller that answers as it is told; each answer of C(states) is given once."""

    def __init__(self, *states: dict[str, t.Any], release: str = "", bare: bool = False, **known: t.Any) -> None:
        texts = {} if bare else files.texts(inputs(**known), cgroup=True)
        there = {name: {"content": config_plan.HEADER + text, "right": True} for name, text in texts.items()}
        self.info = {"files": there, "pending": [], "delegated": ["cpu", "cpuset", "memory"]}
        self.states = [{"cluster": "", "leaving": {}, "jobs": {}, "problem": "", **one} for one in states or ({},)]
        self.release = release
        self.asked: list[tuple[str, dict[str, t.Any]]] = []
        self.said: list[str] = []
        self._display = t.cast("t.Any", types.SimpleNamespace(display=self.said.append))
        self._variables = {}

    def _execute_module(self, *_args: t.Any, **given: t.Any) -> t.Any:
        name, asked = given["module_name"].rpartition(".")[2], given["module_args"]
        self.asked.append((name, asked))
        answers: dict[str, t.Any] = {
            "slurm_release": {"failed": True, "msg": self.release} if self.release else {},
            "slurm_config_info": {"at_risk": ["gpu1", "17"]} if asked.get("jobs") else self.info,
            "slurm_state_info": self.states[0],
        }
        if name == "slurm_state_info" and len(self.states) > 1:
            self.states.pop(0)
        return answers[name]

    def found(self, wanted: dict[str, t.Any] | None = None, **given: t.Any) -> list[str]:
        defaults = {"upgrade": False, "users": [], "removed": [], "user_jobs_seconds": 0}
        rest = {"database": {}, "new_database": False, "users_only": False}
        return self._problems({"inputs": inputs(**wanted or {}), **defaults, **rest, **given})


@pytest.mark.parametrize("bare", [False, True])
def test_a_finished_and_a_bare_controller_refuse_nothing_and_are_asked_once(bare: bool) -> None:
    controller = Controller(bare=bare)

    assert controller.found(users=[ALICE]) == []
    assert [name for name, __ in controller.asked] == ANSWERED


def test_all_refusals_come_at_once() -> None:
    controller = Controller({**BUSY, "cluster": "test"}, release="slurm_release says no", slurm_database="db1")

    problems = controller.found(
        {"slurm_cluster_name": "other", "slurm_database": "db1"},
        users=[ALICE],
        database={"clusters": [], "restore": ""},
    )

    assert len(problems) == 4, problems
    release, name, database, users = problems
    assert release == "slurm_release: slurm_release says no"
    assert "ClusterName" in name
    assert database.startswith("slurm_database: Slurm has the state of the cluster test")
    assert users.startswith("users_accounts (alice): uid 2001 becomes 2101")


def test_a_run_that_changes_users_only_is_refused_for_users_only() -> None:
    controller = Controller({**BUSY, "cluster": "test"}, release="slurm_release says no", slurm_database="db1")

    (problem,) = controller.found({"slurm_database": "db1"}, users=[ALICE], users_only=True)

    assert problem.startswith("users_accounts (alice): uid 2001 becomes 2101")
    assert [name for name, __ in controller.asked] == ["slurm_state_info"]


def test_another_name_is_allowed_where_jobs_may_be_lost() -> None:
    wanted = {"slurm_cluster_name": "other", "slurm_allow_job_loss": True}

    assert Controller(BUSY).found(wanted, users=[ALICE]) == []


def test_only_the_numbers_of_users_reach_the_controller() -> None:
    controller = Controller()
    controller.found(
        users=[{**ALICE, "password": "$6$lab$8Didkn.UcNG"}, {"name": "old", "state": "absent"}],
        removed=["mallory", {"name": "eve", "force": True}],
    )

    asked = controller.asked[0][1]
    assert asked["users"] == {"alice": 2101}
    assert sorted(asked["removed"]) == ["mallory", "old"], "the jobs of a user with force end with the processes"
    assert "$6$" not in str(asked)


def test_it_waits_for_jobs_as_long_as_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    ending = Controller(BUSY, BUSY, {"leaving": {"alice": 2001}})

    assert ending.found(users=[ALICE], user_jobs_seconds=40) == []
    assert slept == [15, 15]
    assert "17 (RUNNING on gpu1)" in ending.said[0]

    slept.clear()
    assert len(Controller(BUSY).found(users=[ALICE], user_jobs_seconds=40)) == 1
    assert slept == [15, 15, 10]


def test_it_does_not_wait_where_the_run_is_refused_anyway(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _seconds: pytest.fail("waited"))

    assert len(Controller(BUSY, release="no").found(users=[ALICE], user_jobs_seconds=40)) == 2


@pytest.mark.parametrize("is_allowed", [False, True])
def test_without_a_controller_only_changes_of_users_are_refused(is_allowed: bool) -> None:
    machine = Controller({"leaving": {"alice": 2001}})
    given = {"users": [ALICE], "removed": []}
    problems = machine._unknown(
        {"inputs": {"slurm_allow_job_loss": is_allowed, "slurm_state_directory": "/var/spool/slurmctld"}, **given}
    )

    assert [name for name, __ in machine.asked] == ["slurm_state_info"]
    assert len(problems) == (not is_allowed)
    assert all("nobody knows whether Slurm has jobs of these users: no controller answers" in one for one in problems)
    assert Controller()._unknown({"inputs": inputs(), **given}) == []
