# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage import nfs_exports as nfs
from ansible_collections.hpcai.gpucluster.plugins.module_utils._storage.errors import StorageError
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._storage.fake_host import FakeHost

if t.TYPE_CHECKING:
    from pathlib import Path

FILE = "/etc/exports.d/gpucluster.exports"
HOME = nfs.Export("/home", ("10.0.0.0/24(rw)",))
SHARED = nfs.Export("/shared", ("10.0.0.0/24(rw)",), "root", "users", "2775")


class FakeFolders(nfs.Directories):
    """Directories in memory."""

    def __init__(self) -> None:
        self.known = {"/home": nfs.Rights(0, 0, 0o711)}

    def rights(self, path: str) -> nfs.Rights | None:
        return self.known.get(path)

    def make(self, path: str, rights: nfs.Rights) -> None:
        self.known[path] = rights

    def uid(self, owner: str) -> int:
        return {"root": 0}[owner]

    def gid(self, group: str) -> int:
        return {"root": 0, "users": 100}[group]


def run(machine: FakeHost, directories: FakeFolders, *exports: nfs.Export) -> nfs.Plan:
    planned = nfs.plan(list(exports), machine, directories, FILE)
    if planned.changed:
        nfs.apply(planned, machine, directories, FILE)
        machine.files[nfs.ETAB] = "".join(f"{export.path}\t10.0.0.0/24(rw)\n" for export in exports)
    return planned


def test_exports_are_written_and_published_once() -> None:
    machine, directories = FakeHost(), FakeFolders()

    assert run(machine, directories, HOME, SHARED).changed
    assert machine.files[FILE].splitlines()[1:] == ["/home 10.0.0.0/24(rw)", "/shared 10.0.0.0/24(rw)"]
    assert machine.calls == [["exportfs", "-ra"]]
    assert not run(machine, directories, HOME, SHARED).changed


def test_an_existing_folder_keeps_its_rights_unless_they_are_named() -> None:
    machine, directories = FakeHost(), FakeFolders()

    run(machine, directories, HOME, SHARED)

    assert directories.known == {"/home": nfs.Rights(0, 0, 0o711), "/shared": nfs.Rights(0, 100, 0o2775)}


def test_an_end_of_all_exports_is_published_too() -> None:
    machine, directories = FakeHost(), FakeFolders()
    run(machine, directories, HOME)

    assert run(machine, directories).changed
    assert machine.files[FILE] == ""


def test_what_a_killed_run_did_not_publish_is_published() -> None:
    machine, directories = FakeHost(), FakeFolders()
    run(machine, directories, HOME)
    machine.files[nfs.ETAB] = ""

    assert run(machine, directories, HOME).publish


def test_what_exportfs_says_is_told() -> None:
    machine = FakeHost()
    machine.answers[("exportfs", "-ra")] = (1, "", "exportfs: Failed to resolve gpu9\n")

    with pytest.raises(StorageError, match="Failed to resolve gpu9"):
        run(machine, FakeFolders(), HOME)


def test_what_exportfs_refused_or_never_saw_is_published_by_the_next_run() -> None:
    machine, directories = FakeHost(), FakeFolders()
    run(machine, directories, HOME)
    other = HOME._replace(clients=("10.9.0.0/24(ro)",))
    machine.answers[("exportfs", "-ra")] = (1, "", "exportfs: Failed to resolve gpu9\n")
    with pytest.raises(StorageError):
        run(machine, directories, other)
    machine.answers.clear()

    assert run(machine, directories, other).publish
    assert not run(machine, directories, other).changed


def test_an_export_that_another_file_names_too_is_found() -> None:
    machine = FakeHost()
    machine.files["/etc/exports"] = "# old\n/home *(rw,no_root_squash)\n"

    assert nfs.elsewhere([HOME, SHARED], machine) == ["/home"]


def test_real_folders_get_their_rights_and_a_file_is_refused(tmp_path: Path) -> None:
    directories = nfs.Directories()
    rights = nfs.Rights(os.getuid(), os.getgid(), 0o2770)

    directories.make(str(tmp_path / "a/b"), rights)
    (tmp_path / "file").touch()

    assert directories.rights(str(tmp_path / "a/b")) == rights
    assert directories.rights(str(tmp_path / "none")) is None
    with pytest.raises(StorageError, match="not a directory"):
        directories.rights(str(tmp_path / "file"))


def test_an_owner_that_does_not_exist_is_named() -> None:
    with pytest.raises(StorageError, match="no user nobody-here"):
        nfs.Directories().uid("nobody-here")
    with pytest.raises(StorageError, match="no group nobody-here"):
        nfs.Directories().gid("nobody-here")


def test_an_owner_that_check_mode_has_not_made_is_a_pending_change(tmp_path: Path) -> None:
    export = nfs.Export(str(tmp_path), ("*(rw)",), "nobody-here", "nobody-here")

    planned = nfs.plan([export], FakeHost(), nfs.Directories(check=True), FILE)

    assert planned.changed
    assert "owner not there yet, group not there yet" in nfs.diff(planned, FILE)[1]["after"]


@pytest.mark.parametrize(
    "client", ["10.0.0.1(rw) *(rw)", "10.0.0.1(rw)\n/etc *(rw)", "10.0.0.1(rw) ", "a(b(c))", "a(rw,\\", "a(rw)#"]
)
def test_a_line_of_exports_holds_what_was_meant(client: str) -> None:
    with pytest.raises(StorageError, match="cannot stand in a line of exports"):
        assert nfs.Export("/home", ("10.0.0.0/24(rw,sync)", client)).line

    assert nfs.Export("/home", ("10.0.0.0/24(rw,sync)", "@nodes")).line == "/home 10.0.0.0/24(rw,sync) @nodes"
