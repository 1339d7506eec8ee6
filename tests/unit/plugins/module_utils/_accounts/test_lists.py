# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import (
    SUDO_ALL,
    Accounts,
    Defaults,
    Group,
    Removed,
    User,
    parse,
    unknown_groups,
)

DEFAULTS = Defaults()
HASH = "$6$lab$8Didkn.UcNG/jLg7V7QIVX8TXEUMaHiIjiDSTr0wAgIU0I3PLx3iJU9IWSsHB2a53VxKmQZAq1Hyy09qF/fXn1"


def read(*users: t.Any, groups: t.Any = None, removed: t.Any = None, defaults: Defaults = DEFAULTS) -> Accounts:
    accounts, problems = parse(list(users), groups, removed, defaults)
    assert problems == []
    return accounts


def problems_of(*users: t.Any, groups: t.Any = None, removed: t.Any = None) -> list[str]:
    return parse(list(users), groups, removed, DEFAULTS)[1]


def test_names_may_have_a_dot_inside() -> None:
    accounts = read({"name": "first.last", "uid": 2001, "groups": ["a.b"]}, groups=[{"name": "a.b", "gid": 5000}])

    assert (accounts.users[0].name, accounts.users[0].home) == ("first.last", "/home/first.last")


def test_a_short_item_is_completed() -> None:
    accounts = read({"name": "alice", "uid": 2001})

    assert accounts.users == (User("alice", 2001, "alice", home="/home/alice"),)
    assert accounts.groups == (Group("alice", 2001),)


def test_an_item_of_deepops_is_understood() -> None:
    accounts = read(
        {
            "username": "nvidia",
            "name": "NVIDIA User",
            "password": HASH,
            "groups": ["sudo"],
            "uid": 10007,
            "home": "/home/nvidia",
            "ssh_key": [],
            "shell": "/bin/sh",
        },
        groups=[{"name": "developers", "gid": 10000}],
        removed=[{"username": "bob", "name": "Bob", "uid": 2002, "remove": "yes", "force": "yes"}],
    )

    (user,) = accounts.users
    assert (user.name, user.gecos, user.uid, user.groups) == ("nvidia", "NVIDIA User", 10007, ("sudo",))
    assert accounts.groups == (Group("developers", 10000), Group("nvidia", 10007))
    assert accounts.removed == (Removed("bob", remove_home=True, force=True),)


def test_numbers_and_words_from_templates_are_text() -> None:
    accounts = read({"name": "alice", "uid": "2001", "groups": "video, users", "lock": "no", "sudo": "yes"})

    (user,) = accounts.users
    assert (user.uid, user.groups, user.lock, user.sudo) == (2001, ("video", "users"), False, SUDO_ALL)


def test_without_own_groups_the_common_one_is_primary() -> None:
    accounts = read({"name": "alice", "uid": 2001}, defaults=Defaults(per_user_group=False))

    assert accounts.users[0].group == "users"
    assert accounts.groups == ()


def test_a_listed_group_of_the_users_name_keeps_its_number() -> None:
    accounts = read({"name": "alice", "uid": 2001}, groups=[{"name": "alice", "gid": 7000}])

    assert accounts.groups == (Group("alice", 7000),)


def test_state_absent_is_removal() -> None:
    accounts = read({"name": "bob", "state": "absent", "remove_home": True}, removed=["eve"])

    assert accounts.removed == (Removed("bob", remove_home=True), Removed("eve"))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"name": "alice"}, "users[0] (alice): uid is missing; allowed: 1000 to 2147483647"),
        ({"name": "alice", "uid": 500}, "uid is 500; allowed: 1000 to 2147483647, or less with system: true"),
        ({"name": "alice", "uid": 0, "system": True}, "uid is 0; allowed: 1 to 2147483647"),
        ({"name": "alice", "uid": 65534}, "uid is 65534"),
        ({"name": "alice", "uid": True}, "uid is True"),
        ({"name": "alice", "uid": "2001x"}, "uid is '2001x'"),
        ({"name": "Alice", "uid": 2001}, "name is 'Alice'; allowed: [a-z_](?:[a-z0-9_.-]{0,30}[a-z0-9_-])?"),
        ({"name": "alice.", "uid": 2001}, "name is 'alice.'"),
        ({"name": ".alice", "uid": 2001}, "name is '.alice'"),
        ({"name": "a" * 33, "uid": 2001}, "at most 32 characters"),
        ({"name": "root", "uid": 2001}, "name is 'root', an account of the system"),
        ({"name": "nobody", "uid": 2001}, "name is 'nobody', an account of the system"),
        ({"name": "root:x\n", "uid": 2001}, "name is 'root:x\\n'"),
        ({"uid": 2001}, "users[0]: name is missing"),
        ({"name": "alice", "uid": 2001, "grups": []}, "key 'grups' is unknown; allowed: name, username"),
        ({"name": "alice", "uid": 2001, "gecos": "a:b"}, "gecos is 'a:b'; allowed: one line of text without a colon"),
        ({"name": "alice", "uid": 2001, "shell": "bash"}, "shell is 'bash'; allowed: an absolute path"),
        ({"name": "alice", "uid": 2001, "home": "/"}, "home is '/'; allowed: an absolute path below /"),
        ({"name": "alice", "uid": 2001, "home": "/home/../etc"}, "home is '/home/../etc'"),
        ({"name": "alice", "uid": 2001, "password": "$ecret"}, "password is not a crypt hash"),
        ({"name": "alice", "uid": 2001, "password": "secret"}, "password is not a crypt hash"),
        ({"name": "alice", "uid": 2001, "ssh_keys": ["ssh-ed25519 AAAA"]}, "ssh_keys[0] is 'ssh-ed25519 AAAA'"),
        ({"name": "alice", "uid": 2001, "ssh_keys": {"a": 1}}, "ssh_keys is a dict; allowed: a list"),
        ({"name": "alice", "uid": 2001, "lock": "maybe"}, "lock is 'maybe'; allowed: true or false"),
        ({"name": "alice", "uid": 2001, "state": "gone"}, "state is 'gone'; allowed: present or absent"),
        ({"name": "alice", "uid": 2001, "sudo": "ALL\nroot"}, "sudo is 'ALL\\nroot'; allowed: true, false or a rule"),
        ({"name": "alice", "uid": 2001, "group": "users", "gid": 7}, "gid is 7 beside group 'users'"),
        (7, "users[0] is 7; allowed: a mapping with a name"),
    ],
)
def test_a_bad_user_is_named_with_what_is_allowed(item: t.Any, message: str) -> None:
    assert message in "\n".join(problems_of(item))


def test_no_message_holds_a_password() -> None:
    problems = problems_of({"name": "Alice", "uid": 1, "password": "hunter2", "shell": "x", "other": 1})

    assert len(problems) == 5
    assert "hunter2" not in "\n".join(problems)


@pytest.mark.parametrize(
    ("users", "groups", "removed", "message"),
    [
        ([{"name": "a", "uid": 2001}, {"name": "b", "uid": 2001}], [], [], "uid 2001 belongs to a and b"),
        ([{"name": "a", "uid": 2001}, {"name": "a", "uid": 2002}], [], [], "name a belongs to a and a"),
        ([{"name": "a", "uid": 2001}], [{"name": "g", "gid": 2001}], [], "groups, users: gid 2001 belongs to g and a"),
        ([], [{"name": "g", "gid": 5000}, {"name": "h", "gid": 5000}], [], "gid 5000 belongs to g and h"),
        ([], [{"name": "g", "gid": 5000}, {"name": "g", "gid": 5001}], [], "groups: name g belongs to g and g"),
        ([{"name": "a", "uid": 2001}], [], ["a"], "users: a is also in removed"),
        ([], [], ["root"], "name is 'root', an account of the system"),
        ([], [{"name": "g"}], [], "groups[0] (g): gid is missing"),
        ([], [{"name": "g", "gid": 27}], [], "groups[0] (g): gid is 27"),
        (
            [{"name": "a", "uid": 2001, "groups": ["g"]}],
            [{"name": "g", "state": "absent"}],
            [],
            "group 'g' has state absent",
        ),
        (
            [{"name": "a", "uid": 2001, "home": "/data"}, {"name": "b", "uid": 2002, "home": "/data/"}],
            [],
            [],
            "home /data belongs to a and b",
        ),
        ({"name": "a"}, [], [], "users is a dict; allowed: a list"),
    ],
)
def test_lists_that_contradict_themselves(users: t.Any, groups: t.Any, removed: t.Any, message: str) -> None:
    problems = parse(users, groups, removed, DEFAULTS)[1]

    assert [problem for problem in problems if message in problem], problems
    assert len(problems) == 1


def test_a_system_group_may_leave_its_number_to_the_machine() -> None:
    assert read(groups=[{"name": "render", "system": True}]).groups == (Group("render", None, system=True),)


def test_a_group_that_nobody_defines_is_unknown() -> None:
    accounts = read(
        {"name": "alice", "uid": 2001, "groups": ["video", "dev", "ghost"]}, groups=[{"name": "dev", "gid": 5000}]
    )

    assert unknown_groups(accounts, ["video"], DEFAULTS, "") == [
        "users (alice): group 'ghost' is unknown; allowed: a group of groups"
    ]
