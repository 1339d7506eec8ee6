# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import accounts
from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import accounts_plan as plan


def present() -> accounts.Accounting:
    """Return an accounting that holds a little."""
    return accounts.Accounting(
        qos={"normal": {"Flags": frozenset()}, "old": {}},
        accounts={
            "root": {"Parent": ""},
            "research": {"Parent": "root", "Fairshare": "1", "GrpTRES": {"cpu": 4, "node": 2}, "QOS": frozenset()},
            "team": {"Parent": "research", "Fairshare": "1", "GrpTRES": {}, "QOS": frozenset({"normal"})},
        },
        users={"bob": {"DefaultAccount": "team", "AdminLevel": "None"}, "eve": {"DefaultAccount": "team"}},
        associations={("root", "root", ""): {}, ("bob", "team", ""): {"Fairshare": "1"}, ("eve", "team", ""): {}},
        tres=frozenset({"cpu", "node", "gres/gpu"}),
    )


def calls(qos: t.Any = (), groups: t.Any = (), users: t.Any = (), exclusive: bool = False) -> list[str]:
    """Return the calls for entries, each as one line."""
    wanted = accounts.wanted(qos, groups, users, exclusive=False)
    assert wanted.problems == []
    made = plan.make(present(), wanted, "lab", exclusive)
    return [" ".join(call) for call in made.calls]


def test_nothing_to_do_needs_no_call() -> None:
    assert calls([{"name": "normal", "flags": []}], [{"name": "team", "fairshare": "1", "qos": ["normal"]}]) == []


def test_new_things_are_made_from_the_top() -> None:
    assert calls(
        [{"name": "high", "preempt": ["low"], "priority": 9}, {"name": "low"}],
        [{"name": "b", "parent": "a"}, {"name": "a", "description": "two words", "qos": []}],
        [{"name": "ann", "associations": [{"account": "b", "partition": "main", "fairshare": "2"}, {"account": "a"}]}],
    ) == [
        "add qos name=high Priority=9",
        "add qos name=low",
        "modify qos where name=high set Preempt=low",
        "add account name=a cluster=lab Description=two words",
        "add account name=b cluster=lab Parent=a",
        "add user name=ann cluster=lab account=b partition=main Fairshare=2",
        "add user name=ann cluster=lab account=a",
    ]


def test_only_the_difference_is_set_and_lost_tres_are_cleared() -> None:
    assert calls(
        groups=[
            {"name": "research", "fairshare": "1", "limits": {"GrpTRES": "cpu=8", "MaxJobs": -1}, "qos": ["normal"]}
        ]
    ) == ["modify account where name=research cluster=lab set QOS=normal GrpTRES=cpu=8,node=-1"]


def test_a_user_is_changed_in_one_account_and_partition_only() -> None:
    assert calls(users=[{"name": "bob", "account": "team", "fairshare": "5", "admin_level": "operator"}]) == [
        "modify user where name=bob cluster=lab account=team partition= set Fairshare=5",
        "modify user where name=bob set AdminLevel=Operator",
    ]


def test_what_is_not_listed_is_left_alone_unless_exclusive() -> None:
    listed: list[dict[str, t.Any]] = [{"name": "bob", "account": "research"}]

    assert calls(users=listed) == ["add user name=bob cluster=lab account=research"]
    assert calls(groups=[{"name": "research"}], users=listed, exclusive=True) == [
        "add user name=bob cluster=lab account=research",
        "modify user where name=bob cluster=lab set DefaultAccount=research",
        "delete user where name=bob cluster=lab account=team partition=",
        "delete user where name=eve cluster=lab",
        "delete account where name=team cluster=lab",
        "delete qos where name=old",
    ]


def test_absent_things_go_in_the_order_in_which_slurm_lets_them() -> None:
    assert calls(
        [{"name": "old", "state": "absent"}, {"name": "never", "state": "absent"}],
        [{"name": "research", "state": "absent"}, {"name": "team", "state": "absent"}],
        [{"name": "bob", "state": "absent"}, {"name": "eve", "state": "absent"}, {"name": "zoe", "state": "absent"}],
    ) == [
        "delete user where name=bob cluster=lab",
        "delete user where name=eve cluster=lab",
        "delete account where name=team cluster=lab",
        "delete account where name=research cluster=lab",
        "delete qos where name=old",
    ]


def test_the_default_account_moves_before_it_goes() -> None:
    assert calls(
        groups=[{"name": "team", "state": "absent"}],
        users=[{"name": "bob", "account": "research"}, {"name": "eve", "state": "absent"}],
    ) == [
        "add user name=bob cluster=lab account=research",
        "modify user where name=bob cluster=lab set DefaultAccount=research",
        "delete user where name=eve cluster=lab",
        "delete account where name=team cluster=lab",
    ]


def test_an_account_that_slurm_knows_from_before_gets_its_new_words() -> None:
    here = present()
    here.elsewhere["foo"] = {"Description": "old", "Organization": "foo"}
    wanted = accounts.wanted([], [{"name": "foo", "description": "New", "organization": "FOO", "fairshare": "2"}], [])

    assert plan.make(here, wanted, "lab").calls == [
        ["add", "account", "name=foo", "cluster=lab", "Fairshare=2"],
        ["modify", "account", "where", "name=foo", "set", "Description=New"],
    ]


def test_the_difference_is_shown_by_entry() -> None:
    wanted = accounts.wanted([], [{"name": "research", "limits": {"GrpTRES": {"cpu": 8}}}], [])

    made = plan.make(present(), wanted, "lab")

    assert made.before == {"account research": {"GrpTRES": "cpu=4,node=2"}}
    assert made.after == {"account research": {"GrpTRES": "cpu=8"}}


def test_what_names_something_unknown_is_refused() -> None:
    wanted = accounts.wanted(
        [{"name": "high", "preempt": ["lwo"], "limits": {"GrpTRES": "gres/mps=4"}}],
        [{"name": "a", "parent": "none"}, {"name": "b", "qos": ["hihg", "+high"], "default_qos": "hihg"}],
        [{"name": "ann", "account": "c"}],
    )

    assert plan.problems(present(), wanted) == [
        "accounts: 'a' has the unknown parent 'none'",
        "users: 'ann' is in the unknown account 'c'",
        "qos high names the unknown QOS 'lwo'",
        "account b names the unknown QOS 'hihg'",
        "qos high limits 'gres/mps', which Slurm does not record; add it to AccountingStorageTRES",
    ]
