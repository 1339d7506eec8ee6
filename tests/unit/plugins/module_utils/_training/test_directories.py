# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The directories of the trainer on shared storage, new and of older releases, with users who have left traps."""

from __future__ import annotations

import os
import stat
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training.directories import NAMES, Account, Directories
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training.trust import TrustError

if t.TYPE_CHECKING:
    from pathlib import Path

ROOT = os.geteuid()
needs_root = pytest.mark.skipif(ROOT != 0, reason="only root can give files to others")
# Anybody but root gives the directories of alice to itself.
ALICE = Account("alice", 54321, 54321) if ROOT == 0 else Account("alice", ROOT, os.getegid())
MALLORY = 54322


def settle(root: Path, *, check_mode: bool = False, data: t.Iterable[str] = ()) -> list[str]:
    """Return the names that change, with a dot for the directory itself."""
    directories = Directories(str(root), check_mode, ROOT)
    directories.settle([ALICE], data)
    return [os.path.relpath(path, root) for path in directories.changed]


def rights(path: Path) -> tuple[int, str]:
    found = path.lstat()
    return found.st_uid, f"{stat.S_IMODE(found.st_mode):o}"


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return shared storage where a group can write, as many sites have it."""
    path = tmp_path / "shared"
    path.mkdir()
    path.chmod(0o3777)
    return path / "training"


@pytest.fixture
def old(shared: Path) -> Path:
    """Return what an older release has made: everybody can write to runs and data."""
    for name in ("", *NAMES):
        (shared / name).mkdir()
        (shared / name).chmod(0o1777 if name in ("runs", "data") else 0o755)
    return shared


def test_they_are_made_once(shared: Path) -> None:
    assert settle(shared, check_mode=True) == [".", *NAMES, "runs/alice"]
    assert not shared.exists()
    assert settle(shared) == [".", *NAMES, "runs/alice"]
    assert {rights(shared / name) for name in ("", *NAMES)} == {(ROOT, "755")}
    assert rights(shared / "runs/alice") == (ALICE.uid, "700")
    assert settle(shared) == []
    assert settle(shared, check_mode=True) == []


def test_directories_of_an_older_release_are_closed_and_what_is_in_them_stays(old: Path) -> None:
    (old / "runs/tiny-17").mkdir()
    (old / "data/tokens.bin").write_text("tokens")

    assert settle(old, check_mode=True) == ["data", "runs", "runs/alice"]
    assert settle(old) == ["data", "runs", "runs/alice"]
    assert {rights(old / name) for name in ("data", "runs")} == {(ROOT, "755")}
    assert (old / "runs/tiny-17").is_dir()
    assert (old / "data/tokens.bin").read_text() == "tokens"
    assert settle(old) == []


@pytest.mark.parametrize(("mode", "wanted"), [(0o777, "755"), (0o2770, "2750"), (0o750, "750"), (0o700, "700")])
def test_a_user_lets_others_read_but_not_write(old: Path, mode: int, wanted: str) -> None:
    mine = old / "runs/alice"
    mine.mkdir()
    os.chown(mine, ALICE.uid, ALICE.gid)
    mine.chmod(mode)
    settle(old)

    assert rights(mine) == (ALICE.uid, wanted)


@needs_root
@pytest.mark.parametrize("trap", ["directory", "link", "file"])
def test_the_directory_of_a_user_that_another_user_has_made_is_refused(old: Path, trap: str) -> None:
    mine, target = old / "runs/alice", old.parent / "target"
    target.mkdir()
    before = rights(target)
    if trap == "directory":
        mine.mkdir()
        os.chown(mine, MALLORY, MALLORY)
    elif trap == "link":
        mine.symlink_to(target)
    else:
        mine.touch()

    with pytest.raises(
        TrustError, match="belongs to 54322; allowed: alice" if trap == "directory" else "is no directory"
    ):
        settle(old)
    assert rights(target) == before
    assert rights(old / "runs") == (0, "755")


@needs_root
@pytest.mark.parametrize("name", ["", *NAMES])
@pytest.mark.parametrize("trap", ["directory", "link"])
def test_a_user_does_not_come_before_root(shared: Path, name: str, trap: str) -> None:
    path = shared / name
    path.parent.mkdir(exist_ok=True)
    if trap == "link":
        path.symlink_to(shared.parent)
    else:
        path.mkdir()
        os.chown(path, MALLORY, MALLORY)

    with pytest.raises(
        TrustError, match="belongs to 54322; allowed: root" if trap == "directory" else "is no directory"
    ):
        settle(shared)
    assert rights(shared.parent) == (0, "3777")


@pytest.mark.parametrize("there", [True, False])
def test_storage_where_others_can_replace_directories_is_refused(shared: Path, there: bool) -> None:
    """As in an export with mode 2775: a member of the group moves the directory away, and makes one of its own."""
    if there:
        settle(shared)
    shared.parent.chmod(0o2777)

    with pytest.raises(TrustError, match=r"shared can be written by everybody \(mode 2777\).* chmod go-w or chmod \+t"):
        settle(shared)


def test_a_directory_that_is_not_mounted_yet_is_judged_by_what_is_mounted(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before systemd mounts shared storage, its mount point looks like a directory of root."""
    shared.parent.chmod(0o2777)
    lstat = os.lstat

    def mount_point(path: str, **more: t.Any) -> os.stat_result:
        return lstat("/" if path == str(shared.parent) else path, **more)

    monkeypatch.setattr(os, "lstat", mount_point)
    with pytest.raises(TrustError, match=r"shared can be written by everybody \(mode 2777\)"):
        settle(shared)


@needs_root
def test_a_group_without_the_sticky_bit_is_refused_and_that_of_root_is_not(shared: Path) -> None:
    shared.parent.chmod(0o2775)
    settle(shared)
    os.chown(shared.parent, 0, MALLORY)
    shared.parent.chmod(0o2775)
    with pytest.raises(TrustError, match="can be written by the group 54322"):
        settle(shared)

    shared.parent.chmod(0o3775)
    assert settle(shared) == []


@pytest.mark.parametrize(
    ("trap", "found"),
    [
        ("link", "no regular file"),
        ("names", "a file with several names"),
        pytest.param("owner", "a file of 54322", marks=needs_root),
    ],
)
def test_root_downloads_over_no_file_of_a_user(old: Path, trap: str, found: str) -> None:
    path, secret = old / "data/tokens.bin", old.parent / "secret"
    secret.write_text("")
    if trap == "link":
        path.symlink_to(secret)
    elif trap == "names":
        os.link(secret, path)
    else:
        path.touch()
        os.chown(path, MALLORY, MALLORY)

    with pytest.raises(TrustError, match=f"tokens.bin: found {found}; allowed: a file of root. Remove it"):
        settle(old, data=["other.bin", "tokens.bin"])
    path.unlink()
    path.touch()
    assert settle(old, data=["tokens.bin"]) == []
