# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What happens on a node after each job."""

from __future__ import annotations

import signal
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import epilog
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.process import DONE, Result
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from collections.abc import Sequence

SIZE = "standard_nd96asr_v4"
CONFIG = {
    "epilog": {"grace_seconds": 1, "clocks": {"memory_mhz": 1215, "graphics_mhz": 1410}, "gpu_memory_max_mib": 1024}
}
JOB = {"SLURM_JOB_ID": "7", "SLURM_JOB_UID": "2001", "SLURM_JOB_GPUS": "0,1"}
SCOPE = "0::/system.slice/slurmstepd.scope"
SERVICE = "0::/system.slice/slurmd.service"


def _processes(machine: machines.FakeMachine, *processes: dict[str, str], stubborn: bool = False) -> None:
    for files in processes:
        machine.files.update(files)
    machine.forget_names()

    def deliver(pid: int, number: int) -> None:
        machine.signals.append((pid, number))
        if not stubborn:
            machine.files = {path: text for path, text in machine.files.items() if f"/proc/{pid}/" not in path}
            machine.forget_names()

    machine.signal = deliver  # type: ignore[method-assign]


def _step(pid: int, job: str, start: int, cgroup: str = SERVICE) -> dict[str, str]:
    return machines.process(pid, "slurmstepd", cgroup, uid=0, start=start, title=f"slurmstepd: [{job}.extern]")


def _smi(machine: machines.FakeMachine) -> machines.Smi:
    return t.cast("machines.Smi", machine.tools["nvidia-smi"])


@pytest.mark.parametrize(
    ("mine", "environment"),
    [
        (f"{SCOPE}/job_7/step_0/user/task_0", {}),
        (f"{SCOPE}/s0123456789ABC/step_0", {"SLURM_JOB_SLUID": "s0123456789ABC"}),
    ],
    ids=["number", "sluid"],
)
def test_processes_in_the_control_group_of_the_job_are_ended_and_no_others(
    mine: str, environment: dict[str, str]
) -> None:
    machine = machines.healthy(SIZE)
    _processes(
        machine,
        _step(100, "8", 500, f"{SCOPE}/job_8/step_extern/slurm"),
        machines.process(200, "python", f"{SCOPE}/job_8/step_0/user/task_0"),
        machines.process(201, "python", mine),
        machines.process(202, "tmux", "0::/user.slice/user-2001.slice/session-3.scope"),
        machines.process(
            203, "forged", "0::/user.slice/user-2001.slice/user@2001.service/slurmstepd.scope/job_7/step_0"
        ),
        machines.process(204, "agent", SERVICE, start=10),  # that a prolog started, for example
    )

    assert epilog.clean(machine, CONFIG, {**JOB, **environment}) == []
    assert machine.signals == [(201, signal.SIGTERM)]


def test_without_control_groups_what_may_be_of_another_job_lives() -> None:
    machine = machines.healthy(SIZE)
    environ = {f"/proc/{pid}/environ": "SLURM_JOB_ID=7\0" for pid in (201, 202, 203, 204)}
    _processes(
        machine,
        environ,
        _step(100, "8", 500),
        machines.process(201, "orphan", SERVICE, start=499),  # older than the job that still runs
        machines.process(
            202, "task", SERVICE, start=501
        ),  # of job 8, as a later component of job 7 or by `salloc` inside it
        machines.process(203, "other", SERVICE, start=499, uid=2002),
        machines.process(204, "tmux", "0::/user.slice/user-2001.slice/session-3.scope", start=499),
    )

    assert epilog.clean(machine, CONFIG, JOB) == []
    assert machine.signals == [(201, signal.SIGTERM)]


def test_a_step_daemon_of_the_job_itself_protects_nothing() -> None:
    machine = machines.healthy(SIZE)
    _processes(machine, _step(100, "7", 400), machines.process(201, "orphan", SERVICE, start=600))

    assert epilog.clean(machine, CONFIG, JOB) == []
    assert machine.signals == [(201, signal.SIGTERM)]


def test_a_process_that_cannot_be_ended_fails_the_epilog() -> None:
    machine = machines.healthy(SIZE)
    _processes(machine, machines.process(201, "python", f"{SCOPE}/job_7/step_0"), stubborn=True)

    assert epilog.clean(machine, CONFIG, JOB) == ["leftover processes of job 7 cannot be ended: python (201)"]
    assert [number for _pid, number in machine.signals] == [signal.SIGTERM, signal.SIGKILL]


@pytest.mark.parametrize(("gpu", "faults"), [(1, 1), (5, 0)])
def test_memory_left_on_a_gpu_of_the_job_fails_the_epilog(gpu: int, faults: int) -> None:
    machine = machines.healthy(SIZE)
    _smi(machine).shows(gpu, memory__used="30000")
    found = epilog.clean(machine, CONFIG, JOB)

    assert len(found) == faults
    assert all("expected at most 1024 MiB, found GPU 1 (00000002:00:00.0): 30000 MiB" in fault for fault in found)


def test_memory_that_is_freed_late_is_waited_for() -> None:
    machine = machines.healthy(SIZE)
    _smi(machine).shows(1, memory__used="30000")
    start = machine.clock
    sleep = machine.sleep

    def wait(seconds: float) -> None:
        sleep(seconds)
        _smi(machine).shows(1, memory__used="4")

    machine.sleep = wait  # type: ignore[method-assign]

    assert epilog.clean(machine, CONFIG, JOB) == []
    assert machine.clock - start == 1


@pytest.mark.parametrize(
    ("shown", "answer", "calls", "faults"),
    [
        ("1410", "All done.", 0, 0),
        ("1095", "All done.", 1, 0),
        ("[Requested functionality has been deprecated]", "", 0, 0),
        # Exit status 0 and nothing done.
        ("1095", "Setting applications clocks is not supported for GPU 0.\nTreating as warning and moving on.", 1, 1),
    ],
)
def test_clocks_of_the_job_are_set_back(shown: str, answer: str, calls: int, faults: int) -> None:
    machine = machines.healthy(SIZE)
    smi = _smi(machine)
    smi.shows(0, clocks__applications__graphics=shown)
    writes: list[list[str]] = []

    def tool(argv: Sequence[str], stdin: str) -> Result:
        if "-ac" in argv:
            writes.append(list(argv[1:]))
            return Result(DONE, 0, answer)
        return smi(argv, stdin)

    machine.tools["nvidia-smi"] = tool

    assert len(epilog.clean(machine, CONFIG, JOB)) == faults
    assert writes == [["-i", "GPU-0a000000-0000-4000-8000-000000000000", "-ac", "1215,1410"]] * calls


@pytest.mark.parametrize("job", ["", "7; rm -rf /", "x"])
def test_without_a_job_nothing_is_touched(job: str) -> None:
    machine = machines.healthy(SIZE)
    _processes(machine, machines.process(201, "python", f"{SCOPE}/job_7/step_0"))

    assert epilog.clean(machine, CONFIG, {**JOB, "SLURM_JOB_ID": job})
    assert machine.signals == []


def test_what_other_jobs_hold_on_a_divided_gpu_is_not_of_this_one() -> None:
    machine = machines.healthy(SIZE)
    _smi(machine).config["faults"] = {"mig": [1]}
    _smi(machine).shows(1, memory__used="30000")
    _smi(machine).shows("*", clocks__applications__graphics="1095")

    assert epilog.clean(machine, CONFIG, JOB) == []
    assert not [call for call in machine.calls if "-ac" in call]


def test_a_job_without_gpus_starts_no_nvidia_smi() -> None:
    machine = machines.healthy(SIZE)

    assert epilog.clean(machine, CONFIG, {"SLURM_JOB_ID": "7"}) == []
    assert machine.calls == []


def test_a_node_without_the_tool_passes() -> None:
    machine = machines.healthy(SIZE)
    del machine.tools["nvidia-smi"]

    assert epilog.clean(machine, CONFIG, JOB) == []


def test_a_tool_that_hangs_fails_the_epilog() -> None:
    machine = machines.healthy(SIZE)
    machine.tools["nvidia-smi"] = machines.hangs

    assert epilog.clean(machine, CONFIG, JOB) == ["nvidia-smi gave no answer within 10 s"]
