# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Figures from what Slurm 24.11.5 printed for two nodes with eight GPUs each, one drained, and six jobs."""

from __future__ import annotations

import json
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


def test_a_state_is_also_read_as_text(state: slurm.State) -> None:
    nodes = [{**node, "state": "+".join(node["state"])} for node in state.nodes]
    jobs = [{**job, "job_state": "+".join(job["job_state"])} for job in state.jobs]

    assert slurm.endpoint(state._replace(nodes=nodes, jobs=jobs)) == slurm.endpoint(state)


@pytest.mark.parametrize("command", ["scontrol", "squeue"])
def test_a_list_that_names_something_twice_is_refused(command: str) -> None:
    def twice(args: t.Sequence[str]) -> tuple[int, str, str]:
        code, text, err = answer(args)
        told = json.loads(text)
        if args[0] == command:
            key = "nodes" if command == "scontrol" else "jobs"
            told[key] += told[key][:1]
        return code, json.dumps(told), err

    with pytest.raises(slurm.SlurmError, match=r"Slurm lists the (name|job_id) \w+ twice"):
        slurm.read(twice)


@pytest.mark.parametrize("value", [-1, 0xFFFFFFFE, float("nan"), float("inf"), "8", [8]])
def test_what_is_no_figure_is_refused(value: t.Any, state: slurm.State) -> None:
    """A text counted as its number, and a negative or unset figure as it stood."""
    unset = {"set": True, "infinite": True, "number": 0}
    nodes = [{**node, "free_mem": unset} for node in state.nodes]
    assert "slurm_node_memory_free_bytes" not in {one.name for one in slurm.endpoint(state._replace(nodes=nodes))}

    nodes = [{**node, "cpus": value} for node in state.nodes]
    with pytest.raises(ValueError, match="where a figure belongs"):
        slurm.endpoint(state._replace(nodes=nodes))


@pytest.mark.parametrize("record", [None, [], "gpu1", {}, {"name": None}, {"name": ["gpu1"]}])
def test_a_record_without_a_name_is_refused(record: t.Any) -> None:
    def run(args: t.Sequence[str]) -> tuple[int, str, str]:
        return (0, json.dumps({"nodes": [record]}), "") if args[0] == "scontrol" else answer(args)

    with pytest.raises(slurm.SlurmError, match="which has no name"):
        slurm.read(run)


def test_a_job_without_a_number_is_refused(state: slurm.State) -> None:
    with pytest.raises(ValueError, match="'206,0' where a figure belongs"):
        slurm.own(state._replace(jobs=[{**job, "job_id": "206,0"} for job in state.jobs]))


@pytest.mark.parametrize("value", ["", ["N/A"], ["\ufeffIDLE"], [None], "0x", None, {}])
def test_what_is_no_state_is_refused(value: t.Any, state: slurm.State) -> None:
    with pytest.raises(ValueError, match="where a state belongs"):
        slurm.endpoint(state._replace(nodes=[{**state.nodes[0], "state": value}]))


def test_jobs_by_state(state: slurm.State) -> None:
    found = values(slurm.endpoint(state))

    # One of the records is an array of five pending tasks.
    assert (found["slurm_jobs"], found["slurm_jobs_running"], found["slurm_jobs_pending"]) == (10, 2, 8)
    assert (found["slurm_jobs_hold"], found["slurm_jobs_gpus_alloc"], found["slurm_jobs_nodes_alloc"]) == (1, 8, 3)
    batch = values(slurm.endpoint(state), partition="batch")
    assert (batch["slurm_partition_gpus"], batch["slurm_partition_jobs_gpus_alloc"]) == (16, 8)
    assert (batch["slurm_partition_nodes_draining"], batch["slurm_partition_jobs_pending"]) == (1, 8)


def test_the_scheduler(state: slurm.State) -> None:
    found = values(slurm.endpoint(state))

    assert set(slurm.SCHEDULER) <= set(found)
    assert state.statistics
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
    assert queue == {"Resources": 1, "JobHeldUser": 1, "Priority": 6}


def test_a_drain_of_a_person_is_not_one_of_a_check(state: slurm.State) -> None:
    nodes = [{**node, "reason": "new cables"} for node in state.nodes]

    (drained,) = [one.labels for one in slurm.own(state._replace(nodes=nodes)) if "node" in one.labels][:1]

    assert drained["by"] == "other"


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("gpu:h100:4(IDX:0-1,5,7)", [0, 1, 5, 7]),
        ("gpu:1(IDX:3)", [3]),
        ("gpu:(null):2(IDX:0-1)", [0, 1]),
        ("gpu:a100:1(IDX:0),gpu:h100:1(IDX:1)", [0, 1]),
        ("gpu:h100:0(IDX:)", []),
        ("shard:4(0/8)", []),
        ("", []),
    ],
)
def test_every_form_of_a_list_of_gpus(detail: str, expected: list[int], state: slurm.State) -> None:
    job = {**state.jobs[1], "gres_detail": [detail]}

    assert [index for _node, index in slurm.devices(job)] == expected


@pytest.mark.parametrize(
    ("tasks", "count"),
    [
        ("", 1),
        ("1-50%2", 50),  # sbatch --hold --array=1-50%2
        ("7", 1),
        ("1,3,5-7", 5),
        ("0-100:10%4", 11),
    ],
)
def test_tasks_of_a_pending_array_count_as_jobs(tasks: str, count: int, state: slurm.State) -> None:
    jobs = [{**state.jobs[4], "array_task_string": tasks, "hold": True}]
    found = values(slurm.endpoint(state._replace(jobs=jobs)))

    assert (found["slurm_jobs"], found["slurm_jobs_pending"], found["slurm_jobs_hold"]) == (count, count, count)
    assert slurm.queue(jobs) == {("batch", "Priority"): count}
    assert slurm.tasks({**jobs[0], "job_state": ["RUNNING"]}) == 1


@pytest.mark.parametrize("tasks", ["1,3,5...", "1-", "5-1", "1-5:0", "0x7f"])
def test_a_list_of_tasks_that_is_cut_is_no_number(tasks: str, state: slurm.State) -> None:
    with pytest.raises(ValueError, match=f"job 5 has unreadable tasks: '{tasks}'"):
        slurm.tasks({**state.jobs[4], "array_task_string": tasks})


def test_nodes_of_a_job_before_24_05(state: slurm.State) -> None:
    """Form of data_parser v0.0.40: the nodes are a hostlist, and their names have a list of their own."""
    old = {"nodes": "gpu[1-2]", "allocated_nodes": [{"nodename": name, "cpus_used": 1} for name in ("gpu1", "gpu2")]}
    one = {"nodes": "gpu1", "allocated_hosts": 1}

    assert list(slurm.devices({**state.jobs[0], "job_resources": old})) == list(slurm.devices(state.jobs[0]))
    assert list(slurm.devices({**state.jobs[1], "job_resources": one})) == list(slurm.devices(state.jobs[1]))


@pytest.mark.parametrize(
    ("tres", "count"),
    [
        ("cpu=4,mem=10G,node=1,billing=4,gres/gpu:h100=8", 8),
        ("cpu=4,gres/gpu=8,gres/gpu:h100=8", 8),
        ("gres/gpu:a100=4,gres/gpu:h100=2", 6),
        ("gres/gpumem=80,gres/shard=4", 0),
        (None, 0),
    ],
)
def test_gpus_of_a_list_of_resources(tres: str | None, count: int) -> None:
    assert slurm.gpus(tres) == count


def test_gpus_are_known_without_accounting_of_them(state: slurm.State) -> None:
    """AccountingStorageTRES of the site has no gres/gpu: Slurm 24.11 leaves it out of each list."""

    def bare(records: t.Sequence[t.Any]) -> list[t.Any]:
        keys = ("tres", "tres_used", "tres_alloc_str")
        return [{**one, **{key: one[key].partition(",gres/gpu")[0] for key in keys if key in one}} for one in records]

    without = state._replace(nodes=bare(state.nodes), jobs=bare(state.jobs))

    assert slurm.endpoint(without) == slurm.endpoint(state)
    assert slurm.own(without) == slurm.own(state)
    untyped = {**without.nodes[0], "gres": "gpu:8", "gres_used": "gpu:(null):6(IDX:0-2,4-6)"}
    assert slurm.node_gpus(untyped) == (8, 6)


def test_memory_that_is_not_known_is_missing(state: slurm.State) -> None:
    """A node that has not registered has no free memory: free_mem is not set."""
    node = {**state.nodes[0], "free_mem": {"set": False, "infinite": False, "number": 0}}
    found = values(slurm.endpoint(state._replace(nodes=[node])), node="gpu1")

    assert "slurm_node_memory_free_bytes" not in found
    assert found["slurm_node_memory_bytes"] == 972 << 20


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
