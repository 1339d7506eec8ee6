# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file with the VM sizes that were found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import auto

if TYPE_CHECKING:
    from pathlib import Path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "new" / "sizes.json"
    assert auto.read(str(path)) == {}

    auto.write(str(path), {"gpu2": "DGX_H100", "gpu1": "DGX_A100"})
    assert auto.read(str(path)) == {"gpu1": "DGX_A100", "gpu2": "DGX_H100"}
    auto.write(str(path), {"gpu1": "DGX_B200 "})
    assert auto.read(str(path)) == {"gpu1": "DGX_B200 "}
    assert [entry.name for entry in path.parent.iterdir()] == ["sizes.json"]


@pytest.mark.parametrize("text", ["", "{", "[1]", "null"])
def test_a_broken_file_has_no_sizes(tmp_path: Path, text: str) -> None:
    (tmp_path / "sizes.json").write_text(text, encoding="utf-8")

    assert auto.read(str(tmp_path / "sizes.json")) == {}


@pytest.mark.parametrize(("size", "expected"), [("auto", True), (" Auto ", True), ("", False), ("DGX_H100", False)])
def test_auto(size: str, expected: bool) -> None:
    assert auto.is_auto(size) is expected
