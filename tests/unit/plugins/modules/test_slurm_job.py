# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import job
from ansible_collections.hpcai.gpucluster.plugins.modules import slurm_job

FIXTURES = Path(__file__).parents[2] / "fixtures/slurm/24.11.5"
PARAMS: dict[str, t.Any] = {
    "state": "finished",
    "name": "test",
    "job_id": None,
    "partition": None,
    "exclusive": True,
    "time_limit": 5,
    "pending_timeout": 2,
    "submit_options": {},
    "command": None,
    "each_node": False,
    "script": None,
    "nodes": None,
    "nodelist": None,
    "step_options": [],
    "timeout": None,
    "output": "/dev/null",
}


class FakeCluster:
    """Knows one job; O(state) names the fixture that describes it."""

    def __init__(self, state: str = "running", queue: str = "") -> None:
        self.state = state
        self.queue = queue
        self.sick: dict[str, str] = {}
        self.calls: list[list[str]] = []
        self.scripts: list[str | None] = []

    def __call__(self, args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        self.calls.append(list(args))
        if args[0] == "sbatch":
            self.scripts.append(data)
            return 0, "206\n", ""
        if args[:3] == ["scontrol", "show", "hostnames"]:
            return 0, "gpu2\n", ""
        if args[0] == "scontrol":
            return 0, (FIXTURES / f"job-{self.state}.txt").read_text(encoding="utf-8"), ""
        if args[0] == "sinfo":
            return 0, "".join(f"{name}|main|drained|24.11.5|gpu:8|96|{why}\n" for name, why in self.sick.items()), ""
        if args[0] == "squeue":
            return 0, self.queue, ""
        if args[0] == "timeout":
            return (3, "", "srun: error: gpu3") if "--nodelist=gpu3" in args else (0, "hello\n", "")
        return 0, "", ""

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]


def run(fake: FakeCluster, check_mode: bool = False, **params: t.Any) -> dict[str, t.Any]:
    return slurm_job.run(job.Slurm(fake, sleep=lambda _seconds: None), {**PARAMS, **params}, check_mode)


def test_one_result_per_node_and_the_nodes_are_given_back() -> None:
    fake = FakeCluster()
    found = run(fake, command=["true"], nodelist=["gpu2", "gpu3"], each_node=True)

    assert [(result["nodes"], result["rc"]) for result in found["results"]] == [(["gpu2"], 0), (["gpu3"], 3)]
    assert found["exit_code"] == 3
    assert fake.calls[-1] == ["scancel", "--quiet", "206"]


def test_check_mode_starts_and_cancels_nothing() -> None:
    fake = FakeCluster(queue="17\n18\n")

    assert run(fake, True, command=["true"])["changed"]
    assert run(fake, True, state="absent") == {"changed": True, "cancelled": [17, 18]}
    assert not {"sbatch", "scancel", "timeout"} & set(fake.names())


def test_absent_cancels_own_jobs_of_the_name_and_nothing_twice() -> None:
    fake = FakeCluster(queue="17\n")
    assert run(fake, state="absent")["cancelled"] == [17]
    assert ["scancel", "--quiet", "17"] in fake.calls
    assert "--me" in fake.calls[0]

    assert run(FakeCluster(queue=""), state="absent") == {"changed": False, "cancelled": []}
    assert run(FakeCluster("failed"), state="absent", job_id=203)["changed"] is False


def test_a_script_is_submitted_and_its_status_returned() -> None:
    fake = FakeCluster("failed")
    found = run(fake, script="#!/bin/sh\nexit 3\n")

    assert (found["state"], found["exit_code"], found["changed"]) == ("FAILED", 3, True)
    assert fake.scripts == ["#!/bin/sh\nexit 3\n"]


def test_started_leaves_the_job_running() -> None:
    fake = FakeCluster("running")
    found = run(fake, state="started")

    assert (found["job_id"], found["state"], found["nodes"]) == (206, "RUNNING", ["gpu2"])
    assert "scancel" not in fake.names()


def test_an_allocation_that_is_over_is_no_allocation() -> None:
    with pytest.raises(job.SlurmError, match="ended before it could be used: it is FAILED"):
        run(FakeCluster("failed"), command=["true"])


def test_a_given_allocation_is_used_and_kept() -> None:
    fake = FakeCluster()
    run(fake, command=["true"], job_id=206, nodelist=["gpu2"])

    assert "sbatch" not in fake.names()
    assert "scancel" not in fake.names()


def test_a_job_is_never_submitted_with_an_empty_list_of_nodes() -> None:
    fake = FakeCluster()

    with pytest.raises(job.SlurmError, match="the list of nodes is empty"):
        run(fake, command=["true"], nodelist=[])
    with pytest.raises(job.SlurmError, match="the list of nodes is empty"):
        run(fake, script="#!/bin/sh\n", nodelist=[])
    assert "sbatch" not in fake.names()


def test_a_job_may_be_requeued_for_slurmd_never_ends_to_complain_about_one_that_may_not() -> None:
    fake = FakeCluster()
    run(fake, command=["true"], nodelist=["gpu2"])
    submitted = next(call for call in fake.calls if call[0] == "sbatch")

    assert "--requeue" in submitted
    assert "--no-requeue" not in submitted


class SickCluster(FakeCluster):
    """Slurm drains gpu2 for its prolog, and ends the job that has it, as 24.11.5 does: CANCELLED, and no more."""

    def __call__(self, args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        if args[0] == "sbatch":
            self.state = "failed" if any("gpu2" in arg for arg in args) else "running"
            if self.state == "failed":
                self.sick["gpu2"] = "expected 8 GPUs, found 2"
        return super().__call__(args, data)


def test_a_node_whose_prolog_fails_is_named_with_the_reason_and_does_not_hide_the_others() -> None:
    fake = SickCluster()
    found = run(fake, command=["true"], nodelist=["gpu1", "gpu2", "gpu3"], each_node=True)

    assert [(result["nodes"], result["rc"], result["lost"]) for result in found["results"]] == [
        (["gpu1"], 0, ""),
        (["gpu2"], 1, "drained: expected 8 GPUs, found 2"),
        (["gpu3"], 3, ""),
    ]
    assert found["exit_code"] == 3


def test_all_nodes_may_be_lost() -> None:
    found = run(SickCluster(), command=["true"], nodelist=["gpu2"], each_node=True)

    assert [result["lost"] for result in found["results"]] == ["drained: expected 8 GPUs, found 2"]
    assert (found["exit_code"], found["job_id"]) == (1, 206)


def test_a_node_that_was_drained_before_the_job_is_named_and_no_job_waits_for_it() -> None:
    fake = FakeCluster()
    fake.sick["gpu2"] = "expected 8 GPUs, found 7"

    with pytest.raises(job.StoppedNodeError, match=r"no job was submitted; gpu2 is drained: expected 8 GPUs, found 7$"):
        run(fake, command=["true"], nodelist=["gpu1", "gpu2"])
    with pytest.raises(job.StoppedNodeError, match="gpu2 is drained"):
        run(fake, script="#!/bin/sh\n", state="started", nodelist=["gpu2"])
    assert "sbatch" not in fake.names()
    each = run(fake, command=["true"], nodelist=["gpu2"], each_node=True)
    assert [result["lost"] for result in each["results"]] == ["drained: expected 8 GPUs, found 7"]
    assert "job_id" not in each


def test_a_job_on_all_nodes_together_says_which_node_ended_it_and_why() -> None:
    with pytest.raises(job.SlurmError, match=r"it is FAILED.*; gpu2 is drained: expected 8 GPUs, found 2"):
        run(SickCluster(), command=["true"], nodelist=["gpu1", "gpu2"])


def test_a_job_that_ends_for_another_reason_is_not_tried_again() -> None:
    fake = FakeCluster("failed")

    with pytest.raises(job.SlurmError, match="ended before it could be used"):
        run(fake, command=["true"], nodelist=["gpu1"], each_node=True)
    assert fake.names().count("sbatch") == 1
