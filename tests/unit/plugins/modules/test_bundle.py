# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module bundle on real archives."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._bundle import archive
from ansible_collections.hpcai.gpucluster.plugins.modules import bundle

if t.TYPE_CHECKING:
    from pathlib import Path


def parameters(path: Path, directory: Path, **more: t.Any) -> dict[str, t.Any]:
    """Return the options of the module."""
    return {"path": str(path), "directory": str(directory), "about": {}, "licences": {}, "checksum": "", **more}


def packed(tmp_path: Path) -> tuple[Path, str]:
    """Return an archive and its checksum."""
    (tmp_path / "stage/node").mkdir(parents=True)
    (tmp_path / "stage/node/file").write_text("text", encoding="utf-8")
    target = tmp_path / "bundle.tar"
    changed, found = bundle._packed(
        parameters(target, tmp_path / "stage", about={"release": "x"}, licences={"node/": "MIT"})
    )
    assert changed
    assert found["manifest"]["files"]["node/file"]["licence"] == "MIT"
    return target, found["sha256"]


def test_what_was_packed_is_unpacked_once(tmp_path: Path) -> None:
    target, digest = packed(tmp_path)
    options = parameters(target, tmp_path / "cache", checksum=f"sha256:{digest}")

    assert [bundle._unpacked(options)[0] for _run in range(2)] == [True, False]


def test_another_archive_than_the_expected_one_is_refused(tmp_path: Path) -> None:
    target, digest = packed(tmp_path)

    with pytest.raises(archive.BundleError, match=f"gpucluster_bundle_checksum: found sha256:0; .* sha256:{digest}"):
        bundle._unpacked(parameters(target, tmp_path / "cache", checksum="sha256:0"))
    assert not (tmp_path / "cache").exists()


def test_a_missing_file_is_named_with_its_variable(tmp_path: Path) -> None:
    with pytest.raises(archive.BundleError, match=r"gpucluster_bundle: found .*none\.tar"):
        bundle._unpacked(parameters(tmp_path / "none.tar", tmp_path))
