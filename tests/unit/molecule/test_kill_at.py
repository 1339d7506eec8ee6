# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The helper of scenario lifecycle that kills a run of ansible-playbook in the middle."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE, wait_until

HELPER = Path(__file__).parents[3] / "molecule/lifecycle/files/kill_at.py"


def load() -> t.Any:
    """Return the helper as a module; it is a program and belongs to no package."""
    spec = importlib.util.spec_from_file_location("kill_at", HELPER)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(HELPER), *arguments], capture_output=True, text=True, check=False, timeout=PATIENCE
    )


def test_a_process_that_has_ended_since_it_was_listed_is_no_error() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()

    load().kill_tree(process.pid)


def test_grandchildren_with_sessions_of_their_own_die_too(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    grandchild = f"setsid sh -c 'echo $$ > {pid_file}; exec sleep {HANGS}'"
    script = (
        f"{grandchild} & while [ ! -s {pid_file} ]; do sleep 0.05; done; echo now; wait"  # PATIENCE is that of the run
    )

    result = run("now", "sh", "-c", script)

    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "killed at: now\n"
    pid = int(pid_file.read_text(encoding="utf-8"))
    wait_until(f"the end of the grandchild {pid}", lambda: ended(pid))


def test_a_text_that_is_not_reached_is_a_failure() -> None:
    result = run("never", "echo", "something else")

    assert result.returncode == 1
    assert "'never' was not reached" in result.stdout
    assert "something else" in result.stdout


def ended(pid: int) -> bool:
    """Return whether a process is gone, or a zombie that nobody has waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
