# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module enroot_image on real files, with a stand-in for enroot's import."""

from __future__ import annotations

import contextlib
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._enroot import image as images
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.trusted_directory import UntrustedDirectoryError
from ansible_collections.hpcai.gpucluster.plugins.modules import enroot_image

NAME = "nvcr.io/nvidia/pytorch:25.10-py3"


class Module:
    """What the code needs of AnsibleModule."""

    def __init__(self, directory: Path, **params: t.Any) -> None:
        defaults: dict[str, t.Any] = {
            "image": None,
            "source": None,
            "credentials": [],
            "size_bytes": 0,
            "reserve_bytes": 0,
            "verify": False,
        }
        self.params = defaults | params
        self.check_mode = False
        self.tmpdir = str(directory)
        self.logins: list[str] = []
        self.answer = (0, "", "")

    def run_command(self, args: list[str], environ_update: dict[str, str]) -> tuple[int, str, str]:
        directory = Path(environ_update["ENROOT_CONFIG_PATH"])
        self.logins.append((directory / ".credentials").read_text(encoding="utf-8"))
        assert directory.stat().st_mode & 0o077 == 0
        Path(args[-2]).write_text(f"image {args[-1]}", encoding="utf-8")
        return self.answer


def bring(module: Module) -> bool:
    """Bring the file and tell whether it changed."""
    return enroot_image.Task(t.cast("t.Any", module)).present()[0]


def test_an_image_is_imported_once_with_the_logins_of_everybody(tmp_path: Path) -> None:
    logins = [{"ngc": "key", "users": None}, {"ngc": "of-alice", "users": ["alice"]}]
    module = Module(tmp_path, path=str(tmp_path / "new/a.sqsh"), image=NAME, credentials=logins)

    assert bring(module)
    assert not bring(module)
    assert module.logins == [
        "machine nvcr.io login $oauthtoken password key\nmachine authn.nvidia.com login $oauthtoken password key\n"
    ]
    assert (tmp_path / "new/a.sqsh").read_text() == "image docker://nvcr.io#nvidia/pytorch:25.10-py3"


def test_another_image_of_the_same_file_is_imported(tmp_path: Path) -> None:
    bring(Module(tmp_path, path=str(tmp_path / "a.sqsh"), image=NAME))

    assert bring(Module(tmp_path, path=str(tmp_path / "a.sqsh"), image=NAME + "2"))


def test_a_failed_import_leaves_nothing(tmp_path: Path) -> None:
    module = Module(tmp_path, path=str(tmp_path / "images/a.sqsh"), image=NAME)
    module.answer = (1, "", "[ERROR] 401 Unauthorized\n")

    with pytest.raises(images.ImageError, match=r"cannot import docker.*401 Unauthorized"):
        bring(module)
    assert list((tmp_path / "images").iterdir()) == []


def test_check_mode_imports_nothing(tmp_path: Path) -> None:
    module = Module(tmp_path, path=str(tmp_path / "images/a.sqsh"), image=NAME)
    module.check_mode = True

    assert bring(module)
    assert not (tmp_path / "images").exists()


def test_a_copy_that_is_damaged_is_found_and_made_again(tmp_path: Path) -> None:
    bring(Module(tmp_path, path=str(tmp_path / "shared.sqsh"), image=NAME))
    copy = tmp_path / "copy.sqsh"
    options = {"path": str(copy), "source": str(tmp_path / "shared.sqsh")}
    assert bring(Module(tmp_path, **options))
    copy.write_bytes(b"x" * copy.stat().st_size)

    assert not bring(Module(tmp_path, **options))
    assert bring(Module(tmp_path, **options, verify=True))
    assert copy.read_bytes() == (tmp_path / "shared.sqsh").read_bytes()


def test_a_damaged_source_is_not_copied(tmp_path: Path) -> None:
    source = tmp_path / "shared.sqsh"
    bring(Module(tmp_path, path=str(source), image=NAME))
    source.write_bytes(b"x" * source.stat().st_size)

    with pytest.raises(images.ImageError, match="It is damaged"):
        bring(Module(tmp_path, path=str(tmp_path / "copy.sqsh"), source=str(source)))
    assert not (tmp_path / "copy.sqsh").exists()


def test_the_shared_file_itself_is_not_copied(tmp_path: Path) -> None:
    shared = str(tmp_path / "shared.sqsh")
    bring(Module(tmp_path, path=shared, image=NAME))

    assert not bring(Module(tmp_path, path=shared, source=shared))
    assert not bring(Module(tmp_path, path=shared, source=shared, verify=True))
    Path(shared).write_bytes(b"x" * Path(shared).stat().st_size)
    with pytest.raises(images.ImageError, match="It is damaged"):
        bring(Module(tmp_path, path=shared, source=shared, verify=True))


def test_a_source_without_a_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "shared.sqsh").write_bytes(b"")

    with pytest.raises(images.ImageError, match="not here, or not complete"):
        bring(Module(tmp_path, path=str(tmp_path / "copy.sqsh"), source=str(tmp_path / "shared.sqsh")))


def test_no_room_is_found_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(images.ImageError, match="GiB free"):
        bring(Module(tmp_path, path=str(tmp_path / "images/a.sqsh"), image=NAME, reserve_bytes=1 << 60))
    assert not (tmp_path / "images").exists()


def test_removal_takes_the_record_along(tmp_path: Path) -> None:
    module = Module(tmp_path, path=str(tmp_path / "a.sqsh"), image=NAME)
    bring(module)
    task = enroot_image.Task(t.cast("t.Any", module))

    assert task.absent()
    assert list(tmp_path.glob("a.sqsh*")) == []
    assert not task.absent()


@pytest.mark.parametrize("mode", [0o2775, 0o777])
def test_an_image_is_not_written_where_users_can_write(tmp_path: Path, mode: int) -> None:
    """A user could put a link to a file of the machine there, or another image."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    victim = tmp_path / "victim"
    victim.write_text("of the machine")
    (shared / ".a.sqsh.part").symlink_to(victim)
    (tmp_path / "base.sqsh").write_text("image")

    with contextlib.suppress(UntrustedDirectoryError):
        bring(Module(tmp_path, path=str(shared / "a.sqsh"), image=str(tmp_path / "base.sqsh")))
    assert victim.read_text() == "of the machine"
    with pytest.raises(UntrustedDirectoryError, match=f"shared has the mode {mode:04o}"):
        bring(Module(tmp_path, path=str(shared / "images/a.sqsh"), image=str(tmp_path / "base.sqsh")))
    assert [path.name for path in shared.iterdir()] == [".a.sqsh.part"]


def test_an_image_that_a_user_could_put_there_is_not_taken(tmp_path: Path) -> None:
    """The record is beside the image, so an image with its record proves nothing where users can write."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (tmp_path / "base.sqsh").write_text("image")
    assert bring(Module(tmp_path, path=str(shared / "a.sqsh"), image=str(tmp_path / "base.sqsh")))
    shared.chmod(0o2775)

    with pytest.raises(UntrustedDirectoryError, match="shared has the mode 2775"):
        bring(Module(tmp_path, path=str(shared / "a.sqsh"), image=str(tmp_path / "base.sqsh")))
    with pytest.raises(UntrustedDirectoryError, match="shared has the mode 2775"):
        bring(Module(tmp_path, path=str(tmp_path / "local/a.sqsh"), source=str(shared / "a.sqsh")))
