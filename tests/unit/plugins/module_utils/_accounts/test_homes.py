# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import contextlib
import os
import tempfile
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.authorized_keys import BEGIN, END
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.homes import (
    Homes,
    KeyPair,
    is_mounted,
    rights_of,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._accounts.lists import User

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAINp9pEAhCA3E0Ow0od39rd2GQBvkD1gEe3srj224M5HN user@ed25519"
OWN = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKnw8lNDEZWwZDkyeW3yzCWvUWzPTmY7TFu8vcZiGpVR own"
PAIR = KeyPair("PRIVATE\n", KEY + "\n")
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")


@contextlib.contextmanager
def same(name: str, uid: int, gid: int) -> t.Iterator[None]:
    """Act as oneself: tests need no root."""
    yield


@pytest.fixture
def skeleton(tmp_path: Path) -> Path:
    path = tmp_path / "skel"
    path.mkdir()
    (path / ".profile").write_text("# profile\n")
    return path


def user(tmp_path: Path, *keys: str) -> User:
    return User("alice", os.getuid(), "alice", home=str(tmp_path / "home/alice"), ssh_keys=keys)


def settle(wanted: User, skeleton: Path, pair: KeyPair | None = None, **options: t.Any) -> tuple[list[str], list[str]]:
    homes = Homes(**{"check": False, "exclusive": False, "skeleton": skeleton, "rights": same, **options})
    return homes.settle(wanted, os.getgid(), pair), homes.warnings


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_mount_that_waits_for_its_first_use_is_there() -> None:
    autofs = "30 24 0:30 / /home rw shared:9 - autofs systemd-1 rw,fd=51\n"
    disk = "40 24 0:40 / /shared rw shared:11 - xfs /dev/md127 rw\n"

    assert is_mounted("/home", autofs)
    assert is_mounted("/shared", disk)
    assert not is_mounted("/home", disk)


def test_a_home_is_made_with_keys_and_only_once(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path, OWN)

    actions, _warnings = settle(alice, skeleton, PAIR)

    home = Path(alice.home)
    assert actions == [f"make home {home}"] + [
        f"write {home}/.ssh/{name}" for name in ("id_ed25519", "id_ed25519.pub", "authorized_keys")
    ]
    assert (home / ".ssh/authorized_keys").read_text().splitlines() == [BEGIN, OWN, KEY, END]
    assert (home / ".profile").exists()
    names = ["", ".ssh", ".ssh/id_ed25519", ".ssh/id_ed25519.pub", ".ssh/authorized_keys"]
    assert [mode(home / name) for name in names] == [0o700, 0o700, 0o600, 0o644, 0o600]
    assert settle(alice, skeleton, PAIR) == ([], [])


def test_check_mode_writes_nothing_and_tells_the_same(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path, OWN)

    promised = settle(alice, skeleton, PAIR, check=True)

    assert not Path(alice.home).exists()
    assert promised == settle(alice, skeleton, PAIR)


def test_a_home_half_made_by_a_killed_run_is_made_anew(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path)
    (tmp_path / "home/.alice.new/junk").mkdir(parents=True)

    settle(alice, skeleton)

    assert [path.name for path in Path(alice.home).iterdir()] == [".profile"]
    assert not (tmp_path / "home/.alice.new").exists()


def test_a_key_that_the_user_made_stays_and_opens_the_way(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path)
    settle(alice, skeleton)
    directory = Path(alice.home) / ".ssh"
    directory.mkdir()
    (directory / "id_ed25519").write_text("HER OWN\n")
    (directory / "id_ed25519.pub").write_text(OWN + "\n")

    settle(alice, skeleton, PAIR)

    assert (directory / "id_ed25519").read_text() == "HER OWN\n"
    assert (directory / "authorized_keys").read_text().splitlines() == [BEGIN, OWN, KEY, END]


def test_files_that_others_may_write_are_closed(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path, OWN)
    settle(alice, skeleton)
    directory = Path(alice.home) / ".ssh"
    directory.chmod(0o770)
    (directory / "authorized_keys").chmod(0o666)

    settle(alice, skeleton)

    assert (mode(directory), mode(directory / "authorized_keys")) == (0o700, 0o600)
    assert settle(alice, skeleton) == ([], [])


def test_a_pipe_in_the_place_of_a_file_does_not_hang(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path, OWN)
    settle(alice, skeleton)
    path = Path(alice.home) / ".ssh/authorized_keys"
    path.unlink()
    os.mkfifo(path)

    settle(alice, skeleton)

    assert OWN in path.read_text()


def test_a_home_that_cannot_be_used_is_a_warning_and_others_go_on(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path, OWN)
    settle(alice, skeleton)
    directory = Path(alice.home) / ".ssh"
    (directory / "authorized_keys").unlink()
    directory.rmdir()
    directory.write_text("in the way\n")

    actions, warnings = settle(alice, skeleton)

    assert actions == []
    assert warnings[0].startswith(f"user alice: the keys in {alice.home} are not up to date")


def test_a_huge_file_is_not_cut(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path, OWN)
    settle(alice, skeleton)
    path = Path(alice.home) / ".ssh/authorized_keys"
    path.write_text("# x\n" * 300_000)

    _actions, warnings = settle(alice, skeleton)

    assert "larger than" in warnings[0]
    assert path.stat().st_size == 1_200_000


def let_everybody_pass(directory: Path) -> None:
    """Let other users reach a directory of pytest, as they reach a home."""
    for path in (directory, *directory.parents):
        if path.is_relative_to(tempfile.gettempdir()) and path != Path(tempfile.gettempdir()):
            path.chmod(0o755)


@needs_root
def test_the_home_belongs_to_its_user(tmp_path: Path, skeleton: Path) -> None:
    tmp_path.chmod(0o755)
    let_everybody_pass(tmp_path)
    alice = user(tmp_path, OWN)._replace(uid=2001)

    settle(alice, skeleton, PAIR, rights=rights_of)

    home = Path(alice.home)
    assert {path.stat().st_uid for path in [home, *home.rglob("*")]} == {2001}
    assert os.geteuid() == 0


@needs_root
def test_a_link_leads_only_where_the_user_may_go(tmp_path: Path, skeleton: Path) -> None:
    let_everybody_pass(tmp_path)
    secret, directory = tmp_path / "secret", tmp_path / "root"
    secret.write_text("ssh-ed25519 root's own\n")
    secret.chmod(0o600)
    directory.mkdir(mode=0o755)
    alice = user(tmp_path, OWN)._replace(uid=2001)
    settle(alice, skeleton, rights=rights_of)
    keys = Path(alice.home) / ".ssh"
    (keys / "authorized_keys").unlink()
    (keys / "authorized_keys").symlink_to(secret)

    _actions, warnings = settle(alice, skeleton, rights=rights_of)
    assert "Permission denied" in warnings[0]

    (keys / "authorized_keys").unlink()
    keys.rmdir()
    keys.symlink_to(directory)
    _actions, warnings = settle(alice, skeleton, rights=rights_of)

    assert "Permission denied" in warnings[0]
    assert secret.read_text() == "ssh-ed25519 root's own\n"
    assert list(directory.iterdir()) == []


@needs_root
def test_a_home_of_somebody_else_is_left_alone(tmp_path: Path, skeleton: Path) -> None:
    alice = user(tmp_path)._replace(uid=2001)
    Path(alice.home).mkdir(parents=True)

    _actions, warnings = settle(alice, skeleton, rights=rights_of)

    assert f"home {alice.home} belongs to uid 0, not to 2001; it was left alone" in warnings
    assert Path(alice.home).stat().st_uid == 0
