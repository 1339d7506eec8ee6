# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import io
import json
import tarfile
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._bundle import archive

if t.TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """Return the archive of a small bundle."""
    for name, text in {"node/apt/Packages": "x", "node/nhc/nhc.tar.gz": "y", "wheels/a.whl": "z"}.items():
        path = tmp_path / "stage" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    program = tmp_path / "stage/install.sh"
    program.write_text("#!/bin/sh\n", encoding="utf-8")
    program.chmod(0o700)
    target = tmp_path / "bundle.tar"
    archive.pack(tmp_path / "stage", target, {"release": "debian 13 x86_64"}, {"wheels/a.whl": "MIT"})
    return target


def rewritten(source: Path, change: t.Callable[[str, bytes], tuple[str, bytes] | None]) -> Path:
    """Return a copy of an archive with other members."""
    target = source.with_name("changed.tar")
    with tarfile.open(source) as old, tarfile.open(target, "w") as new:
        for member in old:
            stream = old.extractfile(member)
            changed = change(member.name, stream.read() if stream else b"")
            if changed:
                info = tarfile.TarInfo(changed[0])
                info.size = len(changed[1])
                new.addfile(info, io.BytesIO(changed[1]))
    return target


def test_a_bundle_is_unpacked_once_and_has_what_was_packed(packed: Path, tmp_path: Path) -> None:
    first = archive.unpack(packed, tmp_path / "cache")
    second = archive.unpack(packed, tmp_path / "cache")

    assert (first.changed, second.changed) == (True, False)
    assert first.path == second.path
    assert first.manifest["release"] == "debian 13 x86_64"
    assert first.manifest["files"]["wheels/a.whl"]["licence"] == "MIT"
    assert (first.path / "wheels/a.whl").read_text(encoding="utf-8") == "z"
    assert (first.path / "install.sh").stat().st_mode & 0o777 == 0o755
    assert (first.path / "node/apt/Packages").stat().st_mode & 0o777 == 0o644
    assert json.loads((first.path / "manifest.json").read_text(encoding="utf-8")) == first.manifest


def test_nodes_get_their_part_only_and_its_last_file_says_that_it_is_complete(packed: Path, tmp_path: Path) -> None:
    with tarfile.open(archive.unpack(packed, tmp_path / "cache").path / "node.tar") as node:
        members = node.getmembers()

    assert [member.name for member in members] == ["apt", "apt/Packages", "nhc", "nhc/nhc.tar.gz", ".complete"]
    assert {(member.uid, member.gid) for member in members} == {(0, 0)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda name, data: (name, b"other" if name.endswith(".whl") else data), "wheels/a.whl is damaged"),
        (lambda name, data: None if name.endswith(".whl") else (name, data), "wheels/a.whl is missing"),
        (lambda name, data: (name.replace("wheels/", "wheel/"), data), "wheel/a.whl is not in manifest.json"),
        (lambda name, data: None if name == "manifest.json" else (name, data), "is not a bundle: its first file"),
        (lambda name, data: (name, b"[]" if name == "manifest.json" else data), "cannot be read"),
        (
            lambda name, data: (
                name,
                data.replace(b'"format": 1', b'"format": 9') if name == "manifest.json" else data,
            ),
            "has the format 9; allowed: 1",
        ),
        (
            lambda name, data: (
                "../evil" if name.endswith(".whl") else name,
                data.replace(b"wheels/a.whl", b"../evil"),
            ),
            "../evil is not in manifest.json",
        ),
    ],
)
def test_a_bundle_that_differs_from_its_manifest_is_refused_and_leaves_nothing(
    packed: Path, tmp_path: Path, change: t.Any, words: str
) -> None:
    broken = rewritten(packed, change)

    with pytest.raises(archive.BundleError, match=words.replace("[", r"\[")):
        archive.unpack(broken, tmp_path / "cache")
    assert not [path for path in tmp_path.rglob(".complete") if "partial" not in str(path)]
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path / "cache/evil").exists()


def test_an_interrupted_run_is_repeated(packed: Path, tmp_path: Path) -> None:
    path = archive.unpack(packed, tmp_path / "cache").path
    (path / ".complete").unlink()
    (path / "wheels/a.whl").write_text("half", encoding="utf-8")

    assert archive.unpack(packed, tmp_path / "cache").changed
    assert (path / "wheels/a.whl").read_text(encoding="utf-8") == "z"


def test_what_is_no_archive_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no archive", encoding="utf-8")

    with pytest.raises(archive.BundleError, match="text cannot be unpacked"):
        archive.unpack(tmp_path / "text", tmp_path / "cache")


def test_a_link_is_not_packed(packed: Path, tmp_path: Path) -> None:
    (tmp_path / "stage/link").symlink_to("/etc/passwd")

    with pytest.raises(archive.BundleError, match="symbolic link"):
        archive.pack(tmp_path / "stage", packed, {}, {})
    assert not packed.with_name(f".{packed.name}.partial").exists()
