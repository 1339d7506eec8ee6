# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measuring program says with its exit status."""

from __future__ import annotations

import json
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import throughput
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import UnknownError
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

SIZE = "standard_nd96isr_h100_v5"


@pytest.mark.parametrize(("status", "verdict"), [(7, "unhealthy"), (1, "unknown"), (3, "unknown"), (124, "unknown")])
def test_only_wrong_results_of_nccl_are_a_fault_of_the_node(status: int, verdict: str) -> None:
    machine = machines.healthy(SIZE)
    machine.tools["all_reduce_perf"] = machines.says("# nothing\n", status)
    found = machines.judge(machine, machines.expectations(SIZE), names=["nvlink_allreduce"])["nvlink_allreduce"]

    assert found.status == verdict
    assert ("wrong results" in found.reason) == (status == 7)


def test_a_damaged_figure_of_nccl_says_nothing() -> None:
    row = " 17179869184 4294967296 float sum -1 2317.2 231.6 {} 0 2318.1 231.5 347.30 0\n"
    rest = "# Out of bounds values : 0 OK\n# Avg bus bandwidth : 347.4\n"

    assert throughput.busbw(row.format("347.50") + rest) == 347.5
    with pytest.raises(UnknownError, match=r"the printed average is 347\.4 GB/s, but the mean of the 1 rows is 647\.4"):
        throughput.busbw(row.format("947.50") + rest)


@pytest.mark.parametrize("cells", [["55.1", "N/A"], ["55.1", "5x.1"], ["55.1", "inf"], ["55.1"]])
def test_a_gpu_that_nvbandwidth_did_not_measure_is_never_healthy(cells: list[str]) -> None:
    case = {"name": "x", "status": "Passed", "bandwidth_matrix": [cells]}
    found = throughput.copies(json.dumps({"nvbandwidth": {"testcases": [case]}}), "x")

    with pytest.raises(UnknownError, match="nvbandwidth measured 1 of 2 GPUs"):
        throughput.judge_copies(48, found, 2)


@pytest.mark.parametrize("figure", ["99999", 99999, "129"])
def test_a_figure_above_the_path_of_the_record_is_no_measurement(figure: str | float) -> None:
    machine = machines.healthy(SIZE)
    case = {"status": "Passed", "bandwidth_matrix": [[*["55.1"] * 7, figure]]}
    report = {"nvbandwidth": {"testcases": [{**case, "name": "host_to_device_memcpy_ce"}]}}
    row = " 17179869184 4294967296 float sum -1 2317.2 231.6 {0} 0 2318.1 231.5 {0} 0\n# Out of bounds values : 0 OK\n"
    machine.tools["nvbandwidth"] = machines.says(json.dumps(report))
    machine.tools["all_reduce_perf"] = machines.says(row.format("99999.00") + "# Avg bus bandwidth : 99999\n")
    verdicts = machines.judge(machine, machines.expectations(SIZE), names=["host_to_device", "nvlink_allreduce"])

    assert {name: (one.status, one.reason) for name, one in verdicts.items()} == {
        "host_to_device": ("unknown", f"{figure} GB/s is no measurement: at most 64 GB/s is possible"),
        "nvlink_allreduce": ("unknown", "99999 GB/s is no measurement: at most 900 GB/s is possible"),
    }


def test_a_table_without_its_average_is_not_complete() -> None:
    row = " 17179869184 4294967296 float sum -1 2317.2 231.6 347.5 0 2318.1 231.5 347.5 0\n"

    with pytest.raises(UnknownError, match="printed no complete table"):
        throughput.busbw(row + "# Out of bounds values : 0 OK\n")


def test_a_failed_diagnosis_names_test_and_reason() -> None:
    tests = [{"name": "PCIe", "results": [{"gpu_id": "3", "status": "Fail", "warnings": "too many replays"}]}]
    skipped = [{"name": "Memory", "results": [{"gpu_id": "0", "status": "Skip", "info": "not this level"}]}]

    assert "failed: PCIe: GPU 3: too many replays" in throughput.judge_dcgm(1, json.dumps({"tests": tests})).reason
    with pytest.raises(UnknownError, match=r"no test that passed: Memory: GPU 0: not this level \(skip\)"):
        throughput.judge_dcgm(1, json.dumps({"tests": skipped}))


@pytest.mark.parametrize(
    "more",
    [
        {"runtime_error": "The diagnostic was killed by signal 9"},
        {"tests": [{"name": "memory", "results": [{"status": "Error"}]}]},
        {"tests": [{"name": "memory", "results": [{"status": "Fail - "}]}]},
    ],
)
def test_a_pass_beside_a_result_that_is_not_understood_is_no_verdict(more: dict[str, t.Any]) -> None:
    report = {"software": {"name": "software", "status": "Pass"}, **more}

    with pytest.raises(UnknownError, match=r"dcgmi reports (diag: The diagnostic was killed|memory \((error|fail -))"):
        throughput.judge_dcgm(2, json.dumps(report))


def test_a_warning_of_dcgm_is_told() -> None:
    warned = {"name": "memory", "results": [{"gpu_id": "3", "status": "Warn", "warnings": "DBE seen"}]}
    report = {"software": {"name": "software", "status": "Pass"}, "tests": [warned]}

    found = throughput.judge_dcgm(2, json.dumps(report))

    assert (found.status, found.reason) == ("healthy", "DCGM level 2 passed; warns: memory: GPU 3: DBE seen")


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


def test_ib_write_bw_that_contradicts_itself_says_nothing() -> None:
    row = " 65536      5000             392.11             {}             {}\n"

    assert throughput.average(row.format("391.90", "0.747")) == 391.9
    for average, rate in (
        ("3919.0", "0.747"),
        ("391.90", "747"),
        ("391,90", "0.747"),
        ("nan", "nan"),
        ("391.90", "-0.747"),
    ):
        with pytest.raises(UnknownError, match=r"ib_write_bw (contradicts itself|printed no result)"):
            throughput.average(row.format(average, rate))


@pytest.mark.parametrize("size", [1 << 34, 18446744073709551615])
def test_a_size_that_nobody_asked_for_says_nothing(size: int) -> None:
    row = f" {size} 4294967296 float sum -1 2317.2 231.6 347.30 0 2318.1 231.5 347.30 0\n"
    rest = "# Out of bounds values : 0 OK\n# Avg bus bandwidth : 347.3\n"

    assert throughput.busbw(row + rest) == 347.3
    with pytest.raises(UnknownError, match="bytes at most, not 4294967296"):
        throughput.busbw(row + rest, 1 << 32)


@pytest.mark.parametrize("result", [{"gpu_id": "1", "status": None}, {"gpu_id": "1"}, None, "Pass"])
def test_a_result_of_dcgm_without_its_status_is_no_pass(result: t.Any) -> None:
    results = [{"gpu_id": "0", "status": "Pass"}, result]
    text = json.dumps({"DCGM Diagnostic": {"test_categories": [{"tests": [{"name": "PCIe", "results": results}]}]}})

    with pytest.raises(UnknownError, match=r"dcgmi reports PCIe(: GPU 1)? \(missing\)"):
        throughput.judge_dcgm(1, text)
