# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the program reads from Slurm and writes to it."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.cloud import ElasticError
from ansible_collections.hpcai.gpucluster.plugins.module_utils._elastic.slurm import Slurm, resume_request

# The keys are those of power_save.html of Slurm 24.11 and of 26.05, which adds exclusive.
JOB_24 = {
    "extra": None,
    "features": "c1,c2",
    "job_id": 140814,
    "nodes_alloc": "cloud[1-4]",
    "nodes_resume": "cloud[1-3]",
    "oversubscribe": "OK",
    "partition": "cloud",
    "reservation": None,
}
SHAPES: dict[str, t.Any] = {
    "24.11": {
        "all_nodes_resume": "cloud[1-3,7-8]",
        "jobs": [JOB_24, {**JOB_24, "job_id": 2, "nodes_resume": "cloud7"}],
    },
    "26.05": {"all_nodes_resume": "cloud[1-3]", "jobs": [{**JOB_24, "exclusive": "NODE", "priority": 4294901758}]},
    "by scontrol": {"all_nodes_resume": "cloud1", "jobs": []},
}
# As scontrol 24.11.5 prints them.
NODES = (
    "NodeName=c1 CoresPerSocket=48 CPUAlloc=0 CPUEfctv=96 CPUTot=96 CPULoad=0.00 AvailableFeatures=h100 "
    "ActiveFeatures=h100 Gres=gpu:h100:8 NodeAddr=c1 NodeHostName=c1 RealMemory=1900000 AllocMem=0 FreeMem=N/A "
    "Sockets=2 Boards=1 State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A "
    "Partitions=batch  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown ResumeAfterTime=None CfgTRES=cpu=96 "
    "AllocTRES= CurrentWatts=0 AveWatts=0\n"
    "NodeName=c2 Arch=x86_64 State=DOWN+CLOUD+POWERED_DOWN ThreadsPerCore=1 Partitions=batch  CfgTRES=cpu=96 "
    "AllocTRES= Reason=ResumeTimeout reached [slurm@2026-11-22T10:00:00] \n"
)


@pytest.mark.parametrize(
    ("name", "nodes"), [("24.11", "cloud[1-3,7-8]"), ("26.05", "cloud[1-3]"), ("by scontrol", "cloud1")]
)
def test_a_resume_file_names_nodes_and_jobs(name: str, nodes: str) -> None:
    found = resume_request("argument", json.dumps(SHAPES[name]))

    assert found.nodes == nodes
    assert [line.split()[1] for line in found.jobs] == [str(job["job_id"]) for job in SHAPES[name]["jobs"]]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "3", '{"jobs": null}', '{"all_nodes_resume": null, "jobs": [3]}']
)
def test_without_a_usable_file_the_argument_counts(text: str) -> None:
    assert resume_request("cloud[1-2]", text) == ("cloud[1-2]", ())


def test_states_and_reasons_of_nodes() -> None:
    nodes = Slurm(lambda *_arguments: (0, NODES, "")).nodes()

    assert nodes["c1"].flags == {"IDLE", "CLOUD", "POWERED_DOWN"}
    assert (nodes["c1"].off, nodes["c1"].lost, nodes["c1"].reason) == (True, False, "")
    assert nodes["c2"].lost


@pytest.mark.parametrize(
    ("code", "out"),
    [
        (1, ""),
        (124, NODES),
        (0, ""),
        (0, "No nodes in the system"),
        (0, NODES[:-1]),
        (0, NODES[:200]),
        (0, f"{NODES}scontrol: error\n"),
        (0, NODES.replace("ActiveFeatures=h100", "OS=x State=IDLE y\nNodeName=c2 x State=IDLE+CLOUD+POWERING_DOWN y")),
    ],
)
def test_no_answer_is_no_empty_cluster(code: int, out: str) -> None:
    with pytest.raises(ElasticError):
        Slurm(lambda *_arguments: (code, out, "error")).nodes()


@pytest.mark.parametrize(
    ("out", "active"),
    [
        ("Slurmctld(primary) at control is UP\n", True),
        ("Slurmctld(primary) at control is UP\nSlurmctld(backup) at other is UP\n", True),
        ("Slurmctld(primary) at other is UP\nSlurmctld(backup) at control is UP\n", False),
        ("Slurmctld(primary) at other is DOWN\nSlurmctld(backup) at control is UP\n", True),
        ("Slurmctld(primary) at control is DOWN\n*****\n", False),
        ("", False),
    ],
)
def test_only_the_controller_that_leads_is_active(out: str, active: bool) -> None:
    assert Slurm(lambda *_arguments: (1, out, "")).active("control.example.org") is active


@pytest.mark.parametrize("changed", ["NodeHostName=hpc-H100-000000 ", ""])
def test_the_host_name_of_a_machine_is_read(changed: str) -> None:
    text = NODES.replace("NodeHostName=c1 ", changed)

    assert Slurm(lambda *_arguments: (0, text, "")).nodes()["c1"].host == changed.lower()[13:-1]


def test_nodes_with_jobs_are_asked_for_by_name() -> None:
    seen: list[list[str]] = []

    def run(argv: list[str], *_more: t.Any) -> tuple[int, str, str]:
        seen.append(argv)
        return 0, "c[1-2]\nc9\n" if argv[0] == "squeue" else "c1\nc2\nc9\n", ""

    assert Slurm(run).busy(["c2", "c1", "c3"]) == {"c1", "c2"}
    assert seen[0][0] == "squeue"
    assert "--nodelist=c1,c2,c3" in seen[0]
    assert "--states=running,suspended,configuring,resizing,signaling,stopped" in seen[0]
    assert seen[1] == ["scontrol", "show", "hostnames", "c[1-2],c9"]


def test_a_thousand_nodes_need_few_commands() -> None:
    seen: list[list[str]] = []

    def run(argv: list[str], *_more: t.Any) -> tuple[int, str, str]:
        seen.append(argv)
        return 0, "", ""

    Slurm(run).release([f"node-{n:05d}" for n in range(1000)])

    assert [argv[-1] for argv in seen] == ["state=RESUME"] * 2
    assert all(len(argv[2]) < 100_000 for argv in seen)
