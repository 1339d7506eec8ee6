# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a job left in /dev/shm and /tmp goes with it, and nothing of anybody else, of another job or of a session."""

from __future__ import annotations

import errno
import fcntl
import os
import threading
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.roles.slurm.files import leftovers
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, wait_until, within
from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

ME, OTHER, JOB = os.getuid(), 64999, 17
needs_root = pytest.mark.skipif(ME != 0, reason="files of another user need root")


class Node:
    """Folders in the places of /dev/shm, /tmp, /proc and the notes."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shm, self.tmp, self.proc, self.notes = (folder / name for name in ("shm", "tmp", "proc", "notes"))
        self.outside = folder / "outside"
        for path in (self.shm, self.tmp, self.proc, self.outside):
            path.mkdir()
        (self.outside / "kept").write_text("x", encoding="utf-8")
        monkeypatch.setattr(leftovers, "PLACES", (str(self.shm), str(self.tmp)))
        monkeypatch.setattr(leftovers, "PROC", str(self.proc))
        monkeypatch.setattr(leftovers, "NOTES", str(self.notes))
        monkeypatch.setattr(leftovers, "FIRST_USER", 0)
        monkeypatch.setattr(leftovers, "ROOT", ME)
        self.programs = folder / "programs"
        self.programs.mkdir()
        self._pid = 100

    def process(self, uid: int, state: str = "S (sleeping)", title: str = "sleep", exe: str = "/usr/bin/sleep") -> None:
        """Show a process."""
        self._pid += 1
        folder = self.proc / str(self._pid)
        folder.mkdir()
        uids = f"{OTHER + 2}\t{uid}\t{OTHER + 2}\t{OTHER + 2}"  # that of a program with set-uid, for one
        (folder / "status").write_text(f"Name:\tx\nState:\t{state}\nUid:\t{uids}\n", encoding="utf-8")
        (folder / "cmdline").write_text(title, encoding="utf-8")
        program = self.programs / exe.rpartition("/")[2]
        program.touch()
        (folder / "exe").symlink_to(program)

    def step(self, job: int, exe: str = "/usr/sbin/slurmstepd") -> None:
        """Show the slurmstepd of a job, which belongs to root."""
        self.process(OTHER + 1, title=f"slurmstepd: [{job}.extern]", exe=exe)

    def left(self) -> list[str]:
        """Return what is left in both places, also while it is removed."""
        return sorted(
            str((Path(above) / name).relative_to(self.shm.parent))
            for place in (self.shm, self.tmp)
            for above, directories, files in os.walk(place)
            for name in (*directories, *files)
        )

    def fill(self) -> None:
        """Leave what a job leaves."""
        (self.shm / "segment").write_bytes(b"x" * 100)
        (self.tmp / "a/b/c").mkdir(parents=True)
        (self.tmp / "a/b/file").touch()
        (self.tmp / "a/b").chmod(0o500 if ME == 0 else 0o700)
        (self.tmp / "a/link").symlink_to(self.outside)
        (self.tmp / "link").symlink_to(self.outside / "kept")
        os.mkfifo(self.tmp / "a/pipe")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_everything_of_the_user_goes_and_no_link_is_followed(node: Node) -> None:
    node.fill()

    assert leftovers.sweep(JOB, ME)
    assert node.left() == []
    assert (node.outside / "kept").exists()


def test_nothing_of_others_goes(node: Node) -> None:
    node.fill()
    before = node.left()

    assert leftovers.sweep(JOB, ME + 1)
    assert node.left() == before


@needs_root
def test_files_of_others_below_the_user_stay_with_their_directories(node: Node) -> None:
    (node.tmp / "mine/theirs").mkdir(parents=True)
    for name in ("mine/file", "mine/theirs/file", "mine/theirs/mine", "theirs"):
        (node.tmp / name).touch()
    for name in ("mine/theirs", "mine/theirs/file", "theirs"):
        os.chown(node.tmp / name, OTHER, OTHER)

    assert leftovers.sweep(JOB, ME)
    # The directory of somebody else is not entered.
    assert node.left() == ["tmp/mine", "tmp/mine/theirs", "tmp/mine/theirs/file", "tmp/mine/theirs/mine", "tmp/theirs"]


def test_a_process_of_the_user_keeps_the_files(node: Node) -> None:
    node.fill()
    before = node.left()
    node.process(ME)

    assert not leftovers.sweep(JOB, ME)
    assert node.left() == before


def test_a_dead_process_and_one_of_others_keep_nothing(node: Node) -> None:
    node.fill()
    node.process(ME, state="Z (zombie)")
    node.process(OTHER)
    (node.proc / "999").mkdir()  # ended meanwhile

    assert leftovers.sweep(JOB, ME)
    assert node.left() == []


@pytest.mark.parametrize(
    ("noted", "steps", "goes"),
    [
        ({}, [], True),
        ({18: ME}, [18], False),  # another job of the user
        ({18: ME}, [], False),  # its prolog runs
        ({18: OTHER}, [18], True),
        ({18: OTHER}, [18, 19], False),  # a job that began before the prolog was installed
        ({}, [JOB], True),  # the last step of the ended job
        ({JOB: ME}, [], False),  # the job was requeued to this node
    ],
)
def test_a_job_of_the_user_keeps_the_files(node: Node, noted: dict[int, int], steps: list[int], goes: bool) -> None:
    node.fill()
    for job, uid in noted.items():
        leftovers.begin(job, uid)
    for job in steps:
        node.step(job)
    node.process(OTHER + 1, title="/usr/sbin/slurmstepd\0infinity", exe="/usr/sbin/slurmstepd")

    assert leftovers.sweep(JOB, ME) is goes
    assert (node.left() == []) is goes


def test_a_user_cannot_show_a_job_and_an_upgrade_hides_none(node: Node) -> None:
    node.fill()
    node.step(99, exe="/usr/bin/sudo")
    assert leftovers.sweep(JOB, ME)

    node.fill()
    node.step(99, exe="/usr/sbin/slurmstepd (deleted)")
    assert not leftovers.sweep(JOB, ME)


@needs_root
def test_a_program_of_a_user_with_the_name_of_slurms_shows_no_job(node: Node) -> None:
    node.fill()
    node.step(99)
    os.chown(node.programs / "slurmstepd", OTHER, OTHER)

    assert leftovers.sweep(JOB, ME)
    assert node.left() == []


def test_an_old_note_without_a_step_keeps_nothing(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.fill()
    leftovers.begin(18, ME)
    monkeypatch.setattr(leftovers, "STALE", -1)

    assert leftovers.sweep(JOB, ME)
    node.fill()
    node.step(18)
    assert not leftovers.sweep(JOB, ME)


def test_another_mount_is_not_entered(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.fill()
    inode = (node.tmp / "a/b").stat().st_ino
    real = leftovers._mount
    monkeypatch.setattr(
        leftovers, "_mount", lambda handle: "mnt_id: 9" if os.fstat(handle).st_ino == inode else real(handle)
    )

    assert leftovers.sweep(JOB, ME)
    assert node.left() == ["tmp/a", "tmp/a/b", "tmp/a/b/c", "tmp/a/b/file"]


def test_a_directory_that_becomes_a_link_is_not_followed(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user puts a link in its place after it was looked at. The link goes, and nothing that it names."""
    for name in ("first", "swapped", "third"):
        (node.tmp / name).mkdir()
    real = os.open

    def swap(path: t.Any, *how: int, **where: int) -> int:
        if path == "swapped" and not (node.tmp / path).is_symlink():
            (node.tmp / path).rmdir()
            (node.tmp / path).symlink_to(node.outside)
        return real(path, *how, **where)

    monkeypatch.setattr(os, "open", swap)

    leftovers.sweep(JOB, ME)

    assert (node.outside / "kept").exists()
    assert node.left() == []


def test_a_directory_that_becomes_that_of_another_user_is_not_emptied(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node.tmp / "theirs").mkdir()
    (node.tmp / "theirs/file").touch()
    other = list((node.tmp / "theirs").stat())
    other[4] = ME + 1
    # What is opened is not what the name was before.
    monkeypatch.setattr(os, "fstat", lambda _handle: os.stat_result(other))

    leftovers.sweep(JOB, ME)

    assert node.left() == ["tmp/theirs", "tmp/theirs/file"]


def test_a_tree_of_any_depth_goes(node: Node) -> None:
    handle = os.open(node.tmp, os.O_RDONLY)
    for _level in range(5 * leftovers.DEPTH):
        os.mkdir("d", dir_fd=handle)
        deeper = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = deeper
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle))
    os.close(handle)

    assert leftovers.sweep(JOB, ME)
    assert list(node.tmp.iterdir()) == []


def test_a_directory_that_cannot_be_moved_ends_the_removal(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may have mounted /tmp read-only again."""
    (node.tmp / "/".join(["d"] * (leftovers.DEPTH + 2))).mkdir(parents=True)
    tries = iter(range(100))

    def refuse(*_names: str, **_where: int) -> None:
        next(tries)
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "rename", refuse)
    node.notes.mkdir()
    leftovers.Sweep(ME, JOB).place(str(node.tmp))
    assert next(tries) < 100


def test_a_session_that_begins_stops_the_removal(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(9):
        (node.tmp / str(number)).touch()
    looks = iter([False, False, True])
    monkeypatch.setattr(leftovers, "LOOK", 0)
    monkeypatch.setattr(leftovers, "has_process", lambda _uid: next(looks))

    assert not leftovers.sweep(JOB, ME)
    assert len(node.left()) == 8


def test_a_prolog_waits_for_a_removal_that_sees_its_note(node: Node) -> None:
    handle = leftovers.lock(ME)
    fcntl.flock(handle, fcntl.LOCK_EX)
    prolog = threading.Thread(target=leftovers.begin, args=(18, ME), daemon=True)
    prolog.start()
    wait_until("the note of the job", (node.notes / "18").exists)

    assert prolog.is_alive()
    assert leftovers.has_job(ME, JOB)
    os.close(handle)
    wait_until("the end of the prolog", lambda: not prolog.is_alive())


def test_a_removal_has_the_lock_before_the_first_file_goes(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.fill()
    before, there = node.left(), []
    monkeypatch.setattr(fcntl, "flock", lambda _handle, _how: there.append(node.left()))

    leftovers.sweep(JOB, ME)

    assert there == [before]


def test_a_prolog_does_not_wait_for_the_removal_of_another_user(node: Node) -> None:
    handle = leftovers.lock(ME)
    fcntl.flock(handle, fcntl.LOCK_EX)

    leftovers.begin(18, OTHER)

    os.close(handle)


def test_the_epilog_forgets_the_job_and_removes(node: Node) -> None:
    node.fill()
    leftovers.begin(JOB, ME)

    leftovers.end(JOB, ME)

    wait_until("an empty node", lambda: not node.left(), node.left)
    assert not (node.notes / str(JOB)).exists()


def test_the_epilog_removes_when_the_session_has_ended_and_does_not_wait_for_that(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    node.fill()
    node.process(ME)
    monkeypatch.setattr(leftovers, "EPILOG", HANGS)
    monkeypatch.setattr(leftovers, "SESSION_ENDS", HANGS)
    monkeypatch.setattr(leftovers, "PAUSE", 0.05)

    with within("the epilog of a user who is logged in"):
        leftovers.end(JOB, ME)
    assert node.left()
    (node.proc / "101/status").unlink()

    wait_until("an empty node", lambda: not node.left(), node.left)


def test_the_epilog_does_not_wait_for_a_file_system_that_hangs(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "EPILOG", 0.1)
    monkeypatch.setattr(leftovers, "ALL", 1)
    monkeypatch.setattr(leftovers, "sweep", lambda _job, _uid: threading.Event().wait(HANGS))

    with within("the epilog beside a file system that hangs"):
        leftovers.end(JOB, ME)


@pytest.mark.parametrize("uid", [0, 999])
def test_files_of_root_and_daemons_stay(node: Node, monkeypatch: pytest.MonkeyPatch, uid: int) -> None:
    monkeypatch.setattr(leftovers, "FIRST_USER", 1000)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a removal began"))

    leftovers.end(JOB, uid)


@pytest.mark.parametrize("environment", [{}, {"SLURM_JOB_ID": "x", "SLURM_JOB_UID": "1"}])
@pytest.mark.parametrize("name", ["prolog.d", "epilog.d"])
def test_no_fault_drains_the_node(
    node: Node, monkeypatch: pytest.MonkeyPatch, capsys: t.Any, environment: dict[str, str], name: str
) -> None:
    for key in ("SLURM_JOB_ID", "SLURM_JOB_UID"):
        monkeypatch.delenv(key, raising=False)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.setattr("sys.argv", [f"/etc/slurm/{name}/05-leftovers"])

    leftovers.main()

    assert "gpucluster-leftovers: " in capsys.readouterr().err


def test_what_users_leave_stays_where_they_log_in(tmp_path: Path) -> None:
    logins = {"gpucluster_slurm_logins": ["both"]}
    cases: dict[str, dict[str, t.Any]] = {
        "gpu1": logins,
        "both": logins,
        "alone": {},
        "head": {"slurm_jobs_on_controllers": True},
    }

    found = role_values(tmp_path, "slurm", "__slurm_remove_leftovers", cases)
    assert found == {"gpu1": True, "both": False, "alone": True, "head": False}
