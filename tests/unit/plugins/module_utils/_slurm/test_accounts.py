# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import accounts


def problems(**kinds: t.Any) -> list[str]:
    """Return what is wrong with entries."""
    return accounts.wanted(kinds.get("qos", []), kinds.get("accounts", []), kinds.get("users", [])).problems


def test_entries_become_settings_of_sacctmgr() -> None:
    wanted = accounts.wanted(
        [{"name": "high", "priority": 10, "flags": ["DenyOnLimit"], "limits": {"MaxWall": 60}}],
        [{"name": "research", "fairshare": "3", "parent": "root", "qos": [], "limits": {"GrpTRES": {"cpu": 4}}}],
        [{"name": "bob", "account": "research", "admin_level": "operator", "limits": {"MaxJobs": 2}}],
    )

    assert wanted.problems == []
    assert wanted.qos == {"high": {"Priority": "10", "Flags": {"DenyOnLimit"}, "MaxWallDurationPerJob": 60}}
    assert wanted.accounts == {
        "research": {"Parent": "root", "Fairshare": "3", "QOS": frozenset(), "GrpTRES": {"cpu": 4}}
    }
    assert wanted.users == {"bob": {"AdminLevel": "Operator"}}
    assert wanted.associations == {("bob", "research", ""): {"MaxJobs": 2}}


def test_exclusive_means_that_there_are_no_other_limits() -> None:
    wanted = accounts.wanted([{"name": "high", "limits": {"MaxWall": 60}}], [], [], exclusive=True)

    assert wanted.qos["high"]["MaxWallDurationPerJob"] == 60
    assert wanted.qos["high"]["GrpJobs"] is None
    assert wanted.qos["high"]["GrpTRES"] == {}
    assert wanted.qos["high"]["UsageFactor"] == 1.0


@pytest.mark.parametrize(
    ("kinds", "message"),
    [
        ({"accounts": [{"name": "Research"}]}, "accounts: 'Research' is no name for Slurm's accounting"),
        ({"qos": [{"name": "a"}, {"name": "a"}]}, "qos: 'a' is listed twice"),
        ({"qos": [{"name": "normal", "state": "absent"}]}, "qos: 'normal' cannot be removed"),
        ({"accounts": [{"name": "root", "state": "absent"}]}, "accounts: 'root' cannot be removed"),
        ({"users": [{"name": "root", "state": "absent"}]}, "users: 'root' cannot be removed"),
        ({"accounts": [{"name": "root", "parent": "a"}]}, "accounts: 'root' has no parent"),
        ({"qos": [{"name": "a", "limits": {"MaxNode": 1}}]}, "qos a: unknown limit 'MaxNode'"),
        ({"accounts": [{"name": "a", "limits": {"GrpTRES": "cpu=12x"}}]}, "account a: GrpTRES: cpu is '12x'"),
        ({"accounts": [{"name": "a", "fairshare": "much"}]}, "account a: fairshare is 'much', expected a whole number"),
        (
            {"accounts": [{"name": "a", "qos": ["x"], "default_qos": "y"}]},
            "default_qos is 'y', which is not one of its qos",
        ),
        ({"users": [{"name": "u"}]}, "users: 'u' is in no account"),
        (
            {"users": [{"name": "u", "account": "a", "default_account": "b"}]},
            "has the default account 'b' and is not in it",
        ),
        (
            {"users": [{"name": "u", "account": "a", "associations": [{"account": "a"}]}]},
            "users: 'u' is twice in account 'a'",
        ),
        (
            {"users": [{"name": "u", "fairshare": "1", "associations": [{"account": "a"}]}]},
            "users: 'u' has some of fairshare, qos, default_qos, limits without account",
        ),
        (
            {"accounts": [{"name": "a", "parent": "b"}, {"name": "b", "state": "absent"}]},
            "accounts: 'a' has the parent 'b', which shall be absent",
        ),
        (
            {"accounts": [{"name": "a", "state": "absent"}], "users": [{"name": "u", "account": "a"}]},
            "users: 'u' is in account 'a', which shall be absent",
        ),
        ({"accounts": [{"name": "a", "parent": "a"}]}, "accounts: 'a' is below itself"),
    ],
)
def test_what_slurm_would_refuse_or_misread_is_named(kinds: t.Any, message: str) -> None:
    (problem,) = problems(**kinds)

    assert message in problem


def test_a_ring_of_parents_is_found() -> None:
    found = problems(
        accounts=[{"name": "a", "parent": "b"}, {"name": "b", "parent": "c"}, {"name": "c", "parent": "b"}]
    )

    assert any("is below itself by way of parent" in problem for problem in found)
