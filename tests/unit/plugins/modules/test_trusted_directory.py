# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module trusted_directory by its options; the package _system has the tests of what is refused."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.modules import trusted_directory
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule

if t.TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_directory_is_created_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunModule(capsys)
    path = tmp_path / "a/b"

    assert run(trusted_directory.main, True, path=str(path))["changed"]
    assert not path.exists()
    assert [run(trusted_directory.main, path=str(path))["changed"] for _turn in range(2)] == [True, False]
    assert path.stat().st_mode & 0o7777 == 0o700
    path.chmod(0o755)
    assert [run(trusted_directory.main, check, path=str(path))["changed"] for check in (True, False, False)] == [
        True,
        True,
        False,
    ]
    assert path.stat().st_mode & 0o7777 == 0o700


def test_a_directory_that_others_can_replace_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunModule(capsys)
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o2775)

    for check in (True, False):
        found = run(trusted_directory.main, check, path=str(tmp_path / "shared"))
        assert "shared has the mode 2775, so that others can write it; allowed:" in found["msg"]
    assert "no safe place" in run(trusted_directory.main, path=str(tmp_path / "shared/dumps"))["msg"]
    assert list((tmp_path / "shared").iterdir()) == []
