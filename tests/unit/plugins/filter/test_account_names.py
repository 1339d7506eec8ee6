# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.account_names import account_names

USERS = [
    {"name": "alice", "uid": 2001},
    {"username": "bob", "name": "Bob", "uid": 2002},
    {"name": "carol", "uid": 2003, "key_pair": False},
    {"name": "dan", "state": "absent", "remove_home": True},
]


def test_present_users_take_a_pair() -> None:
    assert account_names(USERS, "key_pair") == ["alice", "bob"]


def test_users_that_go_with_their_home() -> None:
    assert account_names(USERS, "purged") == ["dan"]
    assert account_names(["eve", {"username": "bob", "remove": True}], "purged", removed=True) == ["bob"]


def test_present_users_are_those_that_do_not_go() -> None:
    assert account_names(USERS, "present") == ["alice", "bob", "carol"]


def test_administrators_may_run_every_command() -> None:
    rule = "ALL=(root) NOPASSWD: /usr/bin/systemctl"
    users = [{"name": "alice", "sudo": True}, {"name": "bob", "sudo": rule}, {"name": "carol", "sudo": "yes"}]

    assert account_names(users, "administrators") == ["alice", "carol"]


def test_groups_of_administrators() -> None:
    gone = {"name": "old", "sudo": True, "state": "absent"}
    groups = [{"name": "admins", "gid": 5001, "sudo": True}, {"name": "research", "gid": 5000}, gone, "staff"]

    assert account_names(groups, "administrators") == ["admins"]


def test_another_word_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="allowed: administrators, key_pair, present or purged"):
        account_names(USERS, "all")
