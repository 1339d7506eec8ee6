# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the module munge_key writes a key."""

from __future__ import annotations

import os
import pwd
import stat
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.munge_key import MungeKeyError
from ansible_collections.hpcai.gpucluster.plugins.modules import munge_key

if t.TYPE_CHECKING:
    from pathlib import Path


def test_a_key_appears_with_its_final_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks between any two steps finds the old file, or the new one as it stays."""
    path = tmp_path / "munge.key"
    path.write_bytes(b"old")
    path.chmod(0o400)
    seen: list[tuple[bytes, str]] = []

    def watched(name: str) -> None:
        original = getattr(os, name)

        def call(*args: t.Any, **kwargs: t.Any) -> t.Any:
            result = original(*args, **kwargs)
            seen.append((path.read_bytes(), oct(stat.S_IMODE(path.stat().st_mode))))
            return result

        monkeypatch.setattr(os, name, call)

    for name in ("fchown", "fchmod", "fsync", "replace", "rename", "chmod", "chown"):
        watched(name)
    munge_key.write(path, b"new", os.getuid(), os.getgid())

    assert set(seen) == {(b"old", "0o400"), (b"new", "0o400")}
    assert list(tmp_path.iterdir()) == [path]


def test_the_new_file_is_closed_to_others_before_it_has_the_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []

    def fsync(handle: int) -> None:
        found = os.fstat(handle).st_mode
        modes.extend([oct(stat.S_IMODE(found))] if stat.S_ISREG(found) else [])

    monkeypatch.setattr(os, "fsync", fsync)
    old = os.umask(0)
    try:
        munge_key.write(tmp_path / "munge.key", b"new", os.getuid(), os.getgid())
    finally:
        os.umask(old)

    assert modes == ["0o400"]


def test_a_write_that_fails_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "munge.key").mkdir()
    (tmp_path / "munge.key/inside").touch()

    with pytest.raises(OSError, match=r"munge\.key"):
        munge_key.write(tmp_path / "munge.key", b"new", os.getuid(), os.getgid())

    assert [entry.name for entry in tmp_path.iterdir()] == ["munge.key"]


def test_owners_have_names_or_numbers() -> None:
    assert munge_key.number("root", pwd.getpwnam) == 0
    assert munge_key.number("107", pwd.getpwnam) == 107
    with pytest.raises(MungeKeyError, match="there is no nobody-here on this machine"):
        munge_key.number("nobody-here", pwd.getpwnam)
