# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A log is read in pieces of complete lines."""

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.modules import training_log_info

if t.TYPE_CHECKING:
    from pathlib import Path


def test_only_complete_lines_are_read_and_each_of_them_once(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("one\ntwo\nthr")
    first: tuple[str, int] = training_log_info.read(log, 0)
    log.write_text("one\ntwo\nthree\n")

    assert first == ("one\ntwo\n", 8)
    assert training_log_info.read(log, first[1]) == ("three\n", 14)
    assert training_log_info.read(log, 14) == ("", 14)


def test_a_log_that_does_not_exist_yet_is_empty(tmp_path: Path) -> None:
    assert training_log_info.read(tmp_path / "none", 0) == ("", 0)


def test_bytes_that_are_no_text_are_read(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(b"\xff\n")

    text: t.Any = training_log_info.read(log, 0)
    assert text[1] == 2


@pytest.mark.parametrize("kind", ["fifo", "directory"])
def test_what_is_no_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "log.jsonl"
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()

    with pytest.raises(OSError, match=r"no regular file|Is a directory"):
        training_log_info.read(path, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as somebody else")
def test_root_reads_with_the_rights_of_the_user(tmp_path: Path) -> None:
    """A user can put a link to any file in the place of the log."""
    secret = tmp_path / "shadow"
    secret.write_text("secret\n")
    secret.chmod(0o600)
    (tmp_path / "log.jsonl").symlink_to(secret)
    before = (os.geteuid(), os.getegid(), os.getgroups())

    assert training_log_info.read(tmp_path / "log.jsonl", 0)[0] == "secret\n"
    with training_log_info.rights_of("nobody"), pytest.raises(PermissionError):
        training_log_info.read(tmp_path / "log.jsonl", 0)
    assert (os.geteuid(), os.getegid(), os.getgroups()) == before
    with training_log_info.rights_of(None):
        assert os.geteuid() == 0
