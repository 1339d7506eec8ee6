# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter.account_problems import account_problems


def test_good_lists_have_no_problems() -> None:
    users = [{"name": "alice", "uid": 2001, "groups": ["dev", "video"]}]

    assert account_problems(users, [{"name": "dev", "gid": 5000}], ["bob"], machine_groups=["video"]) == []


def test_problems_name_the_variables_of_the_role() -> None:
    problems = account_problems([{"name": "alice", "uid": 1}], [{"name": "dev"}], ["root"])

    assert [problem.split("[")[0] for problem in problems] == ["users_groups", "users_accounts", "users_deleted"]


def test_unknown_groups_are_seen_if_the_machines_groups_are_given() -> None:
    users = [{"name": "alice", "uid": 2001, "groups": ["vdieo"]}]

    assert account_problems(users) == []
    assert account_problems(users, machine_groups=["video"]) == [
        "users_accounts (alice): group 'vdieo' is unknown; "
        "allowed: a group of users_groups or one that every machine has (video)"
    ]
