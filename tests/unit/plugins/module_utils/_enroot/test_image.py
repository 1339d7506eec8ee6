# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import image as images

if t.TYPE_CHECKING:
    from pathlib import Path

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("name", "uri", "file"),
    [
        ("nvcr.io/nvidia/pytorch:25.10-py3", "docker://nvcr.io#nvidia/pytorch:25.10-py3", "nvidia+pytorch+25.10-py3"),
        ("nvcr.io#nvidia/pytorch:25.10-py3", "docker://nvcr.io#nvidia/pytorch:25.10-py3", "nvidia+pytorch+25.10-py3"),
        ("docker://$oauthtoken@nvcr.io#a/b:1", "docker://$oauthtoken@nvcr.io#a/b:1", "a+b+1"),
        ("ubuntu:24.04", "docker://ubuntu:24.04", "ubuntu+24.04"),
        ("library/ubuntu", "docker://library/ubuntu", "library+ubuntu+latest"),
        ("localhost:5000/a:1", "docker://localhost:5000#a:1", "a+1"),
        (f"ubuntu@{DIGEST}", f"docker://ubuntu@{DIGEST}", "ubuntu+sha256-0123456789ab"),
        ("/srv/images/base.sqsh", "/srv/images/base.sqsh", "base"),
    ],
)
def test_names_as_people_write_them(name: str, uri: str, file: str) -> None:
    assert images.parse(name) == images.Image(uri, file)


@pytest.mark.parametrize(
    "name", ["", "Ubuntu", "nvcr.io/", "a b", "a:b:c", "/srv/images/base.tar", "a@sha256:12", 5, None]
)
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(images.ImageError, match=r"is not the name|is neither the name"):
        images.parse(name)


@pytest.mark.parametrize("name", ["image.sqsh", "dir/base.squashfs", "./a.sqsh", "~/a.sqsh", "Image.SQSH", "a b.sqsh"])
def test_a_file_without_an_absolute_path_is_refused_with_the_right_form(name: str) -> None:
    with pytest.raises(
        images.ImageError, match=rf"needs a path that begins with /, such as /shared/images/.*{name[-6:]}"
    ):
        images.parse(name)


def test_an_image_of_a_registry_may_be_called_like_a_file() -> None:
    assert images.parse("docker://site/base.sqsh").uri == "docker://site/base.sqsh"


def test_a_file_without_its_full_size_has_no_record(tmp_path: Path) -> None:
    path = tmp_path / "a.sqsh"
    path.write_bytes(b"12345")
    record = images.Record("docker://a", images.sha256(path), 5)
    images.record_path(path).write_text(record.text(), encoding="utf-8")

    assert images.record(path) == record

    path.write_bytes(b"1234")
    assert images.record(path) is None


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"image": "a", "sha256": "b", "bytes": null}'])
def test_a_damaged_record_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.sqsh"
    path.write_bytes(b"")
    images.record_path(path).write_text(text, encoding="utf-8")

    assert images.record(path) is None


def test_a_copy_has_the_digest_of_its_source(tmp_path: Path) -> None:
    source, target = tmp_path / "a", tmp_path / "b"
    source.write_bytes(b"x" * 100_000)

    assert images.copy(source, target) == images.sha256(source) == images.sha256(target)


def test_space_is_the_image_and_what_is_to_stay_free(tmp_path: Path) -> None:
    gib = 1 << 30

    assert images.space_problem(tmp_path, 3 * gib, 2 * gib, 5 * gib) == ""
    assert "4.0 GiB free, and needs 5.0 GiB: 3.0 for the image and 2.0" in images.space_problem(
        tmp_path, 3 * gib, 2 * gib, 4 * gib
    )
