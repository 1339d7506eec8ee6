# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module enroot_credentials on real files, for the user that runs the test."""

from __future__ import annotations

import contextlib
import os
import pwd
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import credentials
from ansible_collections.hpcai.gpucluster.plugins.modules import enroot_credentials

if t.TYPE_CHECKING:
    from pathlib import Path

LOGIN = credentials.Login("nvcr.io", "$oauthtoken", "key")


@pytest.fixture
def account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pwd.struct_passwd:
    """Return the account of this user with a home of its own; only root can take other rights."""
    monkeypatch.setattr(enroot_credentials, "rights_of", lambda *_args: contextlib.nullcontext())
    return pwd.struct_passwd(("me", "x", os.getuid(), os.getgid(), "", str(tmp_path), "/bin/sh"))


def test_a_file_is_written_once_and_closed_to_others(account: pwd.struct_passwd, tmp_path: Path) -> None:
    path = tmp_path / ".config/enroot/.credentials"

    assert enroot_credentials.settle(account, [LOGIN], [], check=False)
    assert not enroot_credentials.settle(account, [LOGIN], [], check=False)
    assert path.read_text() == LOGIN.line() + "\n"
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_file_that_others_may_read_is_closed(account: pwd.struct_passwd, tmp_path: Path) -> None:
    path = tmp_path / ".config/enroot/.credentials"
    enroot_credentials.settle(account, [LOGIN], [], check=False)
    path.chmod(0o644)

    assert enroot_credentials.settle(account, [LOGIN], [], check=False)
    assert path.stat().st_mode & 0o777 == 0o600


def test_check_mode_writes_nothing(account: pwd.struct_passwd, tmp_path: Path) -> None:
    assert enroot_credentials.settle(account, [LOGIN], [], check=True)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_goes(account: pwd.struct_passwd, tmp_path: Path) -> None:
    enroot_credentials.settle(account, [LOGIN], [], check=False)

    assert enroot_credentials.settle(account, [], [("nvcr.io", "$oauthtoken")], check=False)
    assert not (tmp_path / ".config/enroot/.credentials").exists()
    assert not enroot_credentials.settle(account, [], [("nvcr.io", "$oauthtoken")], check=False)


def test_a_device_in_its_place_is_not_read(account: pwd.struct_passwd, tmp_path: Path) -> None:
    (tmp_path / ".config/enroot").mkdir(parents=True)
    (tmp_path / ".config/enroot/.credentials").symlink_to("/dev/zero")

    assert enroot_credentials.settle(account, [LOGIN], [], check=False)
    assert (tmp_path / ".config/enroot/.credentials").read_text() == LOGIN.line() + "\n"


def test_diff_mode_shows_no_password() -> None:
    assert enroot_credentials.shown({"bob": [("nvcr.io", "$oauthtoken")]}) == "bob: nvcr.io $oauthtoken\n"
