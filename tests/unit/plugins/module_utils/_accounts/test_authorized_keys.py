# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.authorized_keys import (
    BEGIN,
    END,
    authorized_keys,
    key_lines,
    key_problem,
)

# Made by ssh-keygen of OpenSSH 9.2 for this test.
ED25519 = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINp9pEAhCA3E0Ow0od39rd2GQBvkD1gEe3srj224M5HN user@ed25519"
ECDSA = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBNU6AZTvXa9bPLJIwRctU92WLBVpl6+V"
    "ov85IN9W7ARmRxRPzohqDB0FQRseNvV7i0XHM0tQR7fVlVh/SyX1iXQ= user@ecdsa"
)
RSA = (
    "ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABgQDgBjzDQk6ogloFVK19bS+pjEk2PKlfB+yh6l5eRbYnQr0M3GcFCb/fm9cVb4s8boc9ts0L"
    "l5uH2qQ2x/ZboNXWSiwkl8fbmIKUkoMwCh6WU58qhC7/9g3Esm1PX2quf0yyb5l2evMPkfAuYpF8VGYbi9Im/eOFK9MTPLcqz9m/ixTkv7fS"
    "bmBSCxaQQ/H6zeXhJkv2DcGsRn1d6AiAh/l7OwmUAzTn+Xfe5hHHZB8H9VKt7EgJwdyQiVgDyLyYxuFlHRwABK4brFagYXM2YEI+VQ0BjeHB"
    "L5eWbF4NUvcCVisRkVo+KLDUc3JbsSWFq0AvXesnhin9JpMXqxV4khpR56MNGWXUPm8w6luGl4zTT2NgA1TCYjqCC2AfyMMnq6Mv59j4FCrU"
    "02J27PsdSeDaCrlx33SS0WA8m+oxRNQY9fqPvMDC4w2TnYznOvjF1zOov5V46NGBGXAcD6qZjKA4yKImAerDWS8Iiup9B0nMui8jjDwVOXwV"
    "cQb58s31r0M="
)


@pytest.mark.parametrize(
    "line",
    [
        ED25519,
        ECDSA,
        RSA,
        f"restrict,pty {ED25519}",
        f'from="10.0.0.0/8,gpu 1",command="echo \\"a b\\"" {ED25519}',
    ],
)
def test_real_keys_are_good(line: str) -> None:
    assert key_problem(line) is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (ED25519[:60], "truncated"),
        (ED25519.replace("ssh-ed25519", "ssh-rsa"), "not what its type says"),
        (ED25519.split()[1], "no key type"),
        ("ssh-ed25519", "no key after"),
        ("ssh-ed25519 !!!!", "not base64"),
        ("https://example.com/alice.keys", "no key type"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "no key type"),
        ("ssh-dss AAAAB3NzaC1kc3M=", "no key type"),
        (f'from="10.0.0.1 {ED25519}', "no key type"),
    ],
)
def test_what_sshd_would_ignore_is_a_problem(line: str, reason: str) -> None:
    assert reason in (key_problem(line) or "")


@given(st.integers(min_value=1, max_value=len(ED25519.split()[1]) - 1))
@settings(max_examples=60)
def test_a_key_that_lost_its_end_is_always_noticed(length: int) -> None:
    assert key_problem("ssh-ed25519 " + ED25519.split()[1][:length]) is not None


def test_keys_come_as_list_or_text() -> None:
    assert key_lines(f"# laptop\n{ED25519}\n\n  {ECDSA}\n{ED25519}\n") == [ED25519, ECDSA]
    assert key_lines([ED25519, f"{ECDSA}\n{RSA}"]) == [ED25519, ECDSA, RSA]
    assert key_lines(None) == []


def test_a_key_that_left_the_list_goes_and_the_users_own_lines_stay() -> None:
    first = authorized_keys(f"{RSA}\n", [ED25519, ECDSA], exclusive=False)
    edited = first + "# my own\n"

    second = authorized_keys(edited, [ECDSA], exclusive=False)

    assert second.splitlines() == [RSA, BEGIN, ECDSA, END, "# my own"]
    assert authorized_keys(second, [], exclusive=False).splitlines() == [RSA, "# my own"]


def test_exclusive_drops_everything_else() -> None:
    assert authorized_keys(f"{RSA}\n", [ED25519], exclusive=True).splitlines() == [BEGIN, ED25519, END]
    assert authorized_keys(f"{RSA}\n", [], exclusive=True) == ""


LINE = st.sampled_from([BEGIN, END, ED25519, ECDSA, RSA, "# note", ""])


@given(st.lists(LINE, max_size=8), st.lists(st.sampled_from([ED25519, ECDSA]), unique=True), st.booleans())
@settings(max_examples=100)
def test_writing_twice_is_writing_once(lines: list[str], keys: list[str], exclusive: bool) -> None:
    once = authorized_keys("\n".join(lines), keys, exclusive)

    assert authorized_keys(once, keys, exclusive) == once
    assert set(keys) <= set(once.splitlines())
    assert once.count(BEGIN) == once.count(END) == bool(keys)
