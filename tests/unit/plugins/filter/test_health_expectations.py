# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter health_expectations as templates call it."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.health_expectations import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.module_utils._health import table
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations

health_expectations = FilterModule().filters()["health_expectations"]
SIZES = sorted(records.load())


def record(name: str) -> dict[str, t.Any]:
    return records.find(name)


@pytest.mark.parametrize("size", SIZES)
def test_every_check_of_the_program_is_configured(size: str) -> None:
    config = health_expectations(record(size))

    assert list(config["checks"]) == list(expectations.THRESHOLDS)
    assert set(config["checks"]) == set(table.CHECKS)
    # The site's own checks, and those of DCGM, run only where they are asked for.
    asked = {"nhc", "dcgm_health"}
    assert set(config["sets"]["fast"]) | set(config["sets"]["throughput"]) == set(table.CHECKS) - asked


def test_expectations_come_from_the_record() -> None:
    found = health_expectations(record("Standard_ND96isr_H100_v5"))["checks"]

    assert found["gpu_count"]["count"] == 8
    assert found["gpu_clocks"]["graphics_mhz"] == 1980
    assert found["cpus"]["count"] == 96
    assert found["infiniband"] == {
        "enabled": True,
        "samples": 2,
        "unknown_samples": 3,
        "gap_seconds": 5,
        "adapters": [f"mlx5_ib{number}" for number in range(8)],
        "rate_gbps": 400,
    }
    assert found["nvlink_allreduce"]["gbps_min"] == 460
    assert found["nccl_topology"]["devices"]["0101:00:00.0"] == 0


def test_a_machine_without_gpus_is_not_asked_for_any() -> None:
    found = health_expectations(record("lab"))["checks"]

    assert found["gpu_count"]["count"] is None
    assert not found["gpu_xid"]["enabled"]
    assert not found["infiniband_errors"]["enabled"]


def test_every_value_can_be_replaced_and_taken_away() -> None:
    for name, params in expectations.expectations(record("lab"))["checks"].items():
        for key in params:
            assert health_expectations(record("lab"), {name: {key: None}})["checks"][name][key] is None


def test_overrides_reach_one_check_only() -> None:
    found = health_expectations(record("lab"), {"clock": {"samples": 7}})["checks"]

    assert found["clock"]["samples"] == 7
    assert found["munge"]["samples"] == 2
    assert expectations.THRESHOLDS["clock"]["samples"] == 3


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"gpu_cuont": {}}, "unknown check 'gpu_cuont'; known checks: gpu_count, "),
        ({"memory": {"max": 3}}, "memory has no parameter 'max'; it has enabled, "),
        ({"memory": 3}, "memory must be a mapping of parameters, not int"),
        ({"memory": {"samples": "3"}}, "memory.samples must be a number, not '3'"),
        ({"memory": {"samples": -1}}, "memory.samples must be a number, not -1"),
        ({"memory": {"enabled": 1}}, "memory.enabled must be a boolean, not 1"),
        ({"mounts": {"mounts": "/home"}}, "mounts.mounts must be a list, not '/home'"),
        ({"raid": {"members": []}}, "raid.members must be a mapping, not []"),
        ({"gpu_xid": {"kernel_log": 3}}, "gpu_xid.kernel_log must be a text, not 3"),
        ([1], "the overrides must be a mapping of checks, not list"),
    ],
)
def test_bad_overrides_are_refused(overrides: t.Any, words: str) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        health_expectations(record("lab"), overrides)

    assert words in str(caught.value)


def test_the_prolog_runs_known_checks() -> None:
    assert health_expectations(record("lab"), {}, ["munge"])["sets"]["prolog"] == ["munge"]
    assert health_expectations(record("lab"), {}, [])["sets"]["prolog"] == []
    with pytest.raises(AnsibleFilterError, match="unknown check 'mung' for the prolog"):
        health_expectations(record("lab"), {}, ["mung"])


@pytest.mark.parametrize("found", [None, {}, {"name": "x"}, [], "Standard_ND96asr_v4"])
def test_anything_but_a_record_is_refused(found: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"expected a record of hpcai\.gpucluster\.vm_size"):
        health_expectations(found)
