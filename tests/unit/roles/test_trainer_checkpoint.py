# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which checkpoint is complete, whole, and kept. What PyTorch writes is made up here."""

from __future__ import annotations

import os
import types
import typing as t
from pathlib import Path

import pytest


class Model:
    """A model without weights, which is its own optimizer."""

    def parameters(self) -> list[t.Any]:
        return []


@pytest.fixture
def checkpoints(reader: t.Any, tmp_path: Path) -> t.Any:
    """Return the checkpoints of a run that begins."""
    return reader.Checkpoints(tmp_path / "checkpoints", 0)


def save(checkpoints: t.Any, *steps: int) -> None:
    for step in steps:
        checkpoints.save(step, Model(), Model())


def names(checkpoints: t.Any) -> list[str]:
    return sorted(path.name for path in checkpoints.directory.iterdir())


def test_the_latest_two_are_kept(checkpoints: t.Any) -> None:
    assert checkpoints.latest() is None
    save(checkpoints, 10, 20, 30)

    assert names(checkpoints) == ["step-00000020", "step-00000030"]
    assert checkpoints.latest() == (30, [])
    assert checkpoints.save(40, Model(), Model()) == sum(
        path.stat().st_size for path in (checkpoints.directory / "step-00000040").iterdir()
    )


@pytest.mark.parametrize(
    ("harm", "fault"),
    [
        (lambda path: (path / "__0_0.distcp").unlink(), "__0_0.distcp has 0 bytes of 36"),
        (lambda path: os.truncate(path / "__0_0.distcp", 18), "__0_0.distcp has 18 bytes of 36"),
        (lambda path: (path / ".metadata").unlink(), ".metadata is missing"),
        (lambda path: os.truncate(path / ".metadata", 7), ".metadata cannot be read: UnpicklingError: "),
    ],
    ids=["missing", "half", "no-metadata", "half-metadata"],
)
def test_of_a_damaged_checkpoint_the_one_before_is_used(
    reader: t.Any, checkpoints: t.Any, harm: t.Callable[[Path], t.Any], fault: str
) -> None:
    """The one that follows is kept, although the damaged one has a later step."""
    save(checkpoints, 10, 20, 30)
    harm(checkpoints.directory / "step-00000030")
    found = checkpoints.latest()

    assert found.step == 20
    assert found.passed[0].startswith(f"step-00000030 is damaged: {fault}")
    save(checkpoints, 25)
    assert names(checkpoints) == ["step-00000020", "step-00000025"]
    for name in names(checkpoints):
        harm(checkpoints.directory / name)
    with pytest.raises(reader.CheckpointError, match=r"no checkpoint in .* is whole: step-00000025 .*; step-00000020 "):
        checkpoints.latest()


def test_a_step_that_is_done_again_replaces_its_checkpoint(checkpoints: t.Any) -> None:
    save(checkpoints, 10, 20)
    (checkpoints.directory / "step-00000020/__0_0.distcp").unlink()
    save(checkpoints, 20)

    assert checkpoints.latest() == (20, [])


@pytest.mark.parametrize("fault", ["raises", "says-nothing", "no-metadata"])
def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(
    reader: t.Any, checkpoints: t.Any, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    write = reader.dcp.save

    def broken(state: t.Any, checkpoint_id: str) -> None:
        write(state, checkpoint_id)
        (Path(checkpoint_id) / (".metadata" if fault == "no-metadata" else "__0_0.distcp")).unlink()
        if fault == "raises":
            raise reader.dcp.CheckpointException({0: (OSError(28, "No space left on device"), None)})

    save(checkpoints, 10)
    monkeypatch.setattr(reader.dcp, "save", broken)
    message = {
        "raises": r"No space left on device; [0-9]+ bytes were free in ",
        "says-nothing": "__0_0.distcp has 0 bytes of 36",
        "no-metadata": ".metadata is missing",
    }
    with pytest.raises(reader.CheckpointError, match=message[fault]):
        save(checkpoints, 20)

    assert checkpoints.latest() == (10, [])
    reader.Checkpoints(checkpoints.directory, 0)
    assert names(checkpoints) == ["step-00000010"]


def test_without_room_nothing_is_written(reader: t.Any, checkpoints: t.Any, monkeypatch: pytest.MonkeyPatch) -> None:
    save(checkpoints, 10)
    monkeypatch.setattr(reader.shutil, "disk_usage", lambda _path: types.SimpleNamespace(free=-1))
    with pytest.raises(
        reader.CheckpointError, match=r"^No space left on device: step 20 needs 0 bytes, -1 are free in "
    ):
        save(checkpoints, 20)

    assert names(checkpoints) == ["step-00000010"]


def test_a_rank_that_comes_back_does_not_write_into_the_checkpoint_of_another_start(
    reader: t.Any, checkpoints: t.Any
) -> None:
    """Its node was frozen, and the training has gone on without it. What its start left is removed."""
    old = reader.begin(checkpoints.directory, 20, 0)
    again = reader.Checkpoints(checkpoints.directory, 0)
    save(again, 20)

    assert not old.exists()
    with pytest.raises(FileNotFoundError):
        reader.publish(checkpoints.directory, old, 20)
    assert again.latest() == (20, [])
