# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import node_tests

# The forms of nvbandwidth 0.8 as its documentation shows them; no GPU was asked.
TEXT = """nvbandwidth Version: v0.8
Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1         2
 0     55.63     13.90     55.64

SUM host_to_device_memcpy_ce 125.17

Waived:
"""


def test_the_slowest_gpu_is_not_hidden_in_the_sum() -> None:
    assert node_tests.nvbandwidth(TEXT) == {"host_to_device_memcpy_ce": {"0": 55.63, "1": 13.9, "2": 55.64}}


def test_json_leaves_out_what_was_waived() -> None:
    cases = [
        {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.1", "N/A"]], "sum": 55.1},
        {"name": "device_to_host_memcpy_ce", "status": "Waived"},
    ]
    text = "warning: something\n" + json.dumps({"nvbandwidth": {"testcases": cases}})

    assert node_tests.nvbandwidth(text) == {"host_to_device_memcpy_ce": {"0": 55.1, "1": None}}
    assert node_tests.nvbandwidth(text[:60]) == {}


def diagnosis(*statuses: str) -> str:
    tests = [{"name": f"Test {place}", "results": [{"gpu_id": "0", "status": s}]} for place, s in enumerate(statuses)]
    return json.dumps({"DCGM Diagnostic": {"test_categories": [{"category": "Deployment", "tests": tests}]}})


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (diagnosis("Pass", "Pass", "Skip"), "pass"),
        (diagnosis("Pass", "Warn"), "warn"),
        (diagnosis("Pass", "Warn", "Fail"), "fail"),
        (diagnosis("Pass", "Unheard-of"), "fail"),
        (diagnosis("Skip"), "fail"),
        (diagnosis(), "fail"),
        (diagnosis("Pass")[:40], "fail"),
        ("Error: unable to connect to host engine", "fail"),
    ],
)
def test_only_an_understood_pass_is_a_pass(text: str, status: str) -> None:
    assert node_tests.dcgm(text)[0] == status


@pytest.mark.parametrize("row", ["N/A  13.90  55.64", "55.63  13.90", "55.63  1x.90  55.64", "55.63  inf  55.64"])
def test_a_gpu_without_a_figure_is_not_forgotten(row: str) -> None:
    found = node_tests.nvbandwidth(TEXT.replace("55.63     13.90     55.64", row))

    assert list(found["host_to_device_memcpy_ce"].values()).count(None) == 1
    assert len(found["host_to_device_memcpy_ce"]) == 3


def test_figures_that_do_not_have_the_printed_sum_are_none() -> None:
    name = "host_to_device_memcpy_ce"
    for damaged in (
        TEXT.replace("13.90", "53.90"),
        TEXT.replace("13.90     55.64", "13.90").replace("1         2", "1"),
    ):
        assert set(node_tests.nvbandwidth(damaged)[name].values()) == {None}
    for cells, known in ((["55.1", "54.2"], True), (["55.1", "54.2", "54.2"], False), (["55.1"], False)):
        case = {"name": name, "status": "Passed", "bandwidth_matrix": [cells], "sum": 109.3}
        found = node_tests.nvbandwidth(json.dumps({"nvbandwidth": {"testcases": [case]}}))[name]

        assert (None not in found.values()) == known


def test_a_failed_diagnosis_names_the_test_the_gpu_and_the_reason() -> None:
    why = {"status": "Fail", "warnings": [{"warning": "PCIe replays exceeded", "error_id": 5}]}
    tests = [
        {"name": "pcie", "results": [{"entity_group": "GPU", "entity_id": 3, **why}]},
        {"name": "memory", "results": [{"gpu_id": "0", "status": "Skip", "info": "not this level"}]},
    ]
    told = {"DCGM Diagnostic": {"test_categories": [{"category": "Hardware", "tests": tests}]}}

    assert node_tests.dcgm(json.dumps(told)) == (
        "fail",
        "no test of dcgmi passed: pcie: GPU 3: PCIe replays exceeded: fail",
    )
    tests.pop(0)
    assert node_tests.dcgm(json.dumps(told)) == (
        "fail",
        "no test of dcgmi passed: memory: GPU 0: not this level: skip",
    )
    error = {"DCGM Diagnostic": {"runtime_error": "The GPUs are in use."}}
    assert node_tests.dcgm(json.dumps(error))[1] == "no test of dcgmi passed: diag: The GPUs are in use.: error"
