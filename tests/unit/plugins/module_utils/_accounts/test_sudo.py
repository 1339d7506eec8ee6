# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import Defaults, parse
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.sudo import SudoDropIn, sudo_text


def text(users: t.Any, groups: t.Any = ()) -> str:
    accounts, problems = parse(users, list(groups), [], Defaults())
    assert problems == []
    return sudo_text(accounts)


def test_rules_of_groups_and_users_stand_in_one_text() -> None:
    users = [
        {"name": "alice", "uid": 2001, "sudo": True},
        {"name": "bob", "uid": 2002, "sudo": "ALL=(root) NOPASSWD: /usr/bin/systemctl"},
        {"name": "carol", "uid": 2003, "sudo": False},
        {"name": "first.last", "uid": 2004, "sudo": True},
    ]

    lines = text(users, [{"name": "admins", "gid": 5000, "sudo": True}]).splitlines()

    assert lines[1:] == [
        "%admins ALL=(ALL:ALL) NOPASSWD: ALL",
        "alice ALL=(ALL:ALL) NOPASSWD: ALL",
        "bob ALL=(root) NOPASSWD: /usr/bin/systemctl",
        "first.last ALL=(ALL:ALL) NOPASSWD: ALL",
    ]


def test_nobody_needs_no_file() -> None:
    assert text([{"name": "carol", "uid": 2003}]) == ""


def test_the_file_lands_closed_and_goes_with_its_last_rule(tmp_path: Path) -> None:
    path = tmp_path / "gpucluster-users"
    drop_in = SudoDropIn(path, lambda args: (0, "", ""), "/usr/sbin/visudo")

    drop_in.write("alice ALL=(ALL) ALL\n")
    assert drop_in.current() == "alice ALL=(ALL) ALL\n"
    assert path.stat().st_mode & 0o777 == 0o440

    drop_in.write("")
    assert drop_in.current() == ""
    assert list(tmp_path.iterdir()) == []


def test_visudo_sees_the_text_and_no_file_stays(tmp_path: Path) -> None:
    seen: list[str] = []

    def visudo(args: list[str]) -> tuple[int, str, str]:
        seen.extend([args[1], Path(args[2]).read_text()])
        return 1, "", f"{args[2]}:1:1: syntax error"

    (problem,) = SudoDropIn(tmp_path / "rules", visudo, "visudo").problems("oops\n")

    assert seen == ["-cf", "oops\n"]
    assert problem == f"sudo: visudo refuses the rules: {tmp_path}/rules:1:1: syntax error"
    assert not (tmp_path / "rules").exists()


def test_rules_without_visudo_are_a_problem(tmp_path: Path) -> None:
    drop_in = SudoDropIn(tmp_path / "rules", lambda args: (0, "", ""), None)

    assert "visudo is not on this machine" in drop_in.problems("alice ALL=(ALL) ALL\n")[0]
    assert drop_in.problems("") == []
