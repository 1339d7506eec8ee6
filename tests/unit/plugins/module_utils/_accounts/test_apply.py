# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import os
import typing as t
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.apply import (
    AccountsError,
    CommandError,
    Result,
    reconcile,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.homes import Homes, KeyPair
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import Accounts, Defaults, parse
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.sudo import SudoDropIn
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._accounts.fake_shadow import FakeShadow

HASH, OTHER = "$6$lab$8Didkn.UcNG", "$y$j9T$abcdefgh"
User = dict[str, t.Any]


class NoSudo(SudoDropIn):
    """No rule anywhere."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent/sudoers"), lambda args: (0, "", ""), None)


class NoHomes(Homes):
    """Homes that are complete."""

    def __init__(self) -> None:
        super().__init__(check=False, exclusive=False)

    def settle(self, user: t.Any, gid: int, pair: KeyPair | None) -> list[str]:
        return []


class HomeShadow(FakeShadow):
    """A machine with the real chown, on which groupmod may be killed."""

    killed = False

    def _tool(self, args: list[str], data: str | None = None) -> tuple[int, str, str]:
        if args[0] == "chown":
            return bounded_run.feeding_runner(PATIENCE)(args)
        return (137, "", "killed") if self.killed and args[0] == "groupmod" else super()._tool(args, data)


def bring(
    fake: FakeShadow,
    *users: User,
    groups: t.Sequence[t.Any] = (),
    removed: t.Sequence[t.Any] = (),
    check: bool = False,
    sudo: SudoDropIn | None = None,
    homes: Homes | None = None,
) -> Result:
    accounts, problems = parse(list(users), list(groups), list(removed), Defaults())
    assert problems == []
    return reconcile(accounts, Defaults(), fake, sudo or NoSudo(), homes, {}, check)


def refusals(fake: FakeShadow, *users: User, **lists: t.Any) -> list[str]:
    with pytest.raises(AccountsError) as caught:
        bring(fake, *users, **lists)
    assert fake.calls == []
    return caught.value.problems


def test_new_users_get_exactly_what_the_list_says() -> None:
    fake = FakeShadow()

    bring(
        fake,
        {"name": "alice", "uid": 2001, "groups": ["video", "dev"], "gecos": "Alice", "shell": "/bin/sh"},
        groups=[{"name": "dev", "gid": 5000}],
    )

    assert fake.passwd["alice"] == {
        "uid": 2001,
        "gid": 2001,
        "gecos": "Alice",
        "home": "/home/alice",
        "shell": "/bin/sh",
    }
    assert fake.group["dev"] == 5000
    assert {group for group, members in fake.members.items() if "alice" in members} == {"video", "dev"}


def test_second_run_starts_no_command() -> None:
    fake = FakeShadow()
    users = [
        {"name": f"user{number}", "uid": 2000 + number, "password": HASH, "groups": ["video"]} for number in range(200)
    ]
    bring(fake, *users)
    assert len(fake.calls) == 401  # a group and a user each, and all hashes in one call
    fake.calls.clear()

    result = bring(fake, *users)

    assert result.actions == []
    assert fake.calls == []


def test_only_the_difference_is_changed() -> None:
    fake = FakeShadow()
    fake.add("alice", 2001, groups=["video"], gecos="Alice")
    fake.add("bob", 2002)

    result = bring(fake, {"name": "alice", "uid": 2001, "gecos": "Alice L."}, {"name": "bob", "uid": 2002})

    assert fake.calls == [["usermod", "--groups=", "--comment=Alice L.", "alice"]]
    assert result.before == {"user alice": {"groups": ["video"], "gecos": "Alice"}}
    assert result.after == {"user alice": {"groups": [], "gecos": "Alice L."}}


def test_two_groups_of_one_number_on_the_machine_do_not_disturb() -> None:
    fake = FakeShadow()
    fake.add_group("zebra", 5000)
    fake.add_group("ant", 5000)
    fake.add("alice", 2001, "ant")

    assert bring(fake, {"name": "alice", "uid": 2001, "group": "ant"}).actions == []


def test_append_keeps_other_groups() -> None:
    fake = FakeShadow()
    fake.add("alice", 2001, groups=["video"])

    bring(fake, {"name": "alice", "uid": 2001, "groups": ["sudo"], "append": True})

    assert "alice" in fake.members["video"] & fake.members["sudo"]
    assert bring(fake, {"name": "alice", "uid": 2001, "groups": ["sudo"], "append": True}).actions == []


def test_check_mode_changes_nothing_and_tells_the_same() -> None:
    fake = FakeShadow()
    fake.add("mallory", 2666)
    users = [{"name": "alice", "uid": 2001, "password": HASH}]

    promised = bring(fake, *users, removed=["mallory"], check=True)
    assert fake.calls == []
    assert promised == bring(fake, *users, removed=["mallory"])


def test_hashes_stay_out_of_arguments_and_diff() -> None:
    fake = FakeShadow()
    fake.add("bob", 2002)
    fake.hashes["bob"] = OTHER

    result = bring(
        fake, {"name": "alice", "uid": 2001, "password": HASH}, {"name": "bob", "uid": 2002, "password": HASH}
    )

    assert fake.stdin == [f"alice:{HASH}\nbob:{HASH}\n"]
    assert HASH not in str([fake.calls, result])
    assert OTHER not in str([fake.calls, result])


@pytest.mark.parametrize(
    ("current", "item", "wanted"),
    [
        ("!", {"password": HASH}, HASH),
        (OTHER, {"password": HASH}, HASH),
        (OTHER, {"password": HASH, "update_password": "on_create"}, OTHER),
        (OTHER, {}, OTHER),
        (OTHER, {"lock": True}, f"!{OTHER}"),
        (OTHER, {"lock": True, "password": HASH}, f"!{HASH}"),
        (f"!{OTHER}", {}, f"!{OTHER}"),
        (f"!{OTHER}", {"password": HASH}, f"!{HASH}"),
        (f"!{OTHER}", {"lock": False}, OTHER),
        (f"!{OTHER}", {"lock": False, "password": HASH}, HASH),
        ("!", {"lock": False}, "!"),
        ("!", {"lock": True}, "!"),
        ("*", {}, "*"),
    ],
)
def test_password_field(current: str, item: User, wanted: str) -> None:
    fake = FakeShadow()
    fake.add("alice", 2001)
    fake.hashes["alice"] = current
    user = {"name": "alice", "uid": 2001, **item}

    bring(fake, user)

    assert fake.hashes["alice"] == wanted
    assert bring(fake, user).actions == []


def test_a_removed_users_number_is_free_at_once() -> None:
    fake = FakeShadow()
    fake.add("mallory", 2001)

    bring(fake, {"name": "alice", "uid": 2001}, removed=["mallory"])

    assert fake.passwd["alice"]["uid"] == 2001
    assert "mallory" not in fake.passwd


def test_own_groups_go_also_where_userdel_leaves_them() -> None:
    fake = FakeShadow(usergroups=False)
    fake.add("mallory", 2001)

    bring(fake, {"name": "alice", "uid": 2001}, removed=["mallory"])

    assert "mallory" not in fake.group
    assert fake.group["alice"] == 2001


def test_processes_are_ended_only_with_force() -> None:
    fake = FakeShadow()
    fake.add("mallory", 2666)
    fake.pids[2666] = [11, 12, 13, 14]

    assert refusals(fake, removed=["mallory"]) == [
        "removed (mallory): processes 11, 12, 13 and 1 more run on this machine; end them, or allow it with force: true"
    ]
    bring(fake, removed=[{"name": "mallory", "force": True}])

    assert "mallory" not in fake.passwd


def test_a_moved_home_or_number_says_what_stays_behind() -> None:
    fake = FakeShadow()
    fake.add("alice", 2001)

    result = bring(fake, {"name": "alice", "uid": 2005, "home": "/data/alice"})

    assert fake.passwd["alice"]["home"] == "/data/alice"
    assert fake.passwd["alice"]["uid"] == fake.passwd["alice"]["gid"] == 2005
    assert "user alice: home /home/alice became /data/alice; what is in /home/alice stays there" in result.warnings
    assert len(result.warnings) == 3
    assert result.after["user alice"] == {"uid": 2005, "home": "/data/alice"}


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("killed", [False, True])
def test_the_group_of_a_home_follows_the_gid(tmp_path: Path, killed: bool) -> None:
    """With real files and the real chown. The files of other groups keep theirs, and no link leads outside."""
    home, outside = tmp_path / "alice", tmp_path / "outside"
    (home / ".ssh").mkdir(parents=True)
    for path in (home / ".ssh/key", home / "of-dev", outside):
        path.touch()
    (home / "link").symlink_to(outside)
    for path, gid in ((home, 2001), (home / ".ssh", 2001), (home / ".ssh/key", 2001), (home / "of-dev", 5000)):
        os.chown(path, 2001, gid)
    os.chown(outside, 2001, 2001)
    fake = HomeShadow()
    fake.add("alice", 2001, home=str(home))
    fake.killed = killed
    user = {"name": "alice", "uid": 2005, "home": str(home)}

    if killed:
        with pytest.raises(CommandError):
            bring(fake, user, homes=NoHomes())
        fake.killed = False
    bring(fake, user, homes=NoHomes())

    paths = (home, home / ".ssh", home / ".ssh/key", home / "of-dev", outside)
    found = {path.name: path.lstat().st_gid for path in paths}
    assert found == {"alice": 2005, ".ssh": 2005, "key": 2005, "of-dev": 5000, "outside": 2001}
    assert bring(fake, user, homes=NoHomes()).actions == []


def test_where_homes_are_mounted_or_missing_none_is_changed(tmp_path: Path) -> None:
    for home, homes in ((tmp_path, None), (tmp_path / "missing", NoHomes())):
        fake = FakeShadow()
        fake.add("alice", 2001, home=str(home))

        bring(fake, {"name": "alice", "uid": 2005, "home": str(home)}, homes=homes)

        assert [call[0] for call in fake.calls] == ["groupmod", "usermod"]


@pytest.mark.parametrize(
    ("user", "message"),
    [
        (
            {"name": "eve", "uid": 2001},
            "users (eve): uid is 2001, which 'alice' has on this machine",
        ),
        ({"name": "eve", "uid": 3000, "gid": 2001}, "groups (eve): gid is 2001, which 'alice' has on this machine"),
        ({"name": "eve", "uid": 3000, "groups": ["docker"]}, "users (eve): group 'docker' is unknown"),
        (
            {"name": "eve", "uid": 3000, "shell": "/bin/zsh"},
            "(eve): shell is '/bin/zsh', which is not on this machine",
        ),
        ({"name": "daemon", "uid": 3000, "group": "users"}, "users (daemon): this machine has a system account"),
        ({"name": "video", "uid": 3000}, "groups (video): this machine has a system group of that name with gid 44"),
        ({"name": "busy", "uid": 3000, "group": "users"}, "uid is 2009 and cannot become 3000 while processes 7 run"),
    ],
)
def test_what_does_not_fit_the_machine_is_refused_before_anything_changes(user: User, message: str) -> None:
    fake = FakeShadow()
    fake.add("alice", 2001)
    fake.add("busy", 2009)
    fake.pids[2009] = [7]
    fake.add("daemon", 1, "users")

    assert [problem for problem in refusals(fake, {"name": "new", "uid": 4000}, user) if message in problem]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({"removed": ["daemon"]}, "uid 1 belongs to the system; allowed: removal with system: true"),
        ({"removed": [{"name": "base", "remove_home": True}]}, "home '/home' also holds the home of 'alice'"),
        ({"groups": [{"name": "video", "state": "absent"}]}, "gid 44 belongs to the system"),
        ({"groups": [{"name": "alice", "state": "absent"}]}, "it is the primary group of 'alice'"),
    ],
)
def test_removal_has_limits(lists: dict[str, t.Any], message: str) -> None:
    fake = FakeShadow()
    fake.add("alice", 2001)
    fake.add("daemon", 1, "users")
    fake.add("base", 2010, home="/home")

    assert [problem for problem in refusals(fake, **lists) if message in problem]


@pytest.mark.parametrize(
    ("owns_homes", "item", "argv"),
    [
        (True, {"remove_home": True}, ["userdel", "--remove", "mallory"]),
        (True, {}, ["userdel", "mallory"]),
        (False, {"remove_home": True}, ["userdel", "mallory"]),
    ],
)
def test_a_home_goes_only_when_asked_and_where_homes_are_owned(
    tmp_path: Path, owns_homes: bool, item: User, argv: list[str]
) -> None:
    fake = FakeShadow()
    fake.add("mallory", 2666, home=str(tmp_path))
    accounts, _problems = parse([], [], [{"name": "mallory", **item}], Defaults())
    homes = Homes(check=False, exclusive=False) if owns_homes else None

    reconcile(accounts, Defaults(), fake, NoSudo(), homes, {}, False)

    assert fake.calls == [argv]


def test_homes_follow_the_group_number_of_the_machine(tmp_path: Path) -> None:
    fake = FakeShadow()
    alice = {"name": "alice", "uid": os.getuid() or 2001, "group": "users", "home": str(tmp_path / "alice")}
    accounts, _problems = parse([{**alice, "system": True}], [], [], Defaults())
    seen = []

    class Watch(Homes):
        def settle(self, user: t.Any, gid: int, pair: t.Any) -> list[str]:
            seen.append((user.name, gid, pair))
            return ["make home"]

    pairs = {"alice": KeyPair("private", "public"), "bob": KeyPair("private", "public")}
    result = reconcile(accounts, Defaults(), fake, NoSudo(), Watch(False, False), pairs, False)

    assert seen == [("alice", 100, pairs["alice"])]
    assert result.actions[-1] == "make home"


def test_absent_groups_go_after_their_members() -> None:
    fake = FakeShadow()
    fake.add_group("dev", 5000)
    fake.add("alice", 2001, groups=["dev"])

    bring(fake, {"name": "alice", "uid": 2001}, groups=[{"name": "dev", "state": "absent"}])

    assert "dev" not in fake.group


def test_a_command_that_fails_stops_the_rest_and_the_next_run_goes_on() -> None:
    fake = FakeShadow()
    real, fake._useradd = fake._useradd, lambda name, options, data: 1  # type: ignore[method-assign]
    with pytest.raises(CommandError, match=r"useradd .* exited 1: useradd: refused"):
        bring(fake, {"name": "alice", "uid": 2001, "password": HASH})
    fake._useradd = real  # type: ignore[method-assign]

    bring(fake, {"name": "alice", "uid": 2001, "password": HASH})

    assert fake.hashes["alice"] == HASH


def test_sudo_rules_that_visudo_refuses_change_nothing(tmp_path: Path) -> None:
    fake = FakeShadow()
    sudo = SudoDropIn(tmp_path / "rules", lambda args: (1, "", f"{args[2]}:2:7: syntax error"), "/usr/sbin/visudo")

    (problem,) = refusals(fake, {"name": "alice", "uid": 2001, "sudo": "ALL=oops("}, sudo=sudo)

    assert problem == f"sudo: visudo refuses the rules: {tmp_path}/rules:2:7: syntax error"


def assert_true(accounts: Accounts, fake: FakeShadow) -> None:
    for user in accounts.users:
        found, field = fake.passwd[user.name], fake.hashes[user.name]
        assert (found["uid"], found["gid"], found["gecos"]) == (user.uid, fake.group[user.group], user.gecos)
        assert {name for name, members in fake.members.items() if user.name in members} == set(user.groups)
        assert field.lstrip("!") == (user.password or "")
        assert field.startswith("!") == bool(user.lock or not user.password)
    for group in accounts.groups:
        assert fake.group.get(group.name) == (group.gid if group.present else None)
    for removed in accounts.removed:
        assert removed.name not in fake.passwd


NAMES = st.sampled_from(["a", "b", "c", "users", "video"])
NUMBERS = st.integers(min_value=2001, max_value=2004)
USER = st.fixed_dictionaries(
    {"name": NAMES, "uid": NUMBERS},
    optional={
        "groups": st.lists(st.sampled_from(["dev", "sudo", "video"]), unique=True),
        "group": st.sampled_from(["users", "dev"]),
        "password": st.sampled_from([HASH, OTHER]),
        "lock": st.booleans(),
        "state": st.sampled_from(["present", "present", "absent"]),
        "gecos": st.sampled_from(["", "Name"]),
    },
)
GROUP = st.fixed_dictionaries(
    {"name": st.sampled_from(["dev", "a"]), "gid": st.integers(min_value=2003, max_value=2006)},
    optional={"state": st.sampled_from(["present", "absent"])},
)


@settings(max_examples=300, deadline=None)
@given(
    before=st.lists(st.tuples(st.sampled_from("abc"), NUMBERS), unique_by=(lambda u: u[0], lambda u: u[1]), max_size=3),
    users=st.lists(USER, max_size=4),
    groups=st.lists(GROUP, max_size=2),
    usergroups=st.booleans(),
)
def test_any_list_is_refused_untouched_or_comes_true(
    before: list[tuple[str, int]], users: list[User], groups: list[User], usergroups: bool
) -> None:
    fake = FakeShadow(usergroups)
    for name, uid in before:
        fake.add(name, uid)
    accounts, problems = parse(users, groups, [], Defaults())
    if problems:
        return

    def run(check: bool) -> Result:
        return reconcile(accounts, Defaults(), fake, NoSudo(), None, {}, check)

    try:
        promised = run(check=True)
    except AccountsError:
        assert fake.calls == []
        return
    assert fake.calls == []
    assert run(check=False) == promised
    fake.calls.clear()
    assert run(check=False).actions == []
    assert fake.calls == []
    assert_true(accounts, fake)
