# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module modulefiles_info on a machine that is made up."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._software import modulefiles as software
from ansible_collections.hpcai.gpucluster.plugins.modules import modulefiles_info
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule

if t.TYPE_CHECKING:
    from pathlib import Path


def test_files_for_found_and_given_software_are_returned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "usr/local/cuda-12.9/bin").mkdir(parents=True)
    (tmp_path / "usr/local/cuda-12.9/bin/nvcc").touch()
    real = software.files
    monkeypatch.setattr(software, "files", lambda directory, given: real(directory, given, tmp_path))
    given = [{"name": "hpcx", "version": "2.21", "prefix": "/opt/hpcx"}]

    found = RunModule(capsys)(modulefiles_info.main, directory="/srv/modules", software=given)

    assert [file["path"] for file in found["files"]] == ["/srv/modules/cuda/12.9.lua", "/srv/modules/hpcx/2.21.lua"]
    assert not found["changed"]
    assert set(yaml_load(modulefiles_info.RETURN)) <= set(found)


def test_a_directory_that_cannot_be_read_is_a_failure(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: t.Any) -> t.NoReturn:
        raise PermissionError("no right")

    monkeypatch.setattr(software, "files", refuse)

    assert "no right" in RunModule(capsys)(modulefiles_info.main, directory="/srv/modules")["msg"]


HPCX = {"name": "hpcx", "version": "2.21", "prefix": "/opt/hpcx/ompi"}


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
