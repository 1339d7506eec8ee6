# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health checks, mounts and certificates of a machine."""

from __future__ import annotations

import shutil
import subprocess
import time
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.memory import Memory
from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import feeding_runner
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.host import Host
from ansible_collections.hpcai.gpucluster.tests.patience import PATIENCE

if t.TYPE_CHECKING:
    from pathlib import Path

FSTAB = """
# a comment /nowhere nfs
UUID=1 / ext4 defaults 0 1
nfs1:/shared /shared nfs hard,nconnect=8 0 0
nfs1:/my\\040data /my\\040data/ nfs4 hard 0 0
nfs1:/old /old nfs noauto,hard 0 0
/swapfile none swap sw 0 0
"""
MOUNTS = "/dev/vda1 / ext4 rw 0 0\nnfs1:/my\\040data /my\\040data nfs4 rw 0 0\n"


def test_a_mount_that_is_gone_is_0() -> None:
    found = {one.labels["mountpoint"]: one.value for one in machine.mounts(FSTAB, MOUNTS)}

    assert found == {"/": 1, "/shared": 0, "/my data": 1}


def test_each_check_has_its_last_verdict(tmp_path: Path) -> None:
    memory = Memory(str(tmp_path), "boot")
    memory.load()
    memory.verdicts = {"gpu_ecc": "unhealthy", "mounts": "not run"}
    memory.save()
    memory.close()
    again = Memory(str(tmp_path), "boot")
    again.load()
    again.close()

    samples = machine.health((tmp_path / "state.json").read_text(encoding="utf-8"), 17.0)

    assert again.verdicts == memory.verdicts
    assert [(one.labels.get("check"), one.labels.get("status"), one.value) for one in samples] == [
        ("gpu_ecc", "unhealthy", 1),
        ("mounts", "not run", 1),
        (None, None, 17),
    ]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"verdicts": {"gpu_ecc": ""}}', '{"verdicts": {"gpu_ecc": "heal"}}'])
def test_a_damaged_state_is_an_error(text: str) -> None:
    with pytest.raises((ValueError, AttributeError)):
        machine.health(text, 0)


@pytest.mark.skipif(not shutil.which("openssl"), reason="needs openssl")
def test_the_end_of_a_certificate(tmp_path: Path) -> None:
    path = tmp_path / "cert.pem"
    request = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "10", "-subj", "/CN=x"]
    begin = time.time()
    subprocess.run([*request, "-keyout", str(tmp_path / "key"), "-out", str(path)], check=True, capture_output=True)
    end = time.time()
    host = Host(feeding_runner(PATIENCE))

    good, missing = machine.certificates([str(path), "/no/such"], host)

    assert begin - 1 <= good.value - 10 * 86400 <= end + 1  # in whole seconds
    assert missing.value == 0


def test_processes_that_the_kernel_killed_for_memory_are_counted_by_job() -> None:
    killed = (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg={0},"
        "task_memcg={0}/step_0/user/task_0,task=python3,pid=9,uid=2001"
    )
    lines = [
        "6,1,1,-;" + killed.format("/system.slice/slurmstepd.scope/job_17"),
        "6,2,2,-;" + killed.format("/slurm/uid_2001/job_17"),
        "6,3,3,-;" + killed.format("/user.slice"),
        "6,4,4,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0-1,global_oom,"
        "task_memcg=/system.slice/slurmstepd.scope/job_18/step_0/user/task_0,task=a,pid=1,uid=0",
        "6,5,5,-;Out of memory: Killed process 9 (python3)",
    ]

    found = [(one.labels["scope"], one.labels["job_id"], one.value) for one in machine.oom_kills(lines)]

    assert found == [("group", "", 1), ("group", "17", 2), ("machine", "18", 1)]


def test_a_machine_that_killed_nothing_has_no_figure() -> None:
    assert machine.oom_kills(["6,1,1,-;hello"]) == []
