# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import io
import json
import tarfile
import typing as t
import zipfile

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._bundle import licences

if t.TYPE_CHECKING:
    from pathlib import Path

DEP5 = """Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: jq

Files: *
Copyright: 2012 Stephen Dolan
License: Expat

Files: debian/*
Copyright: 2012 Simon Elsbrock
License: CC-BY-3.0

License: Expat
 Permission is hereby granted
"""
INDEX = """Package: jq
Filename: ./jq_1.7_amd64.deb

Package: libjq1
Source: jq (1.7-1)
Filename: ./libjq1_1.7_amd64.deb

Package: bare
Filename: ./bare_1_all.deb
"""


def test_packages_have_the_licences_of_their_source(tmp_path: Path) -> None:
    (tmp_path / "node/apt").mkdir(parents=True)
    (tmp_path / "node/copyright").mkdir()
    (tmp_path / "node/apt/Packages").write_text(INDEX, encoding="utf-8")
    (tmp_path / "node/copyright/jq").write_text(DEP5, encoding="utf-8")

    found = licences.of_tree(tmp_path, {"node/enroot/": "Apache-2.0"})

    assert found == {
        "node/apt/jq_1.7_amd64.deb": "CC-BY-3.0, Expat",
        "node/apt/libjq1_1.7_amd64.deb": "CC-BY-3.0, Expat",
        "node/apt/bare_1_all.deb": licences.UNKNOWN,
    }


def test_a_copyright_file_in_free_form_is_not_guessed() -> None:
    assert licences.of_copyright("This is free software.\nLicense: GPL\n") == licences.UNKNOWN


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ("Name: a\nLicense-Expression: MIT OR Apache-2.0\nLicense: x\n\nLicense: body\n", "MIT OR Apache-2.0"),
        ("Name: a\nClassifier: License :: OSI Approved :: MIT License\n", "MIT License"),
        ("Name: a\nLicense: BSD\n", "BSD"),
        ("Name: a\n\nLicense: body\n", licences.UNKNOWN),
    ],
)
def test_a_wheel_states_its_licence(tmp_path: Path, metadata: str, expected: str) -> None:
    path = tmp_path / "wheels/a-1-py3-none-any.whl"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("a-1.dist-info/METADATA", metadata)

    assert licences.of_tree(tmp_path, {}) == {"wheels/a-1-py3-none-any.whl": expected}


def test_a_collection_and_files_of_a_known_release_have_a_licence(tmp_path: Path) -> None:
    (tmp_path / "collections").mkdir()
    (tmp_path / "pyxis").mkdir()
    (tmp_path / "pyxis/pyxis.so").touch()
    text = json.dumps({"collection_info": {"license": [], "license_file": "COPYING"}}).encode()
    with tarfile.open(tmp_path / "collections/hpcai-gpucluster-1.tar.gz", "w:gz") as target:
        info = tarfile.TarInfo("MANIFEST.json")
        info.size = len(text)
        target.addfile(info, io.BytesIO(text))

    found = licences.of_tree(tmp_path, {"pyxis/": "Apache-2.0"})

    assert found == {"collections/hpcai-gpucluster-1.tar.gz": "see its COPYING", "pyxis/pyxis.so": "Apache-2.0"}
