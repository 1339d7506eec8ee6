# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_accounts_problems import (
    FilterModule,
    slurm_accounts_problems,
)


@pytest.mark.parametrize(
    "entries",
    [
        {},
        {"qos": None},
        {"accounts": [{"name": "a", "fairshare": 3}], "users": [{"name": "u", "account": "a", "qos": ["high"]}]},
    ],
)
def test_good_lists_have_no_problem(entries: t.Any) -> None:
    assert slurm_accounts_problems(entries) == []


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"qos": [{"name": "high", "limits": {"MaxWall": "soon"}}]}, "qos high: MaxWallDurationPerJob is 'soon'"),
        ({"qos": [{"nam": "high"}]}, "nam"),
        ({"accounts": [{}]}, "missing required arguments: name"),
        ({"groups": []}, "groups"),
        ({"users": [{"name": "u", "account": "a", "admin_level": "king"}]}, "value of admin_level must be one of"),
    ],
)
def test_messages_begin_with_the_variable(entries: t.Any, message: str) -> None:
    problems = slurm_accounts_problems(entries, variable="my_accounts")

    assert problems
    assert all(problem.startswith("my_accounts: ") for problem in problems)
    assert message in problems[0]


def test_what_is_no_mapping_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match="expected a mapping of qos, accounts and users"):
        slurm_accounts_problems([])  # type: ignore[arg-type]


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_accounts_problems"]
