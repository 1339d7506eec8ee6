# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of checkpoints: which one is complete, whole, and kept. What PyTorch writes is made up here."""

from __future__ import annotations

import json
import os
import shutil
import stat
import types
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.roles.another_user import ATTACKER, give, needs_root
from ansible_collections.hpcai.gpucluster.tests.unit.roles.test_trainer import TRUST, load

STORE = load("store")


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """Return the directory of checkpoints, without any."""
    directory = tmp_path / "checkpoints"
    STORE.tidy(directory)
    return directory


def written(directory: Path, step: int, **files: bytes) -> Path:
    """Return a checkpoint that is complete but for its name."""
    part = t.cast("Path", STORE.begin(directory, step))
    for name, content in {".metadata": b"all", "__0_0.distcp": b"zero" * 9, **files}.items():
        (part / name).write_bytes(content)
    return part


def publish(directory: Path, *steps: int) -> None:
    for step in steps:
        STORE.publish(directory, written(directory, step), step)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_the_latest_two_are_kept(shared: Path) -> None:
    publish(shared, 10, 20, 30)

    assert names(shared) == ["latest", "step-00000020", "step-00000030"]
    assert STORE.latest(shared) == (30, [])


def test_its_bytes_are_those_of_its_files(shared: Path) -> None:
    assert STORE.publish(shared, written(shared, 10), 10, [{"__0_0.distcp": 36}]) == 39
    assert json.loads((shared / "step-00000010/sizes.json").read_text()) == {
        "files": {".metadata": 3, "__0_0.distcp": 36}
    }


def test_a_run_without_checkpoints_begins(shared: Path) -> None:
    assert STORE.latest(shared) is None


@pytest.mark.parametrize(
    ("harm", "fault"),
    [
        (lambda path: (path / "__0_0.distcp").unlink(), "__0_0.distcp is missing"),
        (lambda path: os.truncate(path / "__0_0.distcp", 18), "__0_0.distcp has 18 bytes of 36"),
        (lambda path: (path / ".metadata").unlink(), ".metadata is missing"),
        (lambda path: os.truncate(path / "sizes.json", 7), "sizes.json cannot be read"),
        (lambda path: (path / "sizes.json").write_text('{"files": 1}'), "sizes.json cannot be read"),
        (shutil.rmtree, "it is missing"),
    ],
    ids=["missing", "half", "no-metadata", "half-sizes", "no-sizes", "gone"],
)
def test_of_a_damaged_checkpoint_the_one_before_is_used(
    shared: Path, harm: t.Callable[[Path], t.Any], fault: str
) -> None:
    publish(shared, 10, 20)
    harm(shared / "step-00000020")

    assert STORE.latest(shared) == (10, [f"step-00000020 is damaged: {fault}"])


def test_a_run_whose_checkpoints_are_all_damaged_does_not_begin_again(shared: Path) -> None:
    publish(shared, 10, 20)
    for path in shared.glob("step-*/__0_0.distcp"):
        path.unlink()

    with pytest.raises(STORE.CheckpointError, match=r"no checkpoint in .* is whole: step-00000020 .*; step-00000010 "):
        STORE.latest(shared)


def test_a_checkpoint_of_an_older_release_has_no_sizes(shared: Path) -> None:
    publish(shared, 10)
    (shared / "step-00000010/sizes.json").unlink()

    assert STORE.latest(shared) == (10, [])


def test_after_a_damaged_one_the_next_is_kept(shared: Path) -> None:
    """The damaged one has a later step, and must not count as the newer of two."""
    publish(shared, 10, 20, 30)
    (shared / "step-00000030/.metadata").unlink()
    publish(shared, 25)

    assert names(shared) == ["latest", "step-00000020", "step-00000025"]
    assert STORE.latest(shared) == (25, [])


def test_a_step_that_is_done_again_replaces_its_checkpoint(shared: Path) -> None:
    publish(shared, 10, 20)
    (shared / "step-00000020/__0_0.distcp").unlink()
    publish(shared, 20)

    assert STORE.latest(shared) == (20, [])


@pytest.mark.parametrize(
    ("reports", "fault"),
    [
        ([{"__0_0.distcp": 36}, {"__1_0.distcp": 7}], "__1_0.distcp has 0 bytes of 7"),
        ([{"__0_0.distcp": 37}], "__0_0.distcp has 36 bytes of 37"),
    ],
)
def test_without_the_files_of_a_rank_nothing_is_published(
    shared: Path, reports: list[dict[str, int]], fault: str
) -> None:
    publish(shared, 10)
    with pytest.raises(STORE.CheckpointError, match=f"^{fault}$"):
        STORE.publish(shared, written(shared, 20), 20, reports)

    assert STORE.latest(shared) == (10, [])


def test_without_metadata_nothing_is_published(shared: Path) -> None:
    part = written(shared, 10)
    (part / ".metadata").unlink()
    with pytest.raises(STORE.CheckpointError, match="metadata is missing"):
        STORE.publish(shared, part, 10)


def test_what_was_not_complete_is_removed_at_the_next_start(shared: Path) -> None:
    publish(shared, 10)
    written(shared, 20)
    STORE.tidy(shared)

    assert names(shared) == ["latest", "step-00000010"]


def test_a_rank_that_comes_back_does_not_write_into_the_checkpoint_of_another_start(
    shared: Path, tmp_path: Path
) -> None:
    """Its node was frozen, and the training has gone on without it."""
    source = tmp_path / "local"
    source.mkdir()
    (source / "__1_0.distcp").write_bytes(b"old")
    part = STORE.begin(shared, 20)
    STORE.tidy(shared)
    new = written(shared, 20)

    with pytest.raises(FileNotFoundError):
        STORE.copy(source, part)
    with pytest.raises(FileNotFoundError):
        STORE.publish(shared, part, 20)
    STORE.publish(shared, new, 20)
    with pytest.raises(FileNotFoundError):
        STORE.publish(shared, part, 20)
    assert STORE.latest(shared) == (20, [])


def test_a_copy_says_its_sizes_and_replaces_nothing(shared: Path, tmp_path: Path) -> None:
    source = tmp_path / "local"
    source.mkdir()
    (source / "__1_0.distcp").write_bytes(b"seven b")
    part = STORE.begin(shared, 20)

    assert STORE.copy(source, part) == {"__1_0.distcp": 7}
    assert (part / "__1_0.distcp").read_bytes() == b"seven b"
    with pytest.raises(FileExistsError):
        STORE.copy(source, part)


def test_each_rank_has_an_empty_directory_of_its_own_on_a_local_drive(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRATCH", str(tmp_path / "drive"))
    first = STORE.local(Path("$SCRATCH"), shared, 0)
    (first / "step-00000010").mkdir()
    (first / "left").symlink_to(tmp_path)
    (first / "file").touch()
    other = STORE.local(Path("$SCRATCH"), tmp_path / "another run", 0)

    assert stat.S_IMODE(first.stat().st_mode) == 0o700
    assert len({first, other, STORE.local(Path("$SCRATCH"), shared, 1)}) == 3
    assert STORE.local(Path("$SCRATCH"), shared, 0) == first
    assert not list(first.iterdir())


def test_a_variable_that_the_job_has_not_is_named(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SCRATCH", raising=False)
    with pytest.raises(STORE.CheckpointError, match=r"^\$SCRATCH: the job has no such variable"):
        STORE.local(Path("$SCRATCH"), shared, 0)


@needs_root
@pytest.mark.parametrize("fault", ["owner", "mode", "link"])
def test_a_directory_of_another_user_on_a_local_drive_is_refused(shared: Path, tmp_path: Path, fault: str) -> None:
    drive = tmp_path / "drive"
    own = STORE.local(drive, shared, 0)
    drive.chmod(0o1777)
    if fault == "owner":
        give(own.parent, ATTACKER, 0o755)
    elif fault == "mode":
        own.chmod(0o777)
    else:
        own.parent.rename(tmp_path / "elsewhere")
        own.parent.symlink_to(tmp_path / "elsewhere")
        os.chown(own.parent, ATTACKER, ATTACKER, follow_symlinks=False)

    with pytest.raises(TRUST.TrustError):
        STORE.local(drive, shared, 0)


def test_what_does_not_fit_is_refused(shared: Path) -> None:
    STORE.room(shared, 1, "step 7")
    with pytest.raises(STORE.CheckpointError, match=r"^No space left on device: step 7 needs "):
        STORE.room(shared, 1 << 60, "step 7")


class Model:
    """A model without weights, which is its own optimizer."""

    def parameters(self) -> list[t.Any]:
        return []


@pytest.mark.parametrize("wait", [True, False], ids=["wait", "go-on"])
@pytest.mark.parametrize("drive", [True, False], ids=["local", "shared"])
def test_a_checkpoint_is_published_with_what_it_took(reader: t.Any, tmp_path: Path, drive: bool, wait: bool) -> None:
    shared = tmp_path / "checkpoints"
    checkpoints = reader.Checkpoints(shared, 0, None, tmp_path / "drive" if drive else None, wait)
    for step in (10, 20, 30):
        checkpoints.save(step, Model(), Model(), {})
        found = checkpoints.result()

        assert found[:2] == (step, 10)
        assert not found.fault
    assert checkpoints.result() is None
    assert names(shared) == ["latest", "step-00000020", "step-00000030"]
    if drive:
        assert names(checkpoints.local) == ["step-00000020", "step-00000030"]


@pytest.mark.parametrize("drive", [True, False], ids=["local", "shared"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(
    reader: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: bool
) -> None:
    shared = tmp_path / "checkpoints"
    checkpoints = reader.Checkpoints(shared, 0, None, tmp_path / "drive" if drive else None)
    checkpoints.save(10, Model(), Model(), {})
    checkpoints.join()

    def save(_state: t.Any, checkpoint_id: str, **_more: t.Any) -> None:
        Path(checkpoint_id).mkdir(exist_ok=True)
        (Path(checkpoint_id) / "__0_0.distcp").write_bytes(b"12")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(reader.dcp, "save", save)
    assert checkpoints.ready()
    assert checkpoints.result().step == 10
    checkpoints.save(20, Model(), Model(), {})

    assert checkpoints.result().fault == "OSError: [Errno 28] No space left on device"
    assert checkpoints.latest().step == 10
    assert names(shared) == ["latest", "step-00000010"]
    if drive:
        assert names(checkpoints.local) == ["step-00000010"]


@pytest.mark.parametrize("full", ["checkpoints", "drive"])
def test_without_room_nothing_is_written(
    reader: t.Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str
) -> None:
    checkpoints = reader.Checkpoints(tmp_path / "checkpoints", 0, None, tmp_path / "drive")
    monkeypatch.setattr(
        reader.store.shutil,
        "disk_usage",
        lambda path: types.SimpleNamespace(free=-1 if f"{tmp_path / full}" in str(path) else 9),
    )
    checkpoints.save(10, Model(), Model(), {})

    assert checkpoints.result().fault.startswith("No space left on device: step 10 needs 0 bytes")
    assert names(tmp_path / "checkpoints") == []


def test_a_pytorch_that_cannot_write_beside_the_training_waits(reader: t.Any, tmp_path: Path) -> None:
    del reader.dcp.async_save

    assert not reader.can_go_on()
    checkpoints = reader.Checkpoints(tmp_path / "checkpoints", 0, None)
    checkpoints.save(10, Model(), Model(), {})
    assert checkpoints.ready()
