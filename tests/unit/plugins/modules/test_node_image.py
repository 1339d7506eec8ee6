# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module node_image by its options; its package has the tests of what an archive contains."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._image import archive
from ansible_collections.hpcai.gpucluster.plugins.modules import node_image
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule


def test_the_result_is_that_of_the_archive(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given: list[t.Any] = []

    def write(*words: t.Any) -> archive.Image:
        given.append(words[:2])
        return archive.Image(words[0], 7, 3, "0123", ["opt/hpcx"])

    monkeypatch.setattr(archive, "write", write)
    run = RunModule(capsys)
    foreseen = run(node_image.main, True, path="/images/node.tar")
    assert (foreseen["changed"], given) == (True, [])

    found = run(node_image.main, path="/images/node.tar")
    assert given == [(Path("/images/node.tar"), Path("/"))]
    assert {name: found[name] for name in ("changed", "bytes", "files", "bundle", "foreign")} == {
        "changed": True,
        "bytes": 7,
        "files": 3,
        "bundle": "0123",
        "foreign": ["opt/hpcx"],
    }


@pytest.mark.parametrize("mode", [0o2775, 0o777])
def test_a_directory_that_others_can_write_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mode: int
) -> None:
    tmp_path.chmod(mode)

    found = RunModule(capsys)(node_image.main, path=f"{tmp_path}/images/node.tar")
    assert found["failed"]
    assert f"{tmp_path} has the mode {mode:04o}, so that others can write it" in found["msg"]
    assert list(tmp_path.iterdir()) == []
