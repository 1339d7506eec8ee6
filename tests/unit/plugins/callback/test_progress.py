# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in real runs: in a log, on a terminal, beside ansible-runner, in check mode, and where it is missing."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from ansible_collections.hpcai.gpucluster.plugins.callback import progress
from ansible_collections.hpcai.gpucluster.plugins.callback.progress import CallbackModule
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE, cheap, wait_until

ROOT = Path(__file__).parents[4]
COLLECTIONS = ROOT / ".collections"
PLAYBOOK = Path(sys.executable).with_name("ansible-playbook")
ON_B = "inventory_hostname == 'b'"
PLAY: dict[str, t.Any] = {
    "name": "Test play",
    "hosts": "all",
    "gather_facts": False,
    "tasks": [
        {"name": "Change a", "ansible.builtin.debug": {"msg": "x"}, "changed_when": "inventory_hostname == 'a'"},
        {"name": "Recover", "block": [{"name": "Break", "ansible.builtin.fail": {"msg": "seen"}}], "rescue": [
            {"name": "Mend", "ansible.builtin.debug": {"msg": "x"}}]},
        {"name": "Wait", "ansible.builtin.debug": {"msg": "x"}, "when": "wait is defined", "until": "wait is exists",
         "retries": 10 * PATIENCE, "delay": 0.1},
        {"name": "Fail on b", "ansible.builtin.fail": {"msg": "no such package\nmore"}, "when": ON_B},
        {"name": "Tell", "ansible.builtin.debug": {"msg": "end"}},
    ],
}  # fmt: skip


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "play.yml").write_text(yaml.safe_dump([PLAY], sort_keys=False), encoding="utf-8")
    (tmp_path / "ansible.cfg").write_text(
        f"[defaults]\ncollections_path = {COLLECTIONS}\ncallbacks_enabled = hpcai.gpucluster.progress\n",
        encoding="utf-8",
    )
    return tmp_path


def environment(project: Path, **more: str) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANSIBLE_", "GPUCLUSTER_", "CI", "PYTHONPATH"))
    }
    own = {"ANSIBLE_CONFIG": str(project / "ansible.cfg"), "XDG_CACHE_HOME": str(project / "cache")}
    return {**kept, **own, **more}


def play(project: Path, *options: str, seen: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run the playbook with its output in files; the task Wait ends once a text was seen in standard error."""
    out, err = project / "out", project / "err"
    with out.open("w", encoding="utf-8") as stdout, err.open("w", encoding="utf-8") as stderr:
        command = [str(PLAYBOOK), "-i", "a,b,", "play.yml", *options]
        process = subprocess.Popen(command, cwd=project, env=environment(project, **more), stdout=stdout, stderr=stderr)
        if seen:
            wait_until(seen, lambda: seen in err.read_text(encoding="utf-8") or process.poll() is not None)
            (project / "seen").touch()
        process.wait(PATIENCE)
    return subprocess.CompletedProcess(
        command, process.returncode, *(one.read_text(encoding="utf-8") for one in (out, err))
    )


def recorded(project: Path) -> int:
    return len(list((project / "cache/gpucluster/progress").glob("[!.]*")))


def test_a_log_gets_the_summary_on_standard_error_only(project: Path) -> None:
    done = play(project)

    assert done.returncode == 2
    assert re.sub(r"in \d+ s", "in N s", done.stderr).splitlines() == [
        "Summary: 6 tasks in N s on 2 machines; 1 unchanged.",
        "  changed a: 1 task: Change a",
        "  failed b: Fail on b: no such package more",
    ]
    assert "Summary" not in done.stdout
    assert "PLAY RECAP" in done.stdout
    assert "\x1b" not in done.stderr


def test_only_a_run_without_a_failure_is_recorded(project: Path) -> None:
    play(project)
    assert recorded(project) == 0
    play(project, "--limit", "a")
    play(project, "--limit", "a", GPUCLUSTER_PROGRESS="none")
    assert recorded(project) == 1


def test_a_log_gets_a_line_at_intervals(project: Path) -> None:
    done = play(project, "-e", f"wait={project}/seen", seen="now: Wait", GPUCLUSTER_PROGRESS_SECONDS="1")

    assert re.search(r"^Progress: .*\d s; now: Wait", done.stderr, re.MULTILINE)


def on_terminal(project: Path, **more: str) -> str:
    """Return what a run writes to a terminal that is made smaller while it runs."""
    leader, follower = pty.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 80, 0, 0))
    command = [str(PLAYBOOK), "-i", "a,", "play.yml", "-e", f"wait={project}/seen"]
    variables = environment(project, **{"TERM": "xterm", **more})
    variables.pop("NO_COLOR", None)
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command], cwd=project, env=variables,
        stdin=follower, stdout=follower, stderr=follower
    )  # fmt: skip
    os.close(follower)
    found = b""
    resized = False
    while select.select([leader], [], [], PATIENCE)[0]:
        try:
            found += os.read(leader, 65536)
        except OSError:
            break
        if not resized and found.count(b"now: Wait") >= 2:
            resized = True
            fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 50, 0, 0))
        if b"\x1b[12;1H" in found:
            (project / "seen").touch()
    process.wait(PATIENCE)
    os.close(leader)
    return found.decode()


def test_a_terminal_gets_a_line_that_stays_in_its_last_row(project: Path) -> None:
    written = on_terminal(project)

    line = re.compile(r"\x1b7\x1b\[(\d+);1H\x1b\[m\x1b\[2K(Progress: [^\x1b]*)\x1b8")
    rows = line.findall(written)
    assert len(rows) >= 3
    assert {row for row, __ in rows} == {"20", "12"}
    assert all(len(words) < (80 if row == "20" else 50) for row, words in rows)
    assert re.findall(r"\x1b\[1;(\d+)r", written) == ["19", "11"]
    given_back = written.rindex("\x1b[r")
    assert line.search(written, given_back) is None
    assert written.index("Summary: ") > given_back
    assert "TASK [Tell]" in re.sub(line, "", written)


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "xterm", "AWX_ISOLATED_DATA_DIR": "/x"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_terminal_that_is_a_log_gets_no_line(setting: dict[str, str], wanted: bool) -> None:
    leader, follower = pty.openpty()
    read, write = os.pipe()

    assert progress.wants_line(follower, setting) == wanted
    assert not progress.wants_line(write, setting)
    for descriptor in (leader, follower, read, write):
        os.close(descriptor)


def test_a_fault_of_the_progress_never_disturbs_a_run(project: Path) -> None:
    (project / "cache").write_text("a file where a directory is expected", encoding="utf-8")

    done = play(project, "--limit", "a")

    assert done.returncode == 0
    assert "Summary: 6 tasks" in done.stderr
    assert "WARNING" not in done.stderr


def test_the_shipped_configuration_has_it_on() -> None:
    lines = (ROOT / "ansible.cfg").read_text(encoding="utf-8").splitlines()

    assert "callbacks_enabled = hpcai.gpucluster.progress" in lines


def result(name: str, task: t.Any, **values: t.Any) -> t.Any:
    return SimpleNamespace(host=SimpleNamespace(name=name), task=task, is_changed=lambda: True, result=values)


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"msg": "No package\nmatches slurm"}, "No package matches slurm"),
        ({"msg": "a\x1b[2Jb\u00e9"}, "a?[2Jb?"),
        ({"msg": "x" * 300 + "\nNext step: " + "y" * 3000}, "x" * 197 + "... Next step: " + "y" * 3000),
        ({"msg": "non-zero return code", "stderr": "a\nE: disk\nNext step: b\nc\n"}, "E: disk Next step: b c"),
        ({"msg": "One or more items failed", "results": [{"msg": "ok"}, {"failed": True, "msg": "disk"}]}, "disk"),
        ({"censored": "hidden"}, "hidden"),
        ({}, "no reason given"),
    ],
)
def test_the_reason_is_one_line_with_its_whole_next_step(values: dict[str, t.Any], why: str) -> None:
    assert progress.reason(values) == why


@pytest.mark.parametrize("text", ["", "[", "7", '{"seconds": 5', '[["a", 1]]', '{"seconds": NaN}', "[" * 900, "{}"])
def test_a_damaged_file_says_nothing(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cache" / "x"
    progress.remember(file, 5.0)
    assert progress.last_seconds(file) == 5
    assert oct(file.stat().st_mode)[-3:] == "600"
    file.write_text(text, encoding="utf-8")
    assert progress.last_seconds(file) == 0
    progress.remember(file, 5.0)
    os.utime(file, (1, 1))
    assert progress.last_seconds(file) == progress.last_seconds(tmp_path) == 0


def test_the_line_says_what_runs_and_the_last_run() -> None:
    callback, now = CallbackModule(), [0.0]
    callback.clock, callback.began, callback.last = (lambda: now[0]), 0.0, 540.0
    callback.v2_playbook_on_task_start(SimpleNamespace(_uuid="1", get_name=lambda: "slurm : Build | Compile\x1b[2J"))
    now[0] = 80.0

    assert callback.words() == "Progress: 1 min 20 s; now: Compile?[2J (for 1 min 20 s); last run: 9 min 0 s"


def test_an_event_costs_less_than_a_millisecond_at_ten_thousand_hosts() -> None:
    callback = CallbackModule()
    task = SimpleNamespace(_uuid="1", get_name=lambda: "hpcai.gpucluster.base : Install")
    callback.v2_playbook_on_task_start(task, is_conditional=False)
    results = [result(f"gpu{number}", task, msg="x" * 100_000) for number in range(10_000)]
    with cheap(0.001 * len(results)):
        for one in results:
            callback.v2_runner_on_ok(one)
            callback.v2_runner_on_failed(one)

    assert len(callback.changed) == len(callback.failed) == 10_000
    assert len(callback.summary(99, 10_000, callback.failed)) < 80
    assert not callback.disabled
