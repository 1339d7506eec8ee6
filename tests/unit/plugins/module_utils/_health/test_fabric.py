# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check gpu_fabric."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._health.verdict import Verdict

H100 = "standard_nd96isr_h100_v5"


def _judged(size: str, **cells: str) -> Verdict:
    machine = machines.healthy(size)
    if cells:
        t.cast("machines.Smi", machine.tools["nvidia-smi"]).shows(3, **cells)
    config = machines.expectations(size, gpu_fabric={"samples": 1})
    return machines.judge(machine, config, names=["gpu_fabric"])["gpu_fabric"]


def test_registered_gpus_are_healthy() -> None:
    verdict = _judged(H100)

    assert (verdict.status, verdict.reason) == ("healthy", "registered with the fabric on 8 GPUs")


@pytest.mark.parametrize("state", ["Not Started", "In Progress"])
def test_a_gpu_that_is_not_registered_is_named(state: str) -> None:
    """The fabric manager is not running, or it does not get on."""
    verdict = _judged(H100, fabric__state=state)

    assert verdict.status == "unhealthy"
    assert f"GPU 3 (00000008:00:00.0): {state}" in verdict.reason


def test_a_registration_that_failed_is_unhealthy() -> None:
    assert "Insufficient Resources" in _judged(H100, fabric__status="Insufficient Resources").reason


@pytest.mark.parametrize("size", ["standard_nd96asr_v4", "standard_nc24ads_a100_v4"])
def test_a_gpu_without_a_fabric_is_not_judged(size: str) -> None:
    assert _judged(size).status == "not applicable"


def test_another_word_of_the_driver_is_no_verdict() -> None:
    verdict = _judged(H100, fabric__state="Soon")

    assert verdict.status == "unknown"
    assert "fabric.state is 'Soon', not one of Not Started" in verdict.reason


@pytest.mark.parametrize("status", ["", "Succ", "Succe5s", "0"])
def test_another_status_of_the_driver_is_no_verdict(status: str) -> None:
    verdict = _judged(H100, fabric__status=status)

    assert verdict.status == "unknown"
    assert f"fabric.status is '{status}', neither Success nor" in verdict.reason


HEALTHY = {
    "fabric__health__summary": "Healthy",
    "fabric__health__bandwidth": "Full",
    "fabric__health__route_recovery_in_progress": "False",
    "fabric__health__route_unhealthy": "False",
    "fabric__health__access_timeout_recovery": "False",
    "fabric__health__incorrect_configuration": "None",
}


def test_a_healthy_fabric_and_one_that_reports_nothing_are_healthy() -> None:
    """An H200 with driver 580.159.04 reports N/A in every field."""
    assert _judged(H100, **HEALTHY).status == "healthy"
    assert _judged(H100, **dict.fromkeys(HEALTHY, "N/A")).status == "healthy"


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("summary", "Unhealthy"),
        ("summary", "Limited Capacity"),
        ("bandwidth", "Degraded"),
        ("route_recovery_in_progress", "True"),
        ("route_unhealthy", "True"),
        ("access_timeout_recovery", "True"),
        ("incorrect_configuration", "Incompatible Gpu Firmware"),
        ("incorrect_configuration", "No Partition"),
        ("incorrect_configuration", "Insufficient NVLink Resources"),
    ],
)
def test_a_registered_gpu_on_a_faulty_fabric_is_unhealthy(name: str, word: str) -> None:
    for others in (HEALTHY, {}):
        verdict = _judged(H100, **{**others, f"fabric__health__{name}": word})

        assert verdict.status == "unhealthy"
        assert f"found GPU 3 (00000008:00:00.0): fabric.health.{name} {word}" in verdict.reason


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("word", ["Soon", "ERR!", "[Unknown Error]", "Fals3", "1", ""])
def test_another_word_about_the_fabric_is_no_verdict(name: str, word: str) -> None:
    verdict = _judged(H100, **{**HEALTHY, name: word})

    assert verdict.status == "unknown"
    assert f"{name.replace('__', '.')} is '{word}', not a known word" in verdict.reason


@pytest.mark.parametrize(
    ("driver", "calls"), [("580.159.04", 1), ("570.86.10", 2), ("550.54.15", 3), ("535.104.05", 3), ("515.65.01", 3)]
)
def test_a_driver_that_does_not_know_a_field_answers_the_other_checks(driver: str, calls: int) -> None:
    machine = machines.healthy(H100)
    t.cast("machines.Smi", machine.tools["nvidia-smi"]).config["driver"] = driver
    found = machines.judge(machine, machines.expectations(H100), names=["gpu_count", "gpu_remap", "gpu_fabric"])

    assert [verdict.status for verdict in found.values()][:2] == ["healthy", "healthy"]
    assert found["gpu_fabric"].status == ("not applicable" if driver.startswith("515") else "healthy")
    assert len([call for call in machine.calls if call[1].startswith("--query-gpu")]) == calls
