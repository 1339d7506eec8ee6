# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The one writer: nobody but the owner can read a secret at any step."""

from __future__ import annotations

import os
import stat
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._repair import steps as repair_steps
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import whole_file
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.unit.support.exposed import watched

if t.TYPE_CHECKING:
    from pathlib import Path

SECRET = b"a secret"
ME = (os.getuid(), os.getgid())
# Another user can be the owner only if the tests run as root.
OTHER = (65534, 65534) if os.getuid() == 0 else ME


@pytest.fixture(autouse=True)
def _no_umask() -> t.Iterator[None]:
    """A daemon may have none."""
    old = os.umask(0)
    yield
    os.umask(old)


@pytest.mark.parametrize("there", [True, False], ids=["replaced", "new"])
@pytest.mark.parametrize(
    ("write", "mode", "owner"),
    [
        (lambda path: whole_file.replace(path, SECRET, 0o400, OTHER), 0o400, OTHER),
        (lambda path: whole_file.replace(path, SECRET, 0o4750), 0o4750, ME),
        (lambda path: Host(lambda _argv: (0, "", "")).write(path, SECRET.decode(), 0o600), 0o600, ME),
    ],
    ids=["owner", "set-user-ID", "Host.write"],
)
def test_a_secret_is_never_open(
    tmp_path: Path, write: t.Callable[[str], None], mode: int, owner: tuple[int, int], there: bool
) -> None:
    path = tmp_path / "key"
    if there:
        path.write_bytes(b"old")
        path.chmod(0o666)

    with watched(tmp_path, SECRET, mode, owner[0]) as found:
        write(str(path))

    assert found == []
    assert path.read_bytes() == SECRET
    assert list(tmp_path.iterdir()) == [path]


def test_the_files_of_repair_are_roots_alone(tmp_path: Path) -> None:
    with watched(tmp_path, SECRET, 0o600, ME[0]) as found:
        repair_steps.write(tmp_path / "ticket.json", SECRET)

    assert found == []


def test_the_watch_sees_an_open_file(tmp_path: Path) -> None:
    """Otherwise the tests above would say nothing."""
    with watched(tmp_path, SECRET, 0o600, ME[0]) as found:
        (tmp_path / "key").write_bytes(SECRET)
        (tmp_path / "key").chmod(0o600)

    assert found == [f"key 0666 {ME[0]}"]


def test_a_link_is_replaced_and_what_it_names_stays(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "link").symlink_to("precious")

    whole_file.replace(str(tmp_path / "link"), b"new", 0o600)

    assert (tmp_path / "link").read_bytes() == b"new"
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "precious").read_text() == "precious"


def test_two_writers_never_share_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that somebody knows before could be a link, or the file of another run."""
    names: list[str] = []
    replace = os.replace

    def watched_replace(source: str, target: str) -> None:
        names.append(source)
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched_replace)

    for _time in range(2):
        whole_file.replace(str(tmp_path / "key"), b"new", 0o600)

    assert len(set(names)) == 2
    assert all(name.startswith(f"{tmp_path}/.key.") for name in names)


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "key").mkdir()

    with pytest.raises(OSError, match="key"):
        whole_file.replace(str(tmp_path / "key"), SECRET, 0o600)

    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_in_place_the_mode_comes_before_the_content(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("a long text before")
    path.chmod(0o666)
    number = path.stat().st_ino

    with watched(tmp_path, SECRET, 0o600, ME[0]) as found:
        whole_file.rewrite(str(path), SECRET, 0o600, ME)

    assert found == []
    assert (path.read_bytes(), path.stat().st_ino) == (SECRET, number)


@pytest.mark.parametrize("call", [whole_file.correct, lambda path, *rest: whole_file.rewrite(path, b"x", *rest)])
def test_neither_owner_nor_content_goes_through_a_link(tmp_path: Path, call: t.Any) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "precious").chmod(0o644)
    (tmp_path / "link").symlink_to("precious")

    with pytest.raises(OSError, match="link"):
        call(str(tmp_path / "link"), 0o666, ME)

    assert (tmp_path / "precious").stat().st_mode & 0o777 == 0o644


def test_rights_that_both_modes_lack_are_given_at_no_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 0660 of one group to 0600 of another: the second group gets nothing meanwhile."""
    path = tmp_path / "key"
    path.write_text("x")
    path.chmod(0o660)
    modes = []
    monkeypatch.setattr(os, "fchown", lambda handle, *_owner: modes.append(os.fstat(handle).st_mode & 0o777))

    whole_file.correct(str(path), 0o604, ME)

    assert modes == [0o600]
    assert path.stat().st_mode & 0o777 == 0o604


def test_the_new_name_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut must not bring back what was replaced, such as the serial of an old release."""
    synced: list[tuple[bool, bool]] = []

    def fsync(handle: int) -> None:
        synced.append((stat.S_ISDIR(os.fstat(handle).st_mode), (tmp_path / "key").exists()))

    monkeypatch.setattr(os, "fsync", fsync)

    whole_file.replace(str(tmp_path / "key"), SECRET, 0o600)

    assert synced == [(False, False), (True, True)]
