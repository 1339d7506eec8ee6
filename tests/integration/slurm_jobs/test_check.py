# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who runs the checks of check.yml, as what, and what is left afterwards; the health program wants to be root."""

from __future__ import annotations

import json
import typing as t

import pytest

if t.TYPE_CHECKING:
    from .conftest import Cluster


def _report(cluster: Cluster) -> dict[str, t.Any]:
    return t.cast("dict[str, t.Any]", json.loads((cluster.folder / "check.json").read_text(encoding="utf-8")))


def test_healthy_nodes_pass_in_a_job_of_root_that_is_gone_afterwards(cluster: Cluster) -> None:
    assert cluster.run("check.yml") == 0, cluster.output[-3000:]
    (job,) = cluster.calls("sbatch")
    (step,) = cluster.calls("srun")

    assert sorted(_report(cluster)["nodes"]) == ["gpu1", "gpu2"]
    assert {"--exclusive", "--time=90", "--mem=0", "--job-name=gpucluster-check", "root=True"} <= set(job)
    assert {"--nodes=2", "--gpus-per-node=8", "--kill-on-bad-exit=0", "root=True"} <= set(step)
    assert cluster.calls("scancel") == [["--quiet", "17", "root=True"]]


def test_a_sick_node_and_a_drained_one_are_checked_by_the_controller_that_answers(cluster: Cluster) -> None:
    cluster.lose("head")
    cluster.nodes["gpu1"]["healthy"] = False
    cluster.nodes["gpu2"] |= {"state": "drained", "gpus": 0}

    assert cluster.run("check.yml", check_nodes="gpu1,gpu2") == 2
    assert _report(cluster)["summary"] == ["gpu1: gpu_xid: unhealthy: Xid 79"], cluster.output[-3000:]
    assert sorted(_report(cluster)["nodes"]) == ["gpu1", "gpu2"]


def test_a_job_that_waits_too_long_is_cancelled(cluster: Cluster) -> None:
    cluster.job_state = "PENDING"

    assert cluster.run("check.yml", check_wait_minutes=0) == 2
    assert "did not start within 0 s and was cancelled" in cluster.output
    assert cluster.calls("scancel")[0] == ["--quiet", "17", "root=True"]
    assert not cluster.calls("srun")


def test_a_cluster_without_a_controller_is_not_checked(cluster: Cluster) -> None:
    cluster.lose("head")
    cluster.lose("spare")

    assert cluster.run("check.yml") == 2
    assert "No controller answers: head, spare" in cluster.output


def test_a_node_that_is_down_is_named(cluster: Cluster) -> None:
    cluster.nodes["gpu2"]["state"] = "down*"

    assert cluster.run("check.yml", check_nodes="gpu1,gpu2") == 2
    assert "check_nodes is gpu1,gpu2: gpu2 does not answer. Wait" in cluster.output


def test_what_the_hardware_calls_for_and_did_not_run_is_not_green(cluster: Cluster) -> None:
    cluster.nodes["gpu1"]["others"] = {"nvlink_allreduce": "not run", "nvme": "not applicable"}

    assert cluster.run("check.yml") == 2
    report = _report(cluster)
    assert (report["status"], report["healthy"]) == ("not run", False)
    assert report["summary"] == ["gpu1: nvlink_allreduce: not run: all_reduce_perf is missing"]
    assert "Fail where a check did not run" in cluster.output
    assert "nvlink_allreduce not run" in cluster.output
    assert "FAILED" not in cluster.output.partition("Fail where a check did not run")[0]


def test_what_does_not_apply_to_a_node_is_no_fault(cluster: Cluster) -> None:
    cluster.nodes["gpu1"]["others"] = {"infiniband": "not applicable"}

    assert cluster.run("check.yml") == 0, cluster.output[-3000:]
    assert _report(cluster)["status"] == "healthy"


@pytest.mark.parametrize("state", ["idle", "drained"])
def test_a_machine_may_be_controller_and_node(cluster: Cluster, state: str) -> None:
    cluster.controllers = ["gpu1"]
    cluster.nodes["gpu1"]["state"] = state

    assert cluster.run("check.yml", check_nodes="gpu1,gpu2") == 0, cluster.output[-3000:]
    assert sorted(_report(cluster)["nodes"]) == ["gpu1", "gpu2"]
