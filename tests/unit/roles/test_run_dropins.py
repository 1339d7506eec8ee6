# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import re
import shutil
import subprocess
import typing as t
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "roles/slurm/files/run-dropins"


def run(folder: Path, name: str, dropins: dict[str, str], mode: int = 0o755) -> subprocess.CompletedProcess[str]:
    """Install the script under a name with drop-ins, and run it as Slurm does: without arguments."""
    shutil.copy(SCRIPT, folder / name)
    (folder / f"{name}.d").mkdir(exist_ok=True)
    for dropin, body in dropins.items():
        path = folder / f"{name}.d" / dropin
        path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
        path.chmod(mode)
    environment = {"PATH": "/usr/bin:/bin", "SLURM_JOB_ID": "42"}
    return subprocess.run([folder / name], capture_output=True, text=True, check=False, env=environment)


@pytest.mark.parametrize("name", ["prolog", "epilog", "task_prolog"])
def test_dropins_run_in_the_order_of_their_names(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, name, {"20-b": "echo b $SLURM_JOB_ID", "10-a.sh": "echo a", "90_z": "echo z"})

    assert (done.returncode, done.stdout, done.stderr) == (0, "a\nb 42\nz\n", "")


def test_no_folder_and_no_dropin_are_no_failure(tmp_path: Path) -> None:
    shutil.copy(SCRIPT, tmp_path / "prolog")

    assert subprocess.run([tmp_path / "prolog"], check=False).returncode == 0
    assert run(tmp_path, "prolog", {}).returncode == 0


@pytest.mark.parametrize("name", ["prolog", "task_prolog"])
def test_a_prolog_stops_at_the_first_failure_and_names_it(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, name, {"10-a": "echo a", "20-bad": "exit 7", "30-c": "echo c"})

    assert (done.returncode, done.stdout) == (7, "a\n")
    assert done.stderr == f"{name}: {tmp_path}/{name}.d/20-bad failed with exit status 7 (job 42)\n"


@pytest.mark.parametrize("name", ["epilog", "task_epilog", "epilog_slurmctld"])
def test_an_epilog_runs_all_and_fails_at_the_end(tmp_path: Path, name: str) -> None:
    done = run(tmp_path, name, {"10-bad": "exit 7", "20-worse": "exit 9", "30-c": "echo c"})

    assert (done.returncode, done.stdout) == (1, "c\n")
    assert [line.rpartition("/")[2] for line in done.stderr.splitlines()] == [
        "10-bad failed with exit status 7 (job 42)",
        "20-worse failed with exit status 9 (job 42)",
    ]


@pytest.mark.parametrize("name", ["10-a.dpkg-old", "10-a~", "#10-a#", ".10-a", "10 a", "10-a.sh.bak"])
def test_what_editors_and_packages_leave_behind_does_not_run(tmp_path: Path, name: str) -> None:
    assert run(tmp_path, "prolog", {name: "exit 1"}).returncode == 0


def test_what_is_not_executable_does_not_run(tmp_path: Path) -> None:
    assert run(tmp_path, "prolog", {"10-a": "exit 1"}, mode=0o644).returncode == 0


def test_a_link_takes_the_folder_beside_it(tmp_path: Path) -> None:
    (tmp_path / "prolog.d").mkdir()
    (tmp_path / "prolog.d/10-a").write_text("#!/bin/sh\necho a\n", encoding="utf-8")
    (tmp_path / "prolog.d/10-a").chmod(0o755)
    (tmp_path / "prolog").symlink_to(SCRIPT)

    done = subprocess.run([tmp_path / "prolog"], capture_output=True, text=True, check=False)

    assert done.stdout == "a\n"


def test_slurmctld_is_never_asked() -> None:
    commands: t.Any = re.sub(r"(?m)^#.*", "", SCRIPT.read_text(encoding="utf-8"))

    assert not re.search(r"scontrol|squeue|sinfo|sacct", commands)
