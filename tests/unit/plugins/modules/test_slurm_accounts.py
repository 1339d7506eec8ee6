# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm.sacctmgr import Sacctmgr, SacctmgrError
from ansible_collections.hpcai.gpucluster.plugins.modules.slurm_accounts import ProblemsError, apply

if t.TYPE_CHECKING:
    from collections.abc import Sequence

FIXTURES = Path(__file__).parents[2] / "fixtures/sacctmgr/24.11.5"
# What the accounting of the fixtures was made from, by this module.
MADE_FROM: dict[str, t.Any] = {
    "cluster": "lab",
    "exclusive": True,
    "qos": [
        {"name": "normal"},
        {
            "name": "high",
            "description": "For Deadlines",
            "priority": 100,
            "flags": ["DenyOnLimit"],
            "preempt": ["low"],
            "preempt_mode": "requeue",
            "limits": {
                "MaxTRESPerUser": {"gres/gpu": 16, "mem": "100G"},
                "MaxWall": "1-00:00:00",
                "GraceTime": 90,
                "UsageFactor": 2,
                "MaxJobsPU": 5,
                "GrpTRESMins": "cpu=100000",
            },
        },
        {"name": "low", "priority": 1},
    ],
    "accounts": [
        {"name": "team", "parent": "research", "description": "A | B Team"},
        {
            "name": "research",
            "fairshare": "3",
            "organization": "Lab",
            "qos": ["normal", "high"],
            "default_qos": "normal",
            "limits": {"GrpTRES": {"gres/gpu": 64, "cpu": 100}, "MaxWall": 120, "GrpWall": -1},
        },
    ],
    "users": [
        {"name": "alice", "account": "research", "admin_level": "operator", "fairshare": "parent"},
        {
            "name": "bob",
            "default_account": "team",
            "associations": [
                {"account": "research", "limits": {"MaxJobs": 2, "MaxSubmitJobs": 9}},
                {"account": "team", "qos": ["normal"]},
                {"account": "team", "partition": "main", "fairshare": "7"},
            ],
        },
    ],
}


class FakeSacctmgr:
    """Answer listings as sacctmgr 24.11.5 did and note every change."""

    def __init__(self, rc: int = 0) -> None:
        self.rc = rc
        self.changes: list[list[str]] = []

    def __call__(self, args: Sequence[str]) -> tuple[int, str, str]:
        if self.rc:
            return self.rc, "", "Connection refused"
        if args[1] == "-i":
            self.changes.append(list(args[2:]))
            return 0, " Modified account associations...\n", ""
        return 0, (FIXTURES / f"{args[4]}.txt").read_text(encoding="utf-8"), ""


def test_what_the_module_made_is_left_as_it_is() -> None:
    fake = FakeSacctmgr()

    result = apply(Sacctmgr(fake), MADE_FROM, check_mode=False)

    assert result == {"changed": False, "commands": [], "diff": {"before": {}, "after": {}}}
    assert fake.changes == []


@pytest.mark.parametrize("check_mode", [True, False])
def test_a_difference_is_changed_unless_in_check_mode(check_mode: bool) -> None:
    fake = FakeSacctmgr()
    params = {**MADE_FROM, "accounts": [{"name": "team", "fairshare": "4"}], "exclusive": False}
    call = ["modify", "account", "where", "name=team", "cluster=lab", "set", "Fairshare=4"]

    result = apply(Sacctmgr(fake), params, check_mode=check_mode)

    assert result["changed"]
    assert result["commands"] == [call]
    assert result["diff"] == {
        "before": {"account team": {"Fairshare": "1"}},
        "after": {"account team": {"Fairshare": "4"}},
    }
    assert fake.changes == ([] if check_mode else [call])


def test_a_problem_is_found_before_anything_changes() -> None:
    fake = FakeSacctmgr()
    bad = [{"name": "new"}, {"name": "team", "limits": {"GrpTRES": "cpu=12x"}}]

    with pytest.raises(ProblemsError, match="account team: GrpTRES: cpu is '12x'"):
        apply(Sacctmgr(fake), {**MADE_FROM, "accounts": bad}, check_mode=False)
    with pytest.raises(ProblemsError, match="users: 'zoe' is in the unknown account 'zoo'"):
        apply(Sacctmgr(fake), {**MADE_FROM, "users": [{"name": "zoe", "account": "zoo"}]}, check_mode=False)
    assert fake.changes == []


def test_check_mode_predicts_before_there_is_a_database() -> None:
    for sacctmgr in (None, Sacctmgr(FakeSacctmgr(rc=1))):
        result = apply(sacctmgr, MADE_FROM, check_mode=True)

        assert result["changed"]
        assert "account research" in result["diff"]["after"]


def test_a_database_that_does_not_answer_is_an_error() -> None:
    with pytest.raises(SacctmgrError, match="Connection refused"):
        apply(Sacctmgr(FakeSacctmgr(rc=1)), MADE_FROM, check_mode=False)
