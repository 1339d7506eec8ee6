# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measuring program says with its exit status."""

from __future__ import annotations

import json

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

SIZE = "standard_nd96isr_h100_v5"


@pytest.mark.parametrize(("status", "verdict"), [(7, "unhealthy"), (1, "unknown"), (3, "unknown"), (124, "unknown")])
def test_only_wrong_results_of_nccl_are_a_fault_of_the_node(status: int, verdict: str) -> None:
    machine = machines.healthy(SIZE)
    machine.tools["all_reduce_perf"] = machines.says("# nothing\n", status)
    found = machines.judge(machine, machines.expectations(SIZE), names=["nvlink_allreduce"])["nvlink_allreduce"]

    assert found.status == verdict
    assert ("wrong results" in found.reason) == (status == 7)


@pytest.mark.parametrize(("words", "verdict"), [("Pass", "healthy"), ("Fail", "unhealthy")])
def test_dcgm_is_read_whatever_its_exit_status(words: str, verdict: str) -> None:
    report = {"DCGM Diagnostic": {"test_categories": [{"category": "Memory", "tests": [{"status": words}]}]}}
    machine = machines.healthy(SIZE)
    machine.tools["dcgmi"] = machines.says(json.dumps(report), 226)
    found = machines.judge(machine, machines.expectations(SIZE, dcgm={"level": 2}), names=["dcgm"])["dcgm"]

    assert found.status == verdict


def test_a_dcgm_that_hangs_says_nothing() -> None:
    machine = machines.healthy(SIZE)
    machine.tools["dcgmi"] = machines.hangs

    assert (
        machines.judge(machine, machines.expectations(SIZE, dcgm={"level": 2}), names=["dcgm"])["dcgm"].status
        == "unknown"
    )
