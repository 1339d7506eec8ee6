# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The time that is left follows the last run, at the pace of this one; a damaged record is none."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import last_run
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress.last_run import LastRun, Step

if t.TYPE_CHECKING:
    from pathlib import Path

STEPS = [Step("One", 10.0), Step("Two", 20.0), Step("One", 30.0), Step("Four", 40.0)]


def test_the_rest_of_the_last_run_is_left() -> None:
    run = LastRun(STEPS)
    assert run.left(0, 0) is None

    run.start("One")
    assert run.left(0, 4) == (96, 3, 10)
    run.start("One")
    assert run.left(30, 5) == (65, 1, 30)


def test_a_machine_that_is_faster_now_needs_less() -> None:
    run = LastRun(STEPS)
    run.start("Two")

    assert run.left(5, 4) == (6 + 35, 2, 10)
    # Something else took the time of the first task.
    left = run.left(1000, 0)
    assert left
    assert left.present == 20 * last_run.SLOWEST


def test_a_task_that_the_last_run_did_not_have_takes_what_it_takes() -> None:
    run = LastRun(STEPS)
    run.start("Two")
    run.start("New")

    assert run.left(10, 99) == (70, 2, 99)


def test_a_run_is_found_again_by_its_playbook_and_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = last_run.path("a/site.yml", ["x", None])
    last_run.write(file, STEPS)

    assert last_run.read(file).steps == STEPS
    assert file != last_run.path("a/site.yml", ["x", True])
    assert file != last_run.path("b/site.yml", ["x", None])
    assert oct(file.parent.stat().st_mode)[-3:] == "700"
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def test_only_some_files_are_kept(tmp_path: Path) -> None:
    for number in range(last_run.MOST_FILES + 5):
        last_run.write(tmp_path / f"{number}.json", STEPS)

    assert len(list(tmp_path.iterdir())) == last_run.MOST_FILES


@pytest.mark.parametrize(
    "damaged", ["", "[", "{}x", "[[1]]", '[["a", "x"]]', "7", '[["a", -1]]', '[["a", NaN]]', "[" * 9999]
)
def test_a_damaged_file_has_no_run(tmp_path: Path, damaged: str) -> None:
    (tmp_path / "x.json").write_text(damaged, encoding="utf-8")

    assert last_run.read(tmp_path / "x.json").steps == []
    assert last_run.read(tmp_path / "missing.json").steps == []


def test_a_cache_that_cannot_be_written_disturbs_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    last_run.write(tmp_path / "file/x.json", STEPS)
