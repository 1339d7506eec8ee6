# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures from what Slurm 24.11.5 printed for two nodes with eight GPUs each, one drained, and six jobs."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._monitoring import slurm
from ansible_collections.hpcai.gpucluster.tests.patience import cheap

RECORDED = Path(__file__).parents[3] / "fixtures/slurm/24.11.5"
FILES = {"scontrol": "scontrol-show-nodes", "squeue": "squeue", "sdiag": "sdiag"}


def answer(args: t.Sequence[str]) -> tuple[int, str, str]:
    return 0, (RECORDED / f"{FILES[args[0]]}.json").read_text(encoding="utf-8"), ""


@pytest.fixture
def state() -> slurm.State:
    return slurm.read(answer)


def values(samples: t.Iterable[t.Any], **labels: str) -> dict[str, float]:
    return {one.name: one.value for one in samples if labels.items() <= one.labels.items()}


def test_nodes_and_their_gpus(state: slurm.State) -> None:
    found = values(slurm.endpoint(state))

    assert (found["slurm_nodes"], found["slurm_nodes_drain"], found["slurm_nodes_draining"]) == (2, 1, 1)
    assert (found["slurm_nodes_drained"], found["slurm_nodes_mixed"], found["slurm_nodes_alloc"]) == (0, 1, 1)
    assert values(slurm.endpoint(state), node="gpu1") == {
        "slurm_node_cpus": 2,
        "slurm_node_cpus_alloc": 2,
        "slurm_node_cpus_idle": 0,
        "slurm_node_gpus": 8,
        "slurm_node_gpus_alloc": 6,
        "slurm_node_memory_bytes": 972 << 20,
        "slurm_node_memory_alloc_bytes": 800 << 20,
        "slurm_node_memory_free_bytes": state.nodes[0]["free_mem"]["number"] * 2**20,
    }


def test_jobs_by_state(state: slurm.State) -> None:
    found = values(slurm.endpoint(state))

    assert (found["slurm_jobs"], found["slurm_jobs_running"], found["slurm_jobs_pending"]) == (6, 2, 4)
    assert (found["slurm_jobs_hold"], found["slurm_jobs_gpus_alloc"], found["slurm_jobs_nodes_alloc"]) == (1, 8, 3)
    batch = values(slurm.endpoint(state), partition="batch")
    assert (batch["slurm_partition_gpus"], batch["slurm_partition_jobs_gpus_alloc"]) == (16, 8)
    assert (batch["slurm_partition_nodes_draining"], batch["slurm_partition_jobs_pending"]) == (1, 4)


def test_the_scheduler(state: slurm.State) -> None:
    found = values(slurm.endpoint(state))

    assert set(slurm.SCHEDULER) <= set(found)
    assert found["slurm_bf_cycle_last"] == state.statistics["bf_cycle_last"] > 0
    assert found["slurm_bf_when_last_cycle"] == state.statistics["bf_when_last_cycle"]["number"]
    assert found["slurm_slurmdbd_queue_size"] == 0


def test_each_gpu_has_its_job_and_its_user(state: slurm.State) -> None:
    devices = {
        (one.labels["node"], one.labels["device"]): (one.labels["job_id"], one.labels["user"])
        for one in slurm.own(state)
        if one.name == "gpucluster_job_gpu"
    }

    assert devices == {
        **{("gpu1", f"nvidia{index}"): ("1", "alice") for index in (0, 1)},
        **{("gpu2", f"nvidia{index}"): ("1", "alice") for index in (0, 1)},
        **{("gpu1", f"nvidia{index}"): ("2", "alice") for index in (2, 3, 4, 5)},
    }


def test_reasons_of_nodes_and_of_the_queue(state: slurm.State) -> None:
    samples = slurm.own(state)

    (drained,) = [one.labels for one in samples if one.name == "gpucluster_node_unavailable"]
    assert (drained["node"], drained["state"], drained["by"]) == ("gpu2", "drain", "health")
    assert drained["reason"].startswith("NHC: gpu_ecc: expected 0")
    queue = {one.labels["reason"]: one.value for one in samples if one.name == "gpucluster_jobs_pending"}
    assert queue == {"Resources": 1, "JobHeldUser": 1, "Priority": 2}


def test_a_drain_of_a_person_is_not_one_of_a_check(state: slurm.State) -> None:
    nodes = [{**node, "reason": "new cables"} for node in state.nodes]

    (drained,) = [one.labels for one in slurm.own(state._replace(nodes=nodes)) if "node" in one.labels][:1]

    assert drained["by"] == "other"


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("gpu:h100:4(IDX:0-1,5,7)", [0, 1, 5, 7]),
        ("gpu:1(IDX:3)", [3]),
        ("gpu:a100:1(IDX:0),gpu:h100:1(IDX:1)", [0, 1]),
        ("gpu:h100:0(IDX:)", []),
        ("shard:4(0/8)", []),
        ("", []),
    ],
)
def test_every_form_of_a_list_of_gpus(detail: str, expected: list[int], state: slurm.State) -> None:
    job = {**state.jobs[1], "gres_detail": [detail]}

    assert [index for _node, index in slurm.devices(job)] == expected


def test_a_job_that_does_not_run_has_no_gpus(state: slurm.State) -> None:
    assert list(slurm.devices({**state.jobs[0], "job_state": ["COMPLETED"]})) == []
    assert list(slurm.devices({**state.jobs[0], "job_resources": None})) == []


@pytest.mark.parametrize(
    ("code", "out"),
    [(1, ""), (124, ""), (127, ""), (0, ""), (0, "{"), (0, "[]"), (0, "null"), (0, "{}"), (0, "slurm_load_node error")],
)
def test_an_answer_without_data_is_an_error_never_an_empty_cluster(code: int, out: str) -> None:
    with pytest.raises(slurm.SlurmError, match="scontrol"):
        slurm.read(lambda _args: (code, out, "Unable to contact slurm controller"))


def test_a_cluster_without_jobs_has_zeros(state: slurm.State) -> None:
    found = values(slurm.endpoint(state._replace(jobs=[])))

    assert (found["slurm_jobs"], found["slurm_jobs_running"], found["slurm_partition_jobs_pending"]) == (0, 0, 0)


def test_names_are_those_of_slurms_endpoint() -> None:
    names = (RECORDED.parent / "26.05.3/metrics.txt").read_text(encoding="utf-8").split()

    assert {one.name for one in slurm.endpoint(slurm.read(answer))} <= set(names)


def test_five_hundred_nodes_and_jobs_take_no_second(state: slurm.State) -> None:
    nodes = [{**state.nodes[0], "name": f"gpu{number}"} for number in range(500)]
    jobs = [{**job, "job_id": number} for number in range(500) for job in state.jobs[:1]]
    with cheap(1):
        slurm.endpoint(slurm.State(nodes, jobs, state.statistics))
        slurm.own(slurm.State(nodes, jobs, state.statistics))
