# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that removes the containers of the lab, with a podman that fails or hangs."""

from __future__ import annotations

import subprocess
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE, within

SCRIPT = Path(__file__).parents[3] / "playbooks/files/lab_remove.sh"
# A pause takes a twentieth of its time. The limit of a call is that of the test.
FAST = {
    "sleep": "exec /bin/sleep 0.05",
    "timeout": 'shift 2; exec /usr/bin/timeout $LIMIT "$@"',
}


def removed(
    folder: Path, podman: str, seconds: int = PATIENCE, limit: float = PATIENCE
) -> subprocess.CompletedProcess[str]:
    """Run the script with the given program as podman; it notes its arguments in the file calls."""
    for name, text in {**FAST, "podman": f'echo "$@" >> {folder}/calls\n{podman}'}.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (folder / name).chmod(0o755)
    command = [str(SCRIPT), str(seconds), "lab-gpu1", "lab-gpu2"]
    environment = {"PATH": f"{folder}:/usr/bin:/bin", "LIMIT": str(limit)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)


def calls(folder: Path) -> t.Sequence[str]:
    return (folder / "calls").read_text(encoding="utf-8").splitlines()


def test_all_containers_are_removed_by_one_call(tmp_path: Path) -> None:
    assert removed(tmp_path, "exit 0").returncode == 0
    assert calls(tmp_path) == ["rm --force --time=5 --ignore lab-gpu1 lab-gpu2"]


def test_a_busy_machine_gets_another_attempt(tmp_path: Path) -> None:
    done = removed(tmp_path, f"[ $(wc -l < {tmp_path}/calls) -ge 3 ] || {{ echo 'PID 7 did not die' >&2; exit 2; }}")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(calls(tmp_path)) == 3


def test_the_attempts_end_with_the_reason(tmp_path: Path) -> None:
    done = removed(tmp_path, "echo 'PID 7 did not die' >&2; exit 2", seconds=1)

    assert done.returncode == 1
    assert done.stderr == "not removed after 1 seconds: PID 7 did not die\n"


def test_a_podman_that_hangs_is_given_up(tmp_path: Path) -> None:
    with within("the script"):
        assert removed(tmp_path, f"exec /bin/sleep {HANGS}", seconds=1, limit=0.6).returncode == 1
