# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The trainer runs nothing that another user has made: checkpoints, and caches of the compiler."""

from __future__ import annotations

import os
import pickle
import stat
import tempfile
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.roles.another_user import ATTACKER, give, needs_root
from ansible_collections.hpcai.gpucluster.tests.unit.roles.test_trainer import TRUST, load

STEP = "step-00000007"


class Program:
    """A pickle that makes a file where it is read."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def __reduce__(self) -> tuple[t.Any, tuple[str, int]]:
        return os.open, (self.path, os.O_CREAT)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Return the checkpoints of an earlier attempt, one of which has a program in it."""
    directory = tmp_path / "run/checkpoints"
    (directory / STEP).mkdir(parents=True)
    (directory / STEP / ".metadata").write_bytes(pickle.dumps(Program(tmp_path / "ran")))
    (directory / STEP / "__0_0.distcp").write_bytes(b"")
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(path.stat().st_mode & ~0o022)
    return directory


def resume(reader: t.Any, directory: Path) -> int | None:
    checkpoints = reader.Checkpoints(directory, 0)
    found = checkpoints.latest()
    if found is None:
        return None
    checkpoints.load(found.step, None, None)
    return int(found.step)


def test_a_run_goes_on_from_its_own_checkpoint(reader: t.Any, kept: Path, tmp_path: Path) -> None:
    assert resume(reader, kept) == 7
    assert (tmp_path / "ran").exists()


def test_a_run_without_checkpoints_begins(reader: t.Any, tmp_path: Path) -> None:
    assert resume(reader, tmp_path / "new/checkpoints") is None


@needs_root
@pytest.mark.parametrize("name", ["..", ".", STEP, f"{STEP}/.metadata", f"{STEP}/__0_0.distcp"])
@pytest.mark.parametrize("fault", ["owner", "mode", "link"])
def test_a_checkpoint_that_another_user_can_change_is_not_read(
    reader: t.Any, kept: Path, tmp_path: Path, name: str, fault: str
) -> None:
    path = Path(os.path.normpath(kept / name))
    if fault == "owner":
        give(path, ATTACKER, stat.S_IMODE(path.stat().st_mode))
    elif fault == "mode":
        give(path, 0, 0o777)
        os.chown(path, 0, ATTACKER)
    else:
        real = path.rename(tmp_path / "elsewhere")
        path.symlink_to(real)
        os.chown(path, ATTACKER, ATTACKER, follow_symlinks=False)

    with pytest.raises(
        TRUST.TrustError, match=f"^{path} (belongs to|can be written by everybody|is a link|is no regular)"
    ):
        resume(reader, kept)
    assert not (tmp_path / "ran").exists()


@needs_root
def test_all_ranks_get_the_refusal(reader: t.Any, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[t.Any] = []
    monkeypatch.setattr(
        reader.dist, "broadcast_object_list", lambda found, src: sent.append(pickle.loads(pickle.dumps(found)))
    )
    give(kept, ATTACKER, 0o755)
    with pytest.raises(TRUST.TrustError):
        reader.Checkpoints(kept, 0)

    assert isinstance(sent[-1][0][1], TRUST.TrustError)


def test_what_a_run_writes_can_be_read_again(reader: t.Any, tmp_path: Path) -> None:
    """Many distributions let the group of a user write, by the umask of a login."""
    os.umask(0o002)
    reader.Checkpoints(tmp_path / "run/checkpoints", 0)

    assert stat.S_IMODE((tmp_path / "run/checkpoints").stat().st_mode) & 0o022 == 0


@pytest.mark.parametrize("found", ["nothing", "mine", pytest.param("theirs", marks=needs_root), "open", "link"])
def test_no_compiled_program_of_another_user_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """PyTorch keeps programs and pickles in a directory of /tmp whose name everybody knows."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = tmp_path / f"torchinductor_{TRUST.user_name(os.getuid())}"
    if found == "link":
        (tmp_path / "theirs").mkdir()
        path.symlink_to(tmp_path / "theirs")
    elif found != "nothing":
        path.mkdir()
        give(path, ATTACKER if found == "theirs" else os.getuid(), 0o777 if found == "open" else 0o700)
    cache = load("place").own_cache()

    assert (cache == str(path)) is (found in ("nothing", "mine"))
    assert stat.S_IMODE(os.lstat(cache).st_mode) == 0o700
    assert os.lstat(cache).st_uid == os.getuid()


@needs_root
@pytest.mark.parametrize(
    ("name", "members", "allowed"),
    [
        ("alice", [], True),
        ("alice", ["alice"], True),
        ("alice", ["bob"], False),
        ("alice", ["", "bob"], False),
        ("research", [], False),
    ],
)
def test_the_own_group_of_a_user_may_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], allowed: bool
) -> None:
    """With the umask 002 of many distributions, it can."""
    run = tmp_path / "run"
    run.mkdir()
    os.chown(run, -1, 4711)
    run.chmod(0o775)
    user = types.SimpleNamespace(pw_gid=4711, pw_name="alice")
    # After an empty name: the group is the first one of the user.
    first = members[1:] if members[:1] == [""] else []
    everybody = [user, *(types.SimpleNamespace(pw_gid=4711, pw_name=one) for one in first)]
    group = types.SimpleNamespace(gr_gid=4711, gr_name=name, gr_mem=[] if first else members)
    monkeypatch.setattr(TRUST, "pwd", types.SimpleNamespace(getpwuid=lambda _uid: user, getpwall=lambda: everybody))
    monkeypatch.setattr(TRUST, "grp", types.SimpleNamespace(getgrgid=lambda _gid: group))

    if allowed:
        TRUST.check(str(run), {os.getuid()})
        return
    with pytest.raises(TRUST.TrustError, match=f"run can be written by the group {name}"):
        TRUST.check(str(run), {os.getuid()})


def test_in_a_container_of_a_user_the_directories_above_belong_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers, overflow = tmp_path / "uid_map", tmp_path / "overflowuid"
    monkeypatch.setattr(TRUST, "_USER_NAMESPACE", str(numbers))
    monkeypatch.setattr(TRUST, "_OVERFLOW", str(overflow))
    overflow.write_text("65534\n")
    numbers.write_text("      2001       2001          1\n")
    assert TRUST.trusted_above() == {0, os.getuid(), 65534}

    numbers.write_text("         0          0 4294967295\n")
    assert TRUST.trusted_above() == TRUST.trusted() == {0, os.getuid()}


def test_links_of_root_above_lead_to_directories_that_are_judged(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make such a link")
    (tmp_path / "disk/run").mkdir(parents=True)
    (tmp_path / "shared").symlink_to(tmp_path / "disk")
    TRUST.check(str(tmp_path / "shared/run"), {0})
    (tmp_path / "disk").chmod(0o777)

    with pytest.raises(TRUST.TrustError, match="disk can be written by everybody"):
        TRUST.check(str(tmp_path / "shared/run"), {0})
