# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import job
from ansible_collections.hpcai.gpucluster.plugins.modules import nccl_test

FIXTURES = Path(__file__).parents[2] / "fixtures"
GOOD = (FIXTURES / "nccl_tests/2.19.6/2xh200-srun-pmix.txt").read_text(encoding="utf-8")
OVER = (FIXTURES / "slurm/24.11.5/job-cancelled.txt").read_text(encoding="utf-8")
RUNNING = (FIXTURES / "slurm/24.11.5/job-running.txt").read_text(encoding="utf-8")

PARAMS: dict[str, t.Any] = {
    "name": "test",
    "job_id": None,
    "partition": "main",
    "exclusive": True,
    "time_limit": 15,
    "pending_timeout": 5,
    "submit_options": {"account": "a"},
    "groups": [["gpu1", "gpu2"], ["gpu3", "gpu4"]],
    "collectives": ["all_reduce"],
    "command": ["/opt/{collective}_perf"],
    "tasks_per_node": 8,
    "cpus_per_task": 12,
    "cpu_bind": "mask_cpu:ff,ff00",
    "gpus_per_node": 8,
    "mpi": "pmix",
    "container_image": None,
    "container_mounts": [],
    "environment": {"NCCL_DEBUG": "WARN"},
    "min_bytes": "8",
    "max_bytes": "4G",
    "factor": 2,
    "iterations": 20,
    "repeat": 1,
    "timeout": 60,
}


class FakeCluster:
    """A cluster where one pair hangs."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, args: t.Sequence[str], _data: str | None = None) -> tuple[int, str, str]:
        self.calls.append(list(args))
        if args[0] == "sbatch":
            return 0, "17", ""
        if args[0] == "scontrol":
            return 0, RUNNING, ""
        if args[0] == "timeout":
            return (124, GOOD[:1800], "") if "--nodelist=gpu3,gpu4" in args else (0, GOOD, "")
        return 0, "", ""


def test_pairs_are_measured_in_one_allocation_that_is_given_back() -> None:
    fake = FakeCluster()
    found = nccl_test.measure(job.Slurm(fake), PARAMS)

    assert [result["busbw"] for result in found["results"]] == [345.36, None]
    assert next(call for call in fake.calls if call[0] == "sbatch")[2:6] == [
        "--job-name=test",
        "--nodes=4",
        "--nodelist=gpu1,gpu2,gpu3,gpu4",
        "--partition=main",
    ]
    assert fake.calls[-1] == ["scancel", "--quiet", "17"]


def test_a_hung_pair_has_failed_and_says_so() -> None:
    result = nccl_test.measure(job.Slurm(FakeCluster()), PARAMS)["results"][1]

    assert result["state"] == "failed"
    assert "took too long" in result["message"]
    assert result["busbw"] is None
    assert result["log"]


class ShortAllocation(FakeCluster):
    """The job ends while the first steps run."""

    def __call__(self, args: t.Sequence[str], data: str | None = None) -> tuple[int, str, str]:
        code, out, err = super().__call__(args, data)
        stepped = any(call[0] == "timeout" for call in self.calls)
        return (0, OVER, "") if args[0] == "scontrol" and stepped else (code, out, err)


def test_what_the_allocation_leaves_no_time_for_has_not_failed() -> None:
    params = {**PARAMS, "collectives": ["all_reduce", "alltoall"]}
    results = nccl_test.measure(job.Slurm(ShortAllocation()), params)["results"]

    assert [result["state"] for result in results] == ["ok", "not_measured", "not_measured", "not_measured"]
    assert results[3]["message"] == "job 17 was CANCELLED before this was measured"
    assert results[3]["busbw"] is None


def test_an_allocation_in_which_nothing_was_measured_is_an_error() -> None:
    with pytest.raises(job.SlurmError, match="job 17 was CANCELLED before anything was measured"):
        nccl_test.measure(job.Slurm(ShortAllocation()), {**PARAMS, "groups": [["gpu3", "gpu4"]]})


def test_a_group_without_nodes_is_no_job() -> None:
    fake = FakeCluster()

    with pytest.raises(job.SlurmError, match="a group without nodes"):
        nccl_test.measure(job.Slurm(fake), {**PARAMS, "groups": [[]]})
    assert fake.calls == []


@pytest.mark.parametrize(("output", "world"), [(GOOD, 2), (GOOD + GOOD, 1), ("", 0)])
def test_processes_that_do_not_find_each_other_are_no_world(output: str, world: int) -> None:
    step = nccl_test.step(PARAMS, ["gpu1"], "all_reduce")
    found = nccl_test.result(["gpu1"], "all_reduce", job.Result(step, 0, output, "", 1.0), PARAMS)

    assert found["world"] == world
    assert found["devices"] == (["NVIDIA H200"] if output else [])


def test_wrong_results_are_marked() -> None:
    said = (FIXTURES / "nccl_tests/2.19.6/4xh200-hypercube.txt").read_text(encoding="utf-8")
    step = nccl_test.step(PARAMS, ["gpu1"], "hypercube")
    found = [
        nccl_test.result(["gpu1"], "hypercube", job.Result(step, code, output, "", 1.0), PARAMS)
        for code, output in [(1, said), (0, GOOD), (1, GOOD[:1800])]
    ]

    assert [result["wrong"] for result in found] == [True, False, False]
    assert found[0]["message"].startswith("wrong results: 8 values")


def test_the_program_gets_the_arguments_of_nccl_tests() -> None:
    assert nccl_test.program(PARAMS, "alltoall") == [
        *["/opt/alltoall_perf", "-b", "8", "-e", "4G", "-f", "2", "-n", "20", "-c", "1", "-g", "1"]
    ]


def test_srun_gets_one_task_per_gpu_with_its_pins() -> None:
    options = nccl_test.step_options(PARAMS, 2)

    assert "--ntasks=16" in options
    assert "--mpi=pmix" in options
    assert "--cpu-bind=mask_cpu:ff,ff00" in options
    assert "--export=ALL,NCCL_DEBUG=WARN" in options


def test_every_operation_is_measured_on_every_group_as_often_as_asked() -> None:
    params = {**PARAMS, "collectives": ["all_reduce", "alltoall"], "repeat": 2}

    assert len(nccl_test.measurements(params)) == 8


def test_a_figure_of_a_smaller_size_than_asked_for_is_none() -> None:
    (result,) = nccl_test.measure(
        job.Slurm(FakeCluster()), {**PARAMS, "groups": [["gpu1", "gpu2"]], "max_bytes": "8G"}
    )["results"]

    assert (result["state"], result["busbw"]) == ("failed", None)
    assert result["message"] == "measured up to 4294967296 bytes only, not 8589934592"
