# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The script that ends what slurmd leaves of jobs, with a folder that plays /proc and real processes."""

from __future__ import annotations

import shutil
import subprocess
import time
import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.tests.patience import HANGS, PATIENCE

SCRIPT = Path(__file__).parents[3] / "roles/slurm/files/end-jobs"


class Machine:
    """A folder in the place of /proc, and processes that it shows."""

    def __init__(self, proc: Path) -> None:
        self.proc = proc
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, cgroup: str, state: str = "S (sleeping)") -> subprocess.Popen[bytes]:
        """Start a process that the folder shows in a control group."""
        process = subprocess.Popen(["sleep", str(HANGS)])
        self.processes.append(process)
        self.show(process.pid, cgroup, state)
        return process

    def show(self, pid: int, cgroup: str, state: str = "S (sleeping)") -> None:
        """Show a process in a control group."""
        folder = self.proc / str(pid)
        folder.mkdir()
        (folder / "cgroup").write_text(f"{cgroup}\n", encoding="utf-8")
        (folder / "status").write_text(f"Name:\tsleep\nState:\t{state}\n", encoding="utf-8")

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the script; a process that it has ended leaves the folder."""
        command = [str(SCRIPT), str(self.proc)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as script:
            while script.poll() is None:
                for process in self.processes:
                    if process.poll() is not None:
                        shutil.rmtree(self.proc / str(process.pid), ignore_errors=True)
                time.sleep(0.05)  # work: until the script has ended
            out, err = script.communicate()
        return subprocess.CompletedProcess(command, script.returncode, out, err)


@pytest.fixture
def machine(tmp_path: Path) -> t.Iterator[Machine]:
    found = Machine(tmp_path)
    yield found
    for process in found.processes:
        process.kill()
        process.wait()


def test_a_machine_without_jobs_has_nothing_to_end(machine: Machine) -> None:
    other = machine.start("0::/system.slice/ssh.service")
    machine.start("0::/system.slice/slurmstepd.scope/job_1/step_0/slurm", state="Z (zombie)")
    done = machine.run()

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert other.poll() is None


@pytest.mark.parametrize(
    "cgroup",
    [
        "0::/system.slice/slurmstepd.scope/job_1/step_0/user/task_0",
        "0::/system.slice/gpu1_slurmstepd.scope/job_1",
        "0::/system.slice/slurmd.service",
        "12:pids:/system.slice/slurmd.service\n1:name=systemd:/system.slice/slurmd.service",
        "0::/machine.slice/libpod-1.scope/system.slice/slurmd.service",
    ],
)
def test_what_is_left_of_jobs_is_ended_and_nothing_else(machine: Machine, cgroup: str) -> None:
    job = machine.start(cgroup)
    others = [machine.start("0::/system.slice/slurmdbd.service"), machine.start("0::/user.slice/notslurmd.service.d")]
    done = machine.run()

    assert job.wait(PATIENCE) == -9
    # It is named again if it is not yet gone after a second.
    assert (done.returncode, set(done.stdout.split())) == (0, {str(job.pid)})
    assert [other.poll() for other in others] == [None, None]


def test_a_process_that_the_kernel_does_not_end_is_named(machine: Machine) -> None:
    pid = 4194305  # above the highest process id
    machine.show(pid, "0::/system.slice/slurmstepd.scope/job_1", state="D (disk sleep)")
    done = machine.run()

    assert done.returncode == 1
    assert f"does not end the processes {pid}; reboot" in done.stderr
