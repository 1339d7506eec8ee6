# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the nodes are judged by, and who measures: every measurement gives 345 GB/s."""

from __future__ import annotations

import typing as t

import pytest

if t.TYPE_CHECKING:
    from .conftest import Cluster

A100, H100 = "Standard_ND96asr_v4", "Standard_ND96isr_H100_v5"


def _statuses(cluster: Cluster) -> dict[str, str]:
    checks = cluster.report()["checks"]
    return {item["node"]: item["status"] for item in checks if item["check"] == "nccl.node.all_reduce"}


@pytest.mark.parametrize(("node", "status"), [("gpu1", "fail"), ("gpu2", "pass")])
def test_a_node_is_judged_by_its_own_vm_size(cluster: Cluster, node: str, status: str) -> None:
    cluster.hosts["gpu1"]["gpucluster_vm_size"] = H100
    cluster.hosts["gpu2"]["azure_vm_size"] = A100

    code = cluster.run("validate.yml", only="nccl", nodelist=[node])

    assert _statuses(cluster) == {node: status}, cluster.output[-3000:]
    assert (code == 0) is (status == "pass")


def test_nodes_of_several_vm_sizes_are_not_measured_together(cluster: Cluster) -> None:
    cluster.hosts["gpu1"]["gpucluster_vm_size"] = H100
    cluster.hosts["gpu2"]["gpucluster_vm_size"] = A100

    assert cluster.run("validate.yml", only="nccl") != 0
    assert f"gpu1 is {H100}, gpu2 is {A100}. Choose one size with nodelist" in cluster.report()["worst"][0]
    assert not cluster.calls("sbatch")


def test_one_record_holds_for_all_nodes(cluster: Cluster) -> None:
    cluster.hosts["gpu1"]["gpucluster_vm_size"] = H100
    cluster.variables["validate_hardware"] = f"{{{{ '{A100}' | hpcai.gpucluster.vm_size }}}}"

    assert cluster.run("validate.yml", only="nccl", validate_pair_rounds=1) == 0, cluster.output[-3000:]
    assert _statuses(cluster) == {"gpu1": "pass", "gpu2": "pass"}


def test_nodes_with_and_without_gpus_are_not_measured_together(cluster: Cluster) -> None:
    cluster.nodes["gpu1"]["gpus"] = 0

    assert cluster.run("validate.yml", only="nccl") != 0
    assert "Slurm knows GPUs of gpu2, and none of gpu1. Choose one kind" in cluster.report()["worst"][0]


def test_the_first_controller_that_answers_measures(cluster: Cluster) -> None:
    cluster.hosts["gpu1"]["gpucluster_vm_size"] = A100
    cluster.lose("head")

    assert cluster.run("validate.yml", only="nccl", nodelist=["gpu1"]) == 0, cluster.output[-3000:]
    assert _statuses(cluster) == {"gpu1": "pass"}


def test_a_cluster_without_a_controller_is_not_good(cluster: Cluster) -> None:
    cluster.lose("head")
    cluster.lose("spare")

    assert cluster.run("validate.yml", only="nccl") != 0
    assert cluster.report()["summary"].startswith("did not run although it was asked for: nccl")


def test_a_node_that_the_epilog_drains_is_named_at_once_and_the_others_are_tested(cluster: Cluster) -> None:
    (cluster.folder / "epilog").write_text("expected 8 GPUs, found 7", encoding="utf-8")

    assert cluster.run("validate.yml", validate_stages=["scheduler", "node", "nccl"]) != 0
    report = cluster.report()
    why = "gpu1 is drained: expected 8 GPUs, found 7"
    assert f"stage scheduler: no job was submitted; {why}" in report["worst"]
    tested = {item["node"]: item for item in report["checks"] if item["check"] == "node.check"}
    assert tested["gpu1"]["message"] == "drained: expected 8 GPUs, found 7"
    assert not any("gpu1" in str(job) for job in cluster.calls("sbatch")[1:])


def test_when_no_node_runs_a_job_the_cause_is_shown_and_nothing_runs_elsewhere(cluster: Cluster) -> None:
    (cluster.folder / "prolog").write_text("expected 8 GPUs, found 2", encoding="utf-8")

    assert cluster.run("validate.yml", validate_stages=["scheduler", "node", "nccl"]) != 0
    report = cluster.report()
    assert report["worst"] == [
        "gpu1: job runs: drained: expected 8 GPUs, found 2",
        "gpu2: job runs: drained: expected 8 GPUs, found 2",
        "gpu1: state in Slurm: since this run began: drained: expected 8 GPUs, found 2",
        "gpu2: state in Slurm: since this run began: drained: expected 8 GPUs, found 2",
        "stage node: nothing was done, for none of the chosen nodes ran a job",
        "stage nccl: nothing was done, for none of the chosen nodes ran a job",
    ]
    assert "aggregated" not in str(report), "Jinja's words"
    jobs = cluster.calls("sbatch")
    assert jobs
    assert all(any(option.startswith("--nodelist=gpu") for option in job) for job in jobs)


def test_words_of_the_command_line_are_not_taken_from_the_inventory(cluster: Cluster) -> None:
    cluster.hosts["gpu1"]["gpucluster_vm_size"] = A100
    cluster.variables |= {
        "nodes": ["web1", "web2"],
        "nodelist": "/etc/nodes",
        "partition": "/dev/sda1",
        "only": "on sundays",
        "baseline": "cis-level-1",
    }

    assert cluster.run("validate.yml", validate_stages=["nccl"], validate_nodelist=["gpu1"]) == 0, cluster.output[
        -3000:
    ]
    assert _statuses(cluster) == {"gpu1": "pass"}


def test_the_job_of_a_task_whose_time_is_over_is_cancelled(cluster: Cluster) -> None:
    (cluster.folder / "slow").touch()
    try:
        for limit in (25, 100, 400):  # a slow machine needs a longer one until the job runs
            cluster.environment["ANSIBLE_TASK_TIMEOUT"] = str(limit)
            (cluster.folder / "calls.jsonl").write_text("", encoding="utf-8")
            assert cluster.run("validate.yml", only="nccl", nodelist=["gpu1"]) != 0
            asked = [call[0] for call in cluster.every_call() if call[0] in ("squeue", "sbatch", "srun", "scancel")]
            if "srun" in asked:
                break
    finally:
        (cluster.folder / "slow").unlink()

    assert f"Timed out after {limit} second(s)" in cluster.output, cluster.output[-3000:]
    assert asked[:4] == ["squeue", "scancel", "sbatch", "srun"]
    assert asked[4:6] == ["squeue", "scancel"], "the own jobs, by their name"


def test_wrong_thresholds_are_refused_before_anything_is_measured(cluster: Cluster) -> None:
    thresholds = {"pair": {"warn": 1, "fail": 2}}

    assert cluster.run("validate.yml", only="nccl", validate_thresholds=thresholds) != 0
    assert "validate_thresholds: pair: warn (1) is below fail (2)" in cluster.output
    assert not (cluster.folder / "calls.jsonl").exists()
