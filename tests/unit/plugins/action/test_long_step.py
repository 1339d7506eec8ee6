# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A long step has the result of its module, says how far it is, and ends."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import inside
from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE, wait_until

ROOT = Path(__file__).parents[4]
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
# It ends once its progress was said.
SCRIPT = "echo 1 >> log; while [ ! -e said ]; do sleep 0.1; done; echo made; touch made"

# On a slow machine, the seconds stand before the lines.
WORKS = re.compile(r"now: Work \((for .+, )?line 1 of about 5\)")


def run(folder: Path, script: str, *options: str, **settings: t.Any) -> tuple[dict[str, t.Any], str, int]:
    """Return the result of a long step on this machine, what was said on the way, and the exit status."""
    step = {
        "module": "ansible.builtin.command",
        "arguments": {"argv": ["sh", "-c", script], "chdir": str(folder), "creates": "made"},
        "watch": str(folder / "log"),
        "lines": 5,
        **settings,
    }
    task = {"name": "Work", "hpcai.gpucluster.long_step": step, "register": "result", "ignore_errors": True}
    show = {
        "name": "Keep",
        "ansible.builtin.copy": {"dest": str(folder / "result"), "content": "{{ result | to_json }}"},
    }
    play = [{"name": "Play", "hosts": "all", "gather_facts": False, "tasks": [task, {**show, "check_mode": False}]}]
    (folder / "play.json").write_text(json.dumps(play), encoding="utf-8")
    said = folder / "stderr"
    with (
        said.open("w", encoding="utf-8") as stream,
        subprocess.Popen(
            [
                str(PLAYBOOK),
                "-i",
                "localhost,",
                "-c",
                "local",
                "-e",
                f"ansible_python_interpreter={sys.executable}",
                "play.json",
                *options,
            ],
            cwd=folder,
            env={
                **os.environ,
                "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
                "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".collections"),
                "ANSIBLE_ASYNC_DIR": str(folder / "jobs"),
                "GPUCLUSTER_PROGRESS_SECONDS": "1",
                "XDG_CACHE_HOME": str(folder / "cache"),
            },
            stdout=subprocess.DEVNULL,
            stderr=stream,
        ) as process,
    ):
        try:
            wait_until("the end of the run", lambda: said_so(folder) or process.poll() is not None, lambda: read(said))
        finally:
            (folder / "said").touch()
        process.wait(PATIENCE)
    return json.loads(read(folder / "result")), read(said), process.returncode


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def said_so(folder: Path) -> bool:
    """Return whether the progress of the step was said."""
    return WORKS.search(read(folder / "stderr")) is not None


def test_a_step_reports_its_lines_and_returns_the_result_of_its_module(tmp_path: Path) -> None:
    result, said, status = run(tmp_path, SCRIPT)

    assert status == 0
    assert (result["changed"], result["rc"], result["stdout"]) == (True, 0, "made")
    assert "ansible_job_id" not in result
    assert WORKS.search(said)
    # The job of the managed node is removed, and a second run does nothing.
    assert list((tmp_path / "jobs").iterdir()) == []
    assert not run(tmp_path, SCRIPT)[0]["changed"]


def test_a_step_that_fails_says_why(tmp_path: Path) -> None:
    result = run(tmp_path, "echo broken >&2; exit 3")[0]

    assert (result["failed"], result["rc"], result["stderr"]) == (True, 3, "broken")


# A process of another session is in no process group that Ansible kills.
@pytest.mark.parametrize("starter", ["", "setsid --wait"])
def test_a_step_that_does_not_end_is_killed(starter: str, tmp_path: Path) -> None:
    for limit in (2, 20, PATIENCE):
        result = run(tmp_path, f"{starter} sh -c 'echo $$ > pid; sleep {HANGS}; :'", seconds=limit)[0]
        assert result["failed"]
        if (tmp_path / "pid").exists():
            break

    pid = int(read(tmp_path / "pid"))
    wait_until(f"the end of the process {pid}", lambda: not alive(pid))


def alive(pid: int) -> bool:
    """Return whether a process runs; the one that waits for it may be slow."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_check_mode_starts_nothing(tmp_path: Path) -> None:
    result, __, status = run(tmp_path, SCRIPT, "--check")

    assert status == 0
    assert result["changed"]
    assert not (tmp_path / "made").exists()
    assert not (tmp_path / "jobs").exists()


def test_long_steps_are_looked_at_four_times_a_minute() -> None:
    pauses = list(itertools.islice(inside.pauses(), 244))

    assert 3600 <= sum(pauses) < 3630
    assert max(pauses) == inside.MOST_PAUSE


@pytest.mark.parametrize(("printed", "count"), [("12 /a\n", 12), ("", None), ("wc: no such file", None), ("\n", None)])
def test_what_is_not_there_yet_has_no_count(printed: str, count: int | None) -> None:
    assert inside.count(printed) == count


@pytest.mark.parametrize(
    ("found", "lines", "size", "words"),
    [
        (3000, 12000, 0, (0.25, "line 3,000 of about 12,000")),
        (13000, 12000, 0, (0.0, "line 13,000")),
        (0, 12000, 0, (0.0, "")),
        (5 * 10**9, 0, 20 * 10**9, (0.25, "5.0 of about 20.0 GB")),
        (5 * 10**9, 0, 0, (0.0, "5.0 GB")),
        (0, 0, 0, (0.0, "")),
    ],
)
def test_more_than_expected_is_no_fraction(found: int, lines: int, size: int, words: tuple[float, str]) -> None:
    assert inside.words_of(found, lines, size) == words


@pytest.mark.parametrize("content", ["", "[]", "null", '["a", "b"]', "[1]"])
def test_a_damaged_report_is_none(tmp_path: Path, content: str) -> None:
    file = inside.path(tmp_path)
    assert inside.read(file) is None
    file.write_text(content, encoding="utf-8")
    assert inside.read(file) is None
    inside.report(file, 5, 10, 0)
    assert inside.read(file) == (0.5, "line 5 of about 10")
    inside.forget(file)
    inside.forget(file)
    assert list(tmp_path.iterdir()) == []
