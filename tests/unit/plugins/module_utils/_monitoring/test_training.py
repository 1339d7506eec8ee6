# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The last training, from the events of a user's job to figures and the page. The events are made up."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import cli, live, page, training
from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring.text import render
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.plugins.module_utils._torchrun import goodput
from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import trust

NOW = 1_800_000_000.0
ME = trust.user_name(os.getuid())
FOUND = {"job": "7", "user": "alice", "goodput": 0.8, "time": 1_763_633_700, "seconds": 1000, "faults": 2}


def events(runs: Path, job: str, seconds: float = 80, user: str = "alice", age: float = 0, **more: t.Any) -> Path:
    """Write the events of a job of 100 seconds with a fault."""
    lines = [
        {"event": "begin", "time": 1000, "job": job, "user": "somebody", **more},
        {"event": "steps", "time": 1090, "segment": 1, "steps": 9, "first": 1, "last": 9, "seconds": seconds},
        {"event": "fault", "time": 1095, "kind": "hang", "node": "gpu1", "rank": 0, "text": "{{<b>", "after": 5},
        {"event": "end", "time": 1100, "status": 0},
    ]
    path = runs / user / f"job-{job}/torchrun.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    os.utime(path, (NOW - age, NOW - age))
    return path


def test_the_run_whose_events_changed_last_is_the_last_one(tmp_path: Path) -> None:
    events(tmp_path, "6", 10, age=50)
    events(tmp_path, "7", user="bob")
    events(tmp_path, "8", 20, age=90)

    # The owner of the file counts, not the name in it.
    expected = {"job": "7", "user": ME, "goodput": 0.8, "time": NOW, "seconds": 100, "faults": 1}
    assert training.last(str(tmp_path), NOW) == expected
    assert training.parse(json.dumps(expected)) == expected


def test_without_a_run_there_is_none(tmp_path: Path) -> None:
    assert training.last(str(tmp_path), NOW) == {}
    assert training.samples(training.parse("{}")) == []


def test_what_a_user_planted_is_passed_over(tmp_path: Path) -> None:
    events(tmp_path, "1")
    events(tmp_path, "2", age=-1000)  # of the future
    events(tmp_path, "3", age=-1).write_text("nonsense", encoding="utf-8")
    events(tmp_path, "4", age=-2).write_text('{"event": "steps", "time": 1, "segment": []}\n', encoding="utf-8")
    os.truncate(events(tmp_path, "5", age=-3), (4 << 20) + 1)
    path = events(tmp_path, "6", age=-4)
    path.unlink()
    os.mkfifo(path)
    (tmp_path / "alice/job-9").symlink_to(tmp_path / "alice/job-2")
    for number in (3, 4, 5):
        path = tmp_path / f"alice/job-{number}/torchrun.jsonl"
        os.utime(path, (NOW + number, NOW + number))

    assert training.last(str(tmp_path), NOW)["job"] == "1"


def test_the_files_of_one_user_hide_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(10, 19):
        path = events(tmp_path, str(number), user="mallory")
        path.write_text("nonsense", encoding="utf-8")
        os.utime(path, (NOW, NOW))
    events(tmp_path, "7", age=50)
    asked: list[Path] = []
    summaries = goodput.summaries

    def noted(paths: t.Iterable[Path]) -> goodput.Known:
        asked.extend(paths)
        return summaries(asked[-1:])

    monkeypatch.setattr(goodput, "summaries", noted)
    assert training.last(str(tmp_path), NOW)["job"] == "7"
    assert len(asked) == 4


@pytest.mark.skipif(os.getuid() != 0, reason="needs root")
def test_files_are_read_as_the_user_who_owns_the_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    # Those above belong to pytest, and others cannot enter them.
    tmp_path = Path(tempfile.mkdtemp(dir="/tmp"))
    tmp_path.chmod(0o755)
    secret = events(tmp_path / "elsewhere", "1")
    secret.chmod(0o600)
    secret.parent.chmod(0o700)
    own = events(tmp_path / "runs", "2", age=50)
    own.parent.rename(own.parent.parent / "moved")
    for path in (tmp_path / "runs/alice", *(tmp_path / "runs/alice").rglob("*")):
        os.chown(path, 65533, 65533)
    asked: list[tuple[int, int]] = []
    summaries = goodput.summaries

    def noted(paths: t.Iterable[Path]) -> goodput.Known:
        asked.append((os.geteuid(), os.getegid()))
        return summaries(paths)

    monkeypatch.setattr(goodput, "summaries", noted)
    assert training.last(str(tmp_path / "runs"), NOW)["job"] == "2"
    shutil.rmtree(tmp_path)
    assert asked == [(65533, 65533)]
    assert (os.geteuid(), os.getegid()) == (0, 0)


@pytest.mark.parametrize(
    "changed",
    [{"goodput": "1"}, {"goodput": 1.5}, {"goodput": float("nan")}, {"seconds": -1}, {"faults": [1]}, {"time": 1e13}],
)
def test_what_is_no_figure_is_refused(changed: dict[str, t.Any]) -> None:
    with pytest.raises(ValueError, match=f"the last training has .* as {next(iter(changed))}"):
        training.parse(json.dumps({**FOUND, **changed}))
    with pytest.raises(ValueError, match="unknown format"):
        training.parse(json.dumps({**FOUND, "more": 1}))


def test_it_becomes_figures_and_a_line_of_the_page() -> None:
    text = render(training.samples(FOUND))
    assert 'gpucluster_training_goodput_ratio{user="alice"} 0.8\n' in text
    assert "gpucluster_training_timestamp_seconds 1763633700\n" in text

    shown = page.page(None, live.Live([], {}), "", 0, "", {}, (), {**FOUND, "job": "{{<b>"})
    assert "<h2>Last training</h2><p>Job &#123;&#123;&lt;b&gt; of alice, 2025-11-20 10:15 UTC: " in shown
    assert "goodput 80.0 % of 1,000 s, 2 faults</p>" in shown
    assert "Last training" not in page.page(None, live.Live([], {}), "", 0, "", {})


def collected(config: dict[str, str], *answer: t.Any) -> tuple[str, str, list[t.Any]]:
    """Return figures, reason and questions of the collector."""
    asked: list[t.Any] = []

    def run(args: t.Any) -> t.Any:
        asked.append(args)
        return answer

    host = Host(run)
    host.read = lambda path: json.dumps(config) if path == training.CONFIG else ""  # type: ignore[method-assign]
    collectors = cli.Collectors({"collectors": ["training"]}, host, t.cast("t.Any", None))
    for _twice in range(2):
        text, reason = cli.collect("training", collectors.wanted()["training"], time.monotonic)
    return text, reason, asked


def test_a_process_of_its_own_reads_the_files_once() -> None:
    text, reason, asked = collected({"runs": "/shared/training/runs"}, 0, json.dumps(FOUND), "")

    assert reason == ""
    assert "gpucluster_training_goodput_ratio" in text
    assert asked == [[sys.executable, sys.argv[0], "--training", "/shared/training/runs"]]


def test_storage_that_does_not_answer_is_named_and_asked_once() -> None:
    text, reason, asked = collected({"runs": "/shared/training/runs"}, 124, "", "no end within 20 s")

    assert reason == "training: the runs in /shared/training/runs cannot be read: no end within 20 s"
    assert "goodput" not in text
    assert len(asked) == 1


def test_without_the_role_training_nothing_is_asked() -> None:
    assert collected({}, 1, "", "")[1:] == ("", [])


def test_the_program_prints_the_last_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    events(tmp_path, "7", age=NOW - 1000)

    assert cli.main(["--training", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["job"] == "7"
