# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which processes outlived their job, on unified control groups and where jobs have none."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import leftovers
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import Verdict

SCOPE = "0::/system.slice/slurmstepd.scope"
SLUID = "s0AV3K7Q2M4Z9X"
# Of a container on a host with hybrid control groups, where every task stays in the group of slurmd.service.
HYBRID = """13:perf_event:/
9:name=systemd:/libpod_parent/libpod-f81f72d91d095f26/system.slice/slurmd.service
8:pids:/libpod_parent/libpod-f81f72d91d095f26
0::/libpod_parent/libpod-f81f72d91d095f26/system.slice/slurmd.service"""
LOGIN = "0::/user.slice/user-2001.slice/session-3.scope"


def _machine(*processes: dict[str, str]) -> machines.FakeMachine:
    machine = machines.healthy("lab")
    for files in processes:
        machine.files.update(files)
    machine.forget_names()
    return machine


def _judged(*processes: dict[str, str]) -> Verdict:
    config = machines.expectations("lab", leftovers={"samples": 1})
    return machines.judge(_machine(*processes), config, names=["leftovers"])["leftovers"]


def _step(pid: int, title: str, cgroup: str, start: int = 1000, uid: int = 0) -> dict[str, str]:
    return machines.process(pid, "slurmstepd", cgroup, uid=uid, start=start, title=f"slurmstepd: [{title}]")


def _carries(files: dict[str, str], job: str) -> dict[str, str]:
    """Let a process carry the number of a job in its environment."""
    folder = next(iter(files)).rpartition("/")[0]
    return {**files, f"{folder}/environ": f"A=b\0SLURM_JOB_ID={job}\0"}


@pytest.mark.parametrize(
    ("step", "task"),
    [
        # The title has the number of the component, the task that of the leader.
        (
            _step(1997, "2.extern", HYBRID, start=99133),
            _carries(machines.process(2034, "sleep", HYBRID, start=99243), "1"),
        ),
        (
            _step(1997, "2+1.0", f"{SCOPE}/job_2/step_0/slurm"),
            _carries(machines.process(2034, "sleep", f"{SCOPE}/job_2/step_0/user/task_0"), "1"),
        ),
        (
            _step(1997, "2.0", f"{SCOPE}/{SLUID}/step_0/slurm"),
            _carries(machines.process(2034, "sleep", f"{SCOPE}/{SLUID}/step_0/user/task_0"), "1"),
        ),
        (
            _step(1997, "2.extern", "4:memory:/slurm/uid_2001/job_2/step_extern"),
            _carries(machines.process(2034, "sleep", "4:memory:/slurm/uid_2001/job_2/step_0/task_0"), "1"),
        ),
    ],
    ids=["hybrid", "unified", "sluid", "v1"],
)
def test_the_number_that_a_task_carries_decides_nothing(step: dict[str, str], task: dict[str, str]) -> None:
    """A later component of a heterogeneous job, `salloc` inside a job, an invented number."""
    assert _judged(step, task).status == "healthy"


@pytest.mark.parametrize("cgroup", [LOGIN, "0::/system.slice/ssh.service", "0::/"])
def test_what_slurm_did_not_start_is_no_leftover_whatever_it_carries(cgroup: str) -> None:
    assert _judged(_carries(machines.process(300, "tmux", cgroup), "999")).status == "healthy"


@pytest.mark.parametrize(
    "forged",
    [
        f"0::/user.slice/user-2001.slice/user@2001.service/{part}"
        for part in ("slurmstepd.scope/job_9/step_0", "slurmd.service", "system.slice/slurmstepd.scope/job_9/step_0")
    ]
    + ["0::/machine.slice/c/user.slice/user-2001.slice/user@2001.service/slurmd.service"],
)
def test_a_control_group_that_a_user_made_drains_no_node(forged: str) -> None:
    assert _judged(machines.process(300, "sleep", forged)).status == "healthy"


@pytest.mark.parametrize(
    ("cgroup", "of"),
    [
        (f"{SCOPE}/job_6/step_0/user/task_0", " of job 6"),
        (f"0::/system.slice/gpu1_slurmstepd.scope/{SLUID}/step_batch/user/task_0", f" of job {SLUID}"),
        ("4:memory:/slurm_gpu1/uid_2001/job_6/step_0/task_0\n1:name=systemd:/system.slice/slurmd.service", " of job 6"),
        (HYBRID, ""),  # older than the job that runs
    ],
    ids=["unified", "sluid", "v1", "hybrid"],
)
@pytest.mark.parametrize("running", [False, True])
def test_a_process_of_a_job_that_is_over_is_named(cgroup: str, of: str, running: bool) -> None:
    folder = f"{SCOPE}/job_7/step_batch/slurm" if of else HYBRID
    step = _step(100, "7.batch", folder, start=2000) if running else {}
    verdict = _judged(step, machines.process(102, "sleep (1)", cgroup, start=1999))

    assert verdict.reason == f"expected no process of a finished job, found sleep (1) (102){of}"


def test_where_jobs_have_control_groups_what_a_prolog_started_for_a_user_is_no_leftover() -> None:
    keeper = machines.process(104, "slurmstepd", f"{SCOPE}/system", uid=0, title="/usr/sbin/slurmstepd\0infinity")
    service = machines.process(102, "agent", "0::/system.slice/slurmd.service", start=10)

    assert _judged(service).status == "unhealthy"
    assert _judged(service, keeper).status == "healthy"


def test_a_users_program_that_calls_itself_a_step_daemon_hides_nothing() -> None:
    left = machines.process(102, "sleep", f"{SCOPE}/job_6/step_0/user/task_0")

    assert _judged(_step(101, "6.0", f"{SCOPE}/job_6/step_0/user/task_0", uid=2001), left).status == "unhealthy"


def test_daemons_and_the_dead_are_no_leftovers() -> None:
    dead = machines.process(102, "sleep", f"{SCOPE}/job_6/step_0/user/task_0")
    dead["/proc/102/stat"] = dead["/proc/102/stat"].replace(" S ", " Z ")
    root = machines.process(103, "root-daemon", f"{SCOPE}/job_6/step_0/user/task_0", uid=0)
    keeper = machines.process(104, "slurmstepd", f"{SCOPE}/system", uid=0, title="/usr/sbin/slurmstepd\0infinity")

    assert _judged(dead, root, keeper).status == "healthy"


def test_the_owner_of_a_process_is_its_real_user() -> None:
    """The folder of a program that may not be dumped, such as ssh-agent, is root's."""
    agent = machines.process(102, "ssh-agent", f"{SCOPE}/job_6/step_0/user/task_0")
    agent["/proc/102/status"] = "Name:\tssh-agent\nUid:\t2001\t0\t0\t0\n"

    assert "ssh-agent (102) of job 6" in _judged(agent).reason


def test_where_slurmd_has_no_control_group_the_check_does_not_run() -> None:
    slurmd = machines.process(40, "slurmd", "0::/", uid=0)

    assert _judged(slurmd).status == "not run"
    assert _judged(slurmd, machines.process(102, "sleep", f"{SCOPE}/job_6/step_0")).status == "unhealthy"


def test_without_the_right_to_look_leftovers_are_unknown() -> None:
    machine = _machine(machines.process(102, "sleep", f"{SCOPE}/job_6/step_0"))
    read = machine.read
    machine.read = lambda path: read(path) if "status" not in path else _denied()  # type: ignore[method-assign]

    assert machines.judge(machine, machines.expectations("lab"), names=["leftovers"])["leftovers"].status == "unknown"


def _denied() -> str:
    raise PermissionError(13, "Permission denied")


def test_no_name_in_slurm_is_taken_for_that_of_a_job() -> None:
    groups = {
        f"{SCOPE}/job_7": "job_7",
        f"{SCOPE}/system": "system",
        "0::/system.slice/slurmdbd.service": None,
        "0::/system.slice/slurmd.service": "",
        "0::/system.slice/gpu1_slurmd.service/x": "",
        f"{SCOPE}/job_7/step_0/user/task_0/slurmstepd.scope/job_9": "job_7",
        # A user names groups of the own service; these characters end lines for str.splitlines.
        **dict.fromkeys((f"0::/user.slice/a{end}0::/slurmstepd.scope/job_9" for end in "\f\x1e\u2028\r"), None),
        "": None,
    }

    assert {text: leftovers._group(text) for text in groups} == groups
