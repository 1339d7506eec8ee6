# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module file_set on real files."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import file_set as system_file_set
from ansible_collections.hpcai.gpucluster.plugins.modules import file_set
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE
from ansible_collections.hpcai.gpucluster.tests.unit.support.exposed import watched
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule

if t.TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def run_module(capsys: pytest.CaptureFixture[str]) -> RunModule:
    return RunModule(capsys)


class Module:
    """What the code needs of AnsibleModule."""

    def __init__(self, in_place: bool) -> None:
        self.params = {"backup": True, "unsafe_writes": in_place}


def bring(path: Path, content: str | None, mode: int = 0o644, in_place: bool = False) -> list[str]:
    """Bring one file to its state and return what was done."""
    wanted = [system_file_set.Wanted(str(path), content, mode, os.getuid(), os.getgid())]
    changes = system_file_set.plan(wanted, file_set.look)
    for change in changes:
        file_set.apply(t.cast("t.Any", Module(in_place)), change)
    return [change.action for change in changes]


@pytest.mark.parametrize("content", ["", "text\n", "windows\r\nlines\r\n", "no newline", "\u00e4\u20ac\n"])
def test_a_file_is_written_once_in_missing_directories(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a/b/file"

    assert bring(path, content, 0o755) == ["write"]
    assert path.read_bytes() == content.encode()
    assert path.stat().st_mode & 0o7777 == 0o755
    assert bring(path, content, 0o755) == []


def test_only_the_mode_is_corrected(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text\n")
    path.chmod(0o600)
    number = path.stat().st_ino

    assert bring(path, "text\n") == ["attributes"]
    assert path.stat().st_ino == number
    assert path.stat().st_mode & 0o7777 == 0o644


def test_a_link_is_replaced_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("precious\n")
    (tmp_path / "link").symlink_to("target")

    assert bring(tmp_path / "link", "new\n") == ["write"]
    assert not (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "precious\n"


@pytest.mark.parametrize(
    ("content", "state", "is_kept"),
    [
        ("# role nccl\nA=1\n", "absent", False),
        ("A=1\n", "absent", True),
        ("", "absent", True),
        ("A=1\n", "present", False),
    ],
)
def test_only_a_file_with_the_text_is_removed(tmp_path: Path, content: str, state: str, is_kept: bool) -> None:
    path = tmp_path / "file"
    path.write_text(content)
    one = {"path": str(path), "content": "new\n", "mode": "0644", "state": state, "containing": "role nccl"}

    wanted = file_set.wanted([one], os.getuid(), os.getgid())

    assert (wanted == []) is is_kept


def test_of_a_link_or_a_directory_no_text_is_read(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("role nccl\n")
    (tmp_path / "link").symlink_to("target")
    (tmp_path / "directory").mkdir()

    for name in ("link", "directory"):
        one = {"path": str(tmp_path / name), "content": None, "mode": "0644", "state": "absent", "containing": "nccl"}
        assert file_set.wanted([one], 0, 0) == []


def test_a_file_is_removed_once(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("text\n")

    assert bring(path, None) == ["remove"]
    assert not path.exists()
    assert bring(path, None) == []


def test_a_folder_is_removed_with_all_that_is_in_it_and_a_link_to_one_alone(tmp_path: Path) -> None:
    (tmp_path / "directory/sub").mkdir(parents=True)
    (tmp_path / "directory/sub/file").write_text("text\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("other")

    assert bring(tmp_path / "directory", None) == ["remove"]
    assert bring(tmp_path / "link", None) == ["remove"]
    assert bring(tmp_path / "directory", None) == []
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_the_diff_of_an_archive_that_goes_is_text(tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(b"\x1f\x8b\x08\x00\xff")
    (tmp_path / "text").write_text("\u00e4\u20ac\n")
    gone = [system_file_set.Wanted(str(tmp_path / name), None, 0o644, 0, 0) for name in ("archive", "text")]
    shown = system_file_set.diff(system_file_set.plan(gone, file_set.look))

    assert [one["before"].encode().splitlines()[1] for one in shown] == [b"(no text)", "\u00e4\u20ac".encode()]


def test_bytes_that_are_no_text_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xff\xfe")

    assert bring(path, "text\n") == ["write"]


def test_users_are_names_or_numbers() -> None:
    assert file_set.identifier("root", "user") == 0
    assert file_set.identifier("root", "group") == 0
    assert file_set.identifier("4242", "user") == 4242
    with pytest.raises(KeyError):
        file_set.identifier("no-such-user", "user")


def test_only_a_replaced_file_is_kept(tmp_path: Path) -> None:
    bring(tmp_path / "file", "old\n")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

    bring(tmp_path / "file", "new\n")
    assert [path.read_text() for path in tmp_path.glob("file.*~")] == ["old\n"]


@pytest.mark.parametrize(("content", "state"), [("10.0.0.1 head", "present"), ("", "present"), (None, "absent")])
def test_a_block_leaves_the_rest_of_the_file(tmp_path: Path, content: str | None, state: str) -> None:
    real, path = tmp_path / "real", tmp_path / "hosts"
    real.write_text("127.0.0.1 localhost\n# BEGIN x\n10.0.0.9 old\n# END x\n::1 localhost\n")
    path.symlink_to(real)
    entry = {"path": str(path), "content": content, "marker": "# {mark} x", "mode": "0644", "state": state}

    (wanted,) = file_set.wanted([entry], 0, 0)

    block = f"# BEGIN x\n{content}\n# END x\n" if content else ""
    assert (wanted.path, wanted.content) == (str(real), f"127.0.0.1 localhost\n{block}::1 localhost\n")


def test_lines_outside_the_block_are_replaced_until_nothing_changes(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 a x b x\n# BEGIN m\nold x\n# END m\n")
    entry = {"path": str(path), "content": "new x", "marker": "# {mark} m", "mode": "0644", "state": "present"}

    (wanted,) = file_set.wanted([{**entry, "replace": [{"regexp": "^(127.*?) x", "by": r"\1"}]}], 0, 0)

    assert wanted.content == "127.0.0.1 a b\n# BEGIN m\nnew x\n# END m\n"


def test_no_block_makes_no_file(tmp_path: Path) -> None:
    entry = {"path": str(tmp_path / "x"), "content": "", "marker": "# {mark} x", "mode": "0644", "state": "present"}

    assert file_set.wanted([entry], 0, 0) == []


@pytest.mark.parametrize(("content", "state"), [("", "present"), ("\n", "present"), (None, "absent"), ("x", "absent")])
def test_a_file_without_the_block_keeps_its_mode(tmp_path: Path, content: str | None, state: str) -> None:
    path = tmp_path / "sshd"
    path.write_text("@include common-account\n")
    entry = {"path": str(path), "content": content, "marker": "# {mark} x", "mode": "0644", "state": state}

    assert file_set.wanted([entry], 0, 0) == []


def test_a_directory_is_no_required_file(tmp_path: Path) -> None:
    """Only a regular file is read: a directory would be an error, and a FIFO would hang."""
    required = {"path": str(tmp_path), "sha1": "", "mode": oct(tmp_path.stat().st_mode & 0o7777)[2:].zfill(4)}

    assert file_set.lacks(required, os.getuid(), os.getgid())


def run(*, check: bool = False, **options: t.Any) -> dict[str, t.Any]:
    """Run the module as Ansible does, and return its result."""
    owned = {"owner": str(os.getuid()), "group": str(os.getgid()), "_ansible_check_mode": check, "_ansible_diff": True}
    done = subprocess.run(
        [sys.executable, file_set.__file__],
        input=json.dumps({"ANSIBLE_MODULE_ARGS": {**owned, **options}}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    result: dict[str, t.Any] = json.loads(done.stdout)
    return result


def test_all_paths_are_removed_in_one_task_and_no_secret_is_shown(tmp_path: Path) -> None:
    (tmp_path / "state/sub").mkdir(parents=True)
    (tmp_path / "state/sub/key").write_bytes(b"\xffsecret")
    (tmp_path / "key").write_text("secret\n")
    (tmp_path / "masked").symlink_to("/dev/null")
    (tmp_path / "kept").mkdir()
    (tmp_path / "link").symlink_to("kept")
    names = ["state", "key", "masked", "link", "missing", "key/below", "key"]
    paths = [str(tmp_path / name) for name in names]

    checked = run(absent=paths, check=True)
    done = run(absent=paths)

    assert checked == done
    assert done["changed"]
    assert done["files"] == paths[:4]
    assert [one["before"] for one in done["diff"]] == ["(directory)\n", "(file)\n", "(link)\n", "(link)\n"]
    assert "secret" not in json.dumps(done)
    assert [one.name for one in tmp_path.iterdir()] == ["kept"]
    assert not run(absent=paths)["changed"]


def test_a_slash_at_the_end_of_a_link_spares_its_target(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state/job").write_text("precious\n")
    (tmp_path / "link").symlink_to("state")

    done = run(absent=[f"{tmp_path}/link/", f"/{tmp_path}//link"])

    assert done["files"] == [str(tmp_path / "link")]
    assert (tmp_path / "state/job").read_text() == "precious\n"
    assert run(absent=[f"{tmp_path}/state/"])["files"] == [str(tmp_path / "state")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "one of the following is required: files, absent"),
        ({"absent": ["/etc/.."]}, "root directory"),
        ({"absent": ["key"]}, "absolute paths, not 'key'"),
    ],
)
def test_wrong_paths_to_remove_are_refused(options: dict[str, t.Any], message: str) -> None:
    assert message in run(**options)["msg"]


def test_what_vanishes_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").mkdir()
    calls = []
    rmtree = shutil.rmtree

    def vanishing(path: str) -> None:
        calls.append(path)
        if len(calls) == 1:
            raise FileNotFoundError(path)
        rmtree(path)

    monkeypatch.setattr(shutil, "rmtree", vanishing)
    file_set.remove(str(tmp_path / "log"))
    file_set.remove(str(tmp_path / "log"))

    assert len(calls) == 2
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize("mode", ["0600", "0640"])
@pytest.mark.parametrize("there", [True, False], ids=["replaced", "new"])
def test_a_secret_is_never_open(tmp_path: Path, run_module: RunModule, mode: str, there: bool) -> None:
    """The file of an earlier release was open to all, and so was a new one of atomic_move."""
    path = tmp_path / "slurmdbd.conf"
    if there:
        path.write_text("old\n")
        path.chmod(0o644)
    files = [{"path": str(path), "content": "StoragePass=secret\n", "mode": mode}]

    with watched(tmp_path, b"secret", int(mode, 8), os.getuid()) as found:
        run_module(file_set.main, files=files, owner=str(os.getuid()), group=str(os.getgid()))

    assert found == []
    assert list(tmp_path.iterdir()) == [path]


def test_the_copy_of_a_secret_is_never_open(tmp_path: Path, run_module: RunModule) -> None:
    path = tmp_path / "slurmdbd.conf"
    path.write_text("StoragePass=secret\n")
    path.chmod(0o600)
    files = [{"path": str(path), "content": "StoragePass=secret, too\n", "mode": "0600"}]
    owner, group = str(os.getuid()), str(os.getgid())

    with watched(tmp_path, b"secret", 0o600, os.getuid()) as found:
        run_module(file_set.main, files=files, backup=True, owner=owner, group=group)

    assert found == []
    texts = sorted(one.read_text() for one in tmp_path.iterdir())
    assert texts == ["StoragePass=secret\n", "StoragePass=secret, too\n"]


@pytest.mark.parametrize("in_place", [True, False])
def test_a_mount_point_is_written_in_place_if_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    path = tmp_path / "hosts"
    path.write_text("old, and longer than the new text\n")
    number = path.stat().st_ino

    def busy(_source: str, target: str) -> None:
        if target == str(path):
            raise OSError(errno.EBUSY, "Device or resource busy", target)

    monkeypatch.setattr(os, "replace", busy)
    if not in_place:
        with pytest.raises(OSError, match="busy"):
            bring(path, "new\n")
        return

    assert bring(path, "new\n", 0o640, in_place=True) == ["write"]
    assert (path.read_text(), path.stat().st_ino, path.stat().st_mode & 0o777) == ("new\n", number, 0o640)


@pytest.mark.parametrize("how", ["absent", "files"])
def test_a_directory_of_the_collection_goes_with_its_last_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    own, other = tmp_path / "own", tmp_path / "other"
    monkeypatch.setattr(system_file_set, "OWN", (str(own),))
    for path in (own / "a", own / "b", other / "a"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("text\n")
    run_module = RunModule(capsys)

    def gone(*paths: Path, check: bool = False) -> list[str]:
        found = [{"path": str(path), "state": "absent"} for path in paths]
        options = {"files": found} if how == "files" else {"absent": [str(path) for path in paths]}
        return t.cast("list[str]", run_module(file_set.main, check, **options)["files"])

    assert gone(own / "a", other / "a") == [str(own / "a"), str(other / "a")]
    assert gone(own / "b", check=True) == [str(own / "b"), str(own)]
    assert own.is_dir()
    assert gone(own / "b") == [str(own / "b"), str(own)]
    assert gone(own / "b") == []
    assert (own.exists(), other.exists()) == (False, True)
