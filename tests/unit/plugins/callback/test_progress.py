# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The callback in real runs: in a log, on a terminal, beside ansible-runner, in check mode, and where it is missing."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import threading
import typing as t
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from ansible_collections.hpcai.gpucluster.plugins.callback.progress import CallbackModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._progress import screen
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
    """Return a directory with a playbook."""
    (tmp_path / "play.yml").write_text(yaml.safe_dump([PLAY], sort_keys=False), encoding="utf-8")
    (tmp_path / "ansible.cfg").write_text(
        f"[defaults]\ncollections_path = {COLLECTIONS}\ncallbacks_enabled = hpcai.gpucluster.progress\n",
        encoding="utf-8",
    )
    return tmp_path


def environment(project: Path, **more: str) -> dict[str, str]:
    """Return the environment of a run, with a cache of its own."""
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


def recorded(project: Path) -> list[t.Any]:
    """Return the runs that were recorded, each by its tasks."""
    files = sorted((project / "cache/gpucluster/progress").glob("*.json"))
    return [[name for name, _seconds in json.loads(path.read_text(encoding="utf-8"))] for path in files]


def test_a_log_gets_the_summary_on_standard_error_only(project: Path) -> None:
    done = play(project)

    assert done.returncode == 2
    # The seconds depend on the load of this machine.
    assert re.sub(r"in \d+ s", "in N s", done.stderr).splitlines() == [
        "Summary: 6 tasks in N s on 2 machines; 1 unchanged.",
        "  changed a: 1 task: Change a",
        "  failed b: Fail on b: no such package more",
    ]
    assert "Summary" not in done.stdout
    assert "PLAY RECAP" in done.stdout
    assert "\x1b" not in done.stderr


def test_only_a_run_that_reached_its_end_is_an_example(project: Path) -> None:
    file, whole = project / "play.yml", [["Change a", "Break", "Mend", "Wait", "Fail on b", "Tell"]]
    text = file.read_text(encoding="utf-8")
    stopped = [{**PLAY, "tasks": [*PLAY["tasks"][:3], {"name": "Fail", "ansible.builtin.fail": {}}]}]
    file.write_text(yaml.safe_dump(stopped, sort_keys=False), encoding="utf-8")
    play(project, "--limit", "a")
    assert recorded(project) == []

    file.write_text(text, encoding="utf-8")
    play(project, "--limit", "a")
    play(project, "--limit", "a", GPUCLUSTER_PROGRESS="none")
    assert recorded(project) == whole
    # Check mode is another kind of run.
    play(project, "--limit", "a", "--check")
    assert recorded(project) == whole * 2

    file.write_text(yaml.safe_dump(stopped, sort_keys=False), encoding="utf-8")
    play(project, "--limit", "a")
    assert recorded(project) == whole * 2


def test_a_log_gets_a_line_at_intervals(project: Path) -> None:
    play(project, "--limit", "a", "-e", "wait=/")
    options = ["--limit", "a", "-e", f"wait={project}/seen"]
    done = play(project, *options, seen="now: Wait", GPUCLUSTER_PROGRESS_SECONDS="1")

    lines = [line for line in done.stderr.splitlines() if line.endswith("now: Wait")]
    # The seconds depend on the load of this machine.
    assert re.fullmatch(r"Progress: 4 of about 6 tasks(, \d+ s left)?; now: Wait", lines[0])


@pytest.mark.parametrize("output", ["none", "summary"])
def test_the_output_is_a_choice(project: Path, output: str) -> None:
    # absence: a line would come in each second.
    timer = threading.Timer(3, (project / "seen").touch)
    timer.start()
    done = play(project, "-e", f"wait={project}/seen", GPUCLUSTER_PROGRESS=output, GPUCLUSTER_PROGRESS_SECONDS="1")
    timer.join()

    assert done.stdout
    assert "Progress" not in done.stderr
    assert ("Summary" in done.stderr) == (output == "summary")


def on_terminal(project: Path, **more: str) -> str:
    """Return what a run writes to a terminal that is made smaller while it runs."""
    leader, follower = pty.openpty()
    fcntl.ioctl(leader, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 80, 0, 0))
    command = [str(PLAYBOOK), "-i", "a,", "play.yml", "-e", f"wait={project}/seen"]
    variables = environment(project, **{"TERM": "xterm", **more})
    variables.pop("NO_COLOR", None)
    process = subprocess.Popen(
        ["setsid", "--ctty", "--wait", *command],
        cwd=project,
        env=variables,
        stdin=follower,
        stdout=follower,
        stderr=follower,
    )
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
    # Rows are reserved once for each size, and given back before the summary.
    assert re.findall(r"\x1b\[1;(\d+)r", written) == ["19", "11"]
    given_back = written.rindex("\x1b[r")
    assert line.search(written, given_back) is None
    assert written.index("Summary: ") > given_back
    # Without the line, the output is that of Ansible.
    assert "TASK [Tell]" in re.sub(line, "", written)


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, True),
        ({"TERM": "xterm", "CI": ""}, True),
        ({"TERM": "xterm", "CI": "true"}, False),
        ({"TERM": "xterm", "JOB_ID": "7"}, False),
        ({"TERM": "xterm", "AWX_ISOLATED_DATA_DIR": "/x"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_a_terminal_that_is_a_log_gets_no_line(setting: dict[str, str], wanted: bool) -> None:
    leader, follower = pty.openpty()
    read, write = os.pipe()

    assert screen.wants_line(follower, setting) == wanted
    assert not screen.wants_line(write, setting)
    for descriptor in (leader, follower, read, write):
        os.close(descriptor)


def test_ansible_runner_gets_the_summary_as_an_event_and_no_line(project: Path) -> None:
    ansible_runner = pytest.importorskip("ansible_runner")
    settings = {name: environment(project)[name] for name in ("ANSIBLE_CONFIG", "XDG_CACHE_HOME")}
    (project / "runner").mkdir()
    (project / "hosts").write_text("a\nb\n", encoding="utf-8")

    def see(event: dict[str, t.Any]) -> bool:
        if "now: Wait" in event.get("stdout", ""):
            (project / "seen").touch()
        return True

    result = ansible_runner.run(
        private_data_dir=str(project / "runner"),
        project_dir=str(project),
        playbook="play.yml",
        inventory=str(project / "hosts"),
        extravars={"wait": str(project / "seen")},
        event_handler=see,
        envvars={
            **settings,
            "TERM": "xterm",
            "GPUCLUSTER_PROGRESS_SECONDS": "1",
            "PATH": f"{PLAYBOOK.parent}:{os.environ['PATH']}",
        },
        quiet=True,
    )

    assert result.status == "failed"
    events = list(result.events)
    printed = [event["stdout"] for event in events if event["event"] == "verbose"]
    assert any(line.startswith("Progress: ") for line in printed)
    assert "  changed a: 1 task: Change a" in "\n".join(printed)
    assert not any(re.search(r"\x1b\[1;\d+r", event["stdout"]) for event in events)
    assert [event["event"] for event in events].count("playbook_on_stats") == 1


def test_a_fault_of_the_progress_never_disturbs_a_run(project: Path) -> None:
    (project / "cache").write_text("a file where a directory is expected", encoding="utf-8")

    done = play(project, "--limit", "a")

    assert done.returncode == 0
    assert "Summary: 6 tasks" in done.stderr
    assert "WARNING" not in done.stderr


def test_a_run_without_the_collection_has_a_warning_and_no_error(project: Path) -> None:
    done = play(project, "--limit", "a", ANSIBLE_COLLECTIONS_PATH=str(project))

    assert done.returncode == 0
    assert "ERROR" not in done.stderr
    assert "Skipping callback plugin 'hpcai.gpucluster.progress', unable to load" in done.stderr


def test_the_shipped_configuration_has_it_on() -> None:
    lines = (ROOT / "ansible.cfg").read_text(encoding="utf-8").splitlines()

    assert "callbacks_enabled = hpcai.gpucluster.progress" in lines


def test_an_event_costs_less_than_a_millisecond_at_ten_thousand_hosts() -> None:
    callback = CallbackModule()
    task = SimpleNamespace(_uuid="1", get_name=lambda: "hpcai.gpucluster.base : Install")
    callback.v2_playbook_on_task_start(task, is_conditional=False)
    results = [
        SimpleNamespace(host=SimpleNamespace(name=f"gpu{number}"), task=task, is_changed=lambda: True)
        for number in range(10_000)
    ]
    with cheap(0.001 * len(results)):
        for result in results:
            callback.v2_runner_on_ok(result)

    assert len(callback.tracker.changed) == 10_000
    assert not callback.disabled
