# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module modulefiles_info by its options; what it finds is tested with module_utils/_software."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._software import modulefiles
from ansible_collections.hpcai.gpucluster.plugins.modules import modulefiles_info
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule

if t.TYPE_CHECKING:
    from pathlib import Path

HPCX = {"name": "hpcx", "version": "2.21", "prefix": "/opt/hpcx/ompi"}


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modulefiles, "find", lambda *_root: [])


@pytest.mark.parametrize("check_mode", [False, True])
def test_further_software_gets_a_file_and_what_is_gone_is_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], check_mode: bool
) -> None:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "cuda/11.8.lua").write_text("old")
    found = RunModule(capsys)(modulefiles_info.main, check_mode, directory=str(tmp_path), software=[HPCX])

    assert found["changed"] is False
    assert [(file["path"], file["state"]) for file in found["files"]] == [
        (f"{tmp_path}/hpcx/2.21.lua", "present"),
        (f"{tmp_path}/cuda/11.8.lua", "absent"),
    ]
    assert (tmp_path / "cuda/11.8.lua").exists()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({}, "directory"),
        ({"directory": "/m", "software": [{"name": "hpcx"}]}, "prefix"),
        ({"directory": "/m", "software": "hpcx"}, "dictionary requested"),
        ({"directory": "modules"}, "cannot look for software"),
        ({"directory": "/m", "software": [{**HPCX, "prefix": "opt/hpcx"}]}, "cannot look for software"),
    ],
)
def test_wrong_options_are_refused(capsys: pytest.CaptureFixture[str], options: dict[str, t.Any], named: str) -> None:
    found = RunModule(capsys)(modulefiles_info.main, **options)

    assert found["failed"]
    assert named in found["msg"]
