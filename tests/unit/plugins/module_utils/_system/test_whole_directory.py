# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A directory that gets its name is on its disk before. The order of the calls is all that a test can see of it."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._backup import directory, store
from ansible_collections.hpcai.gpucluster.plugins.module_utils._bundle import archive
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import bounded_run, whole_directory, whole_file
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what happens: the names of directories that are written to the disk, and of those that are renamed."""
    found: list[str] = []

    def runner(_seconds: float) -> t.Callable[..., tuple[int, str, str]]:
        def run(args: t.Sequence[str]) -> tuple[int, str, str]:
            found.append(f"{args[0]} {Path(args[-1]).name}")
            return bounded_run.feeding_runner(PATIENCE)(args)

        return run

    def noted(own: t.Callable[[Path, Path], Path]) -> t.Callable[[Path, Path], Path]:
        def rename(old: Path, new: Path) -> Path:
            found.append(f"rename {old.name}")
            return own(old, new)

        return rename

    monkeypatch.setattr(whole_directory, "feeding_runner", runner)
    monkeypatch.setattr(whole_file, "sync_name", lambda path: found.append(f"name {Path(path).name}"))
    for name in ("rename", "replace"):
        monkeypatch.setattr(Path, name, noted(getattr(Path, name)))
    return found


def test_files_come_before_the_name(tmp_path: Path, steps: list[str]) -> None:
    (tmp_path / "new").mkdir()

    whole_directory.keep(tmp_path / "new", tmp_path / "final")

    assert steps == ["sync new", "rename new", "name final"]


def test_a_disk_that_fails_keeps_the_name_away(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be written to its disk: sync: "):
        whole_directory.keep(tmp_path / "missing", tmp_path / "final")


def test_a_bundle_is_on_the_disk(tmp_path: Path, steps: list[str]) -> None:
    """The file that shows that it is complete would come back without the others."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a").write_text("a")
    archive.pack(tmp_path / "in", tmp_path / "bundle.tar", {}, {})
    del steps[:]

    final = archive.unpack(tmp_path / "bundle.tar", tmp_path / "out").path.name

    assert steps == [f"sync {final}.partial", f"rename {final}.partial", f"name {final}"]


def test_a_restored_state_is_on_the_disk_before_the_former_one_goes(tmp_path: Path, steps: list[str]) -> None:
    (tmp_path / "state").mkdir()
    host = Host(bounded_run.feeding_runner(PATIENCE))
    directory.save(str(tmp_path / "state"), ["."], tmp_path / "state.tar.gz", host)

    directory.restore(str(tmp_path / "state"), tmp_path / "state.tar.gz", host)

    assert steps == ["sync state.restoring", "rename state", "rename state.restoring", "name state"]


def test_a_backup_is_on_the_disk_before_older_ones_go(tmp_path: Path, steps: list[str]) -> None:
    backups = store.Store(str(tmp_path / "backups"))
    partial = backups.begin(0)
    (partial / "state.tar.gz").write_text("state")

    name = backups.finish(partial)

    assert steps == [f"sync {partial.name}", f"rename {partial.name}", f"name {name}"]
