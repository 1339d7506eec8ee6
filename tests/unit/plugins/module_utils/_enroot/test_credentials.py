# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import credentials

NGC = {"ngc": "key"}
ALICE = {"machine": "registry.example.com", "login": "alice", "password": "word", "users": ["alice"]}


def test_a_key_of_ngc_is_two_lines_with_a_literal_login() -> None:
    assert [login.line() for login in credentials.logins([NGC], "bob")] == [
        "machine nvcr.io login $oauthtoken password key",
        "machine authn.nvidia.com login $oauthtoken password key",
    ]


def test_a_login_of_one_user_is_nobody_elses() -> None:
    assert [login.login for login in credentials.logins([ALICE], "alice")] == ["alice"]
    assert credentials.logins([ALICE], "bob") == []
    assert credentials.logins([ALICE], None) == []


def test_what_is_meant_for_one_user_wins_over_what_is_meant_for_all() -> None:
    own = {"ngc": "own", "users": ["alice"]}

    assert {login.password for login in credentials.logins([own, NGC], "alice")} == {"own"}
    assert {login.password for login in credentials.logins([own, NGC], "bob")} == {"key"}


def test_lines_of_a_user_stay_and_come_first() -> None:
    current = "machine ghcr.io login alice password a\nmachine nvcr.io login $oauthtoken password old\n# mine\n"

    text = credentials.text(current, credentials.logins([NGC], "alice"), [])

    assert text.splitlines() == [
        "machine ghcr.io login alice password a",
        "# mine",
        "machine nvcr.io login $oauthtoken password key",
        "machine authn.nvidia.com login $oauthtoken password key",
    ]
    assert credentials.text(text, credentials.logins([NGC], "alice"), []) == text


def test_what_was_written_earlier_goes_and_nothing_else() -> None:
    current = "machine a.example login x password 1\nmachine b.example login x password 2\n"

    assert credentials.text(current, [], [("b.example", "x")]) == "machine a.example login x password 1\n"
    assert credentials.text("machine b.example login x password 2\n", [], [("b.example", "x")]) == ""


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ({"login": "a", "password": "b"}, "machine is missing"),
        ({"machine": "https://nvcr.io", "login": "a", "password": "b"}, "without a scheme"),
        ({"machine": "nvcr.io", "login": "a"}, "password is missing"),
        ({"machine": "nvcr.io", "login": "a", "password": ""}, "password is missing"),
        ({"machine": "nvcr.io", "login": "a b", "password": "c"}, "login holds a blank"),
        ({"machine": "nvcr.io", "login": "a", "password": "$HOME"}, "enroot would hand to a shell"),
        ({"ngc": "key", "machine": "nvcr.io"}, "leave those out"),
        ({"ngc": "key", "user": "alice"}, "user is unknown"),
        ({"ngc": "key", "users": ["eve"]}, "users names eve; known users: alice, bob"),
        ({"ngc": "key", "users": []}, "omit it for all users"),
        ("key", "is not a mapping"),
    ],
)
def test_wrong_entries_are_named(entry: object, says: str) -> None:
    (fault,) = credentials.problems([entry], ["alice", "bob"])

    assert fault.startswith("enroot_credentials[0]")
    assert says in fault


def test_no_fault_shows_a_password() -> None:
    entries = [{"ngc": "$s3cret"}, {"machine": "a b", "login": "c", "password": "s3cret d"}]

    assert "s3cret" not in " ".join(credentials.problems(entries))


def test_a_command_may_be_a_password() -> None:
    assert credentials.problems([{"machine": "nvcr.io", "login": "a", "password": "$(pass)"}]) == []
