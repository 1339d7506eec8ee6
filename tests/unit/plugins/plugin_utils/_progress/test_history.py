# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file of earlier runs: bounded, complete with two runs at once, and never a reason to fail."""

from __future__ import annotations

import json
import multiprocessing
import stat
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import history
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

ROOT = Path(__file__).parents[5]


def run(seconds: float, changed: bool = False, tasks: int = 3, options: str = "") -> history.Run:
    """Return a run of equal tasks."""
    return history.Run([history.Step("Play", f"Task {number}", seconds, changed) for number in range(tasks)], options)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "progress" / "site.json"

    assert history.add(path, run(1.25, options="a"))
    assert history.add(path, run(2.5, changed=True, options="b"))
    found = history.read(path)
    assert [one.options for one in found] == ["b", "a"]
    assert found[0].steps == run(2.5, changed=True).steps
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_file_stays_small(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    history.add(path, run(9, changed=True, options="install"))
    for number in range(20):
        assert history.add(path, run(number, tasks=5))

    found = history.read(path)
    assert [one.steps[0].seconds for one in found] == [19, 18, 17, 16, 9]
    assert not history.add(path, run(1, tasks=history.MOST_STEPS + 1))
    assert not history.add(path, run(1, tasks=0))
    assert history.read(path) == found


def test_long_names_are_shortened(tmp_path: Path) -> None:
    path = tmp_path / "site.json"
    history.add(path, history.Run([history.Step("p" * 9999, "t" * 9999, 1)]))

    assert path.stat().st_size < 500


def test_there_are_not_more_files_than_the_bound(tmp_path: Path) -> None:
    for number in range(history.MOST_FILES + 5):
        history.add(tmp_path / f"{number}.json", run(1))

    assert len(list(tmp_path.glob("*.json"))) == history.MOST_FILES
    assert not (tmp_path / "0.json").exists()


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"version": 1}',
        '{"version": 2, "runs": []}',
        '{"version": 1, "runs": [{"options": "", "kind": "", "plays": [["a", [["b", "c", 1]]]]}]}',
        '{"version": 1, "runs": [{"options": "", "kind": "", "plays": [["a", [["b", 1e999, 1]]]]}]}',
        '{"version": 1, "runs": [{"options": "", "kind": "", "plays": [["a", [["b", NaN, 1]]]]}]}',
        "[" * 100_000,
    ],
)
def test_a_damaged_file_is_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "site.json"
    path.write_text(content, encoding="utf-8")

    assert history.read(path) == []
    assert history.add(path, run(1))
    assert len(history.read(path)) == 1


def test_a_directory_that_cannot_be_written_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")

    assert not history.add(tmp_path / "file" / "site.json", run(1))


def _add(path: str, number: int) -> None:
    for __ in range(5):
        assert history.add(Path(path), run(number, options=str(number), changed=bool(number % 2)))


def test_two_runs_at_once_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_LOCK_SECONDS", PATIENCE)
    path = tmp_path / "site.json"
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_add, args=(str(path), number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(PATIENCE)

    assert [process.exitcode for process in processes] == [0] * 4
    found = history.read(path)
    assert len(found) == 2 * history.MOST_RUNS
    assert list(tmp_path.glob(".*")) == [tmp_path / ".lock"]


def test_a_lock_that_another_process_keeps_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_LOCK_SECONDS", 0.1)
    with history._locked(tmp_path / ".lock") as locked:
        assert locked
        assert not history.add(tmp_path / "site.json", run(1))


def test_two_playbooks_of_one_name_have_two_files(tmp_path: Path) -> None:
    assert history.path_of("/a/site.yml", tmp_path) != history.path_of("/b/site.yml", tmp_path)
    assert history.path_of("/a/../x/site y.yml", tmp_path).name.startswith("site_y-")


def test_the_cache_directory_is_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/c")
    assert history.directory() == Path("/c/gpucluster/progress")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", "/h")
    assert history.directory() == Path("/h/.cache/gpucluster/progress")


def test_the_shipped_figures_are_runs_of_the_playbooks_as_they_are() -> None:
    shipped = history.read(history.SHIPPED)
    texts = [path.read_text(encoding="utf-8") for path in ROOT.glob("playbooks/**/*.yml")]
    texts += [path.read_text(encoding="utf-8") for path in ROOT.glob("roles/*/tasks/*.yml")]
    everything = "\n".join(texts)

    def known(name: str) -> bool:
        return name.rpartition(" : ")[2].replace("'", "''") in everything or name.rpartition(" : ")[2] in everything

    steps = [step for one in shipped for step in one.steps if step.task != "Gathering Facts"]
    lost = {step.task for step in steps if not known(step.task)} | {step.play for step in steps if not known(step.play)}
    assert [(one.kind, one.changes) for one in shipped] == [
        ("", True),
        ("", True),
        ("", False),
        ("check", False),
        ("subset", False),
    ]
    # A name with a variable in it cannot be found here.
    assert len(lost) <= 0.1 * len({step.task for step in steps}), sorted(lost)


def test_no_result_and_no_variable_is_kept() -> None:
    data: dict[str, t.Any] = run(1).as_data()

    assert json.loads(json.dumps(data)) == {
        "options": "",
        "kind": "",
        "plays": [["Play", [["Task 0", 1, 0], ["Task 1", 1, 0], ["Task 2", 1, 0]]]],
    }
