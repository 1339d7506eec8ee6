# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What nvidia_info returns."""

from __future__ import annotations

import json
import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi, NvidiaSmiError
from ansible_collections.hpcai.gpucluster.plugins.modules import nvidia_info
from ansible_collections.hpcai.gpucluster.tests.simulation.simulated_smi import SimulatedSmi


def answer(supported_clocks: bool = False, **config: t.Any) -> dict[str, t.Any]:
    return nvidia_info.result(NvidiaSmi(SimulatedSmi(**config)).read(), supported_clocks)


def test_every_returned_key_is_documented_and_every_documented_key_is_returned() -> None:
    documented = yaml_load(nvidia_info.RETURN)
    full = answer(supported_clocks=True, gpus={"count": 1})

    assert set(full) == set(documented)
    assert set(full["gpus"][0]) == set(documented["gpus"]["contains"])


def test_supported_clocks_are_returned_only_on_request() -> None:
    config: dict[str, t.Any] = {"gpus": {"model": "H200", "count": 1}}

    assert "supported_clocks_mhz" not in answer(**config)["gpus"][0]
    table = answer(supported_clocks=True, **config)["gpus"][0]["supported_clocks_mhz"]
    assert [(row["memory"], len(row["graphics"])) for row in table] == [(3201, 110), (2201, 110)]


def test_the_answer_is_json() -> None:
    json.dumps(answer(supported_clocks=True, gpus={"count": 2}, faults={"lost_gpus": [1]}))


def test_a_machine_without_driver_has_the_same_keys() -> None:
    with pytest.raises(NvidiaSmiError) as caught:
        answer(faults={"no_driver": True})
    absent = nvidia_info.absent(caught.value)

    assert set(absent) == set(answer())
    assert (absent["available"], absent["kind"], absent["count"]) == (False, "no_driver", 0)
    assert "driver is not loaded" in absent["reason"]
