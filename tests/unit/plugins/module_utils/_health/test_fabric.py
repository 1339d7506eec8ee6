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
