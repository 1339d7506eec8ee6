# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Directories in which a program that acts as root writes, and those that it refuses."""

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import (
    UntrustedDirectoryError,
    new_file,
    trusted,
)

if t.TYPE_CHECKING:
    from pathlib import Path


def _made(path: Path, mode: int) -> Path:
    path.mkdir()
    path.chmod(mode)  # mkdir would apply the umask
    return path


@pytest.fixture
def given_away(monkeypatch: pytest.MonkeyPatch) -> t.Callable[[Path], None]:
    """Return what makes a directory belong to somebody else. Without root, the test becomes somebody else instead."""

    def give(path: Path, uid: int = 4321) -> None:
        if os.geteuid():
            monkeypatch.setattr(os, "geteuid", lambda: uid)
        else:
            os.chown(path, uid, -1)

    return give


def test_missing_directories_are_made_and_only_the_owner_can_read_the_last(tmp_path: Path) -> None:
    found = trusted(str(tmp_path / "a/b"))

    assert found == tmp_path / "a/b"
    assert found.stat().st_mode & 0o7777 == 0o700
    assert found.parent.stat().st_mode & 0o022 == 0


@pytest.mark.parametrize("mode", [0o2775, 0o777, 0o1777, 0o720, 0o702])
def test_a_directory_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    place = _made(tmp_path / "place", mode)

    with pytest.raises(UntrustedDirectoryError, match=rf"place has the mode {mode:04o}, so that others can write it"):
        trusted(str(place))


@pytest.mark.parametrize("mode", [0o2775, 0o777, 0o720])
def test_a_directory_below_one_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    _made(_made(tmp_path / "shared", mode) / "backups", 0o700)

    with pytest.raises(UntrustedDirectoryError, match=rf"shared has the mode {mode:04o}"):
        trusted(str(tmp_path / "shared/backups"))


def test_nothing_is_made_below_a_directory_that_others_can_write(tmp_path: Path) -> None:
    _made(tmp_path / "shared", 0o2775)

    with pytest.raises(UntrustedDirectoryError):
        trusted(str(tmp_path / "shared/backups"))
    assert list((tmp_path / "shared").iterdir()) == []


def test_a_sticky_parent_is_accepted(tmp_path: Path) -> None:
    _made(tmp_path / "shared", 0o1777)

    assert trusted(str(tmp_path / "shared/backups")).is_dir()


def test_a_directory_of_another_user_is_refused(tmp_path: Path, given_away: t.Callable[[Path], None]) -> None:
    place = _made(tmp_path / "place", 0o700)
    given_away(place)

    with pytest.raises(UntrustedDirectoryError, match="belongs to the user"):
        trusted(str(place / "backups"))


def test_a_share_that_squashes_root_is_named(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can give a directory to nobody")
    place = _made(tmp_path / "place", 0o755)
    os.chown(place, 65534, -1)

    with pytest.raises(UntrustedDirectoryError, match="belongs to the user 65534, as root is called on"):
        trusted(str(place))
    # For files without secrets.
    assert trusted(str(place / "images"), squashed=True).is_dir()
    place.chmod(0o775)
    with pytest.raises(UntrustedDirectoryError, match="has the mode 0775"):
        trusted(str(place), squashed=True)


@pytest.mark.parametrize("path", ["link", "link/backups"])
def test_links_are_refused(tmp_path: Path, path: str) -> None:
    _made(tmp_path / "target", 0o700)
    (tmp_path / "link").symlink_to(tmp_path / "target")

    with pytest.raises(UntrustedDirectoryError, match="link is a symbolic link"):
        trusted(str(tmp_path / path))
    assert list((tmp_path / "target").iterdir()) == []


def test_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(UntrustedDirectoryError, match="file cannot be used: Not a directory"):
        trusted(str(tmp_path / "file"))


@pytest.mark.parametrize("path", ["backups", "", "/var/../tmp"])
def test_a_path_that_says_no_place_is_refused(path: str) -> None:
    with pytest.raises(UntrustedDirectoryError, match="allowed: the absolute path of a directory"):
        trusted(path)


def test_a_new_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    former = os.umask(0)
    try:
        new_file(tmp_path / "file")
    finally:
        os.umask(former)

    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_a_new_file_takes_the_place_of_nothing(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "target")

    with pytest.raises(FileExistsError):
        new_file(tmp_path / "link")
    assert not (tmp_path / "target").exists()
