# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bad wishes are refused with what was found and what is allowed."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import plan
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import wanted as nvidia_wanted
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.smi import NvidiaSmi
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.wanted import Refused, Wanted
from ansible_collections.hpcai.gpucluster.tests.simulation.simulated_smi import SimulatedSmi

H200 = {"driver": "580.159.04", "gpus": {"model": "H200", "count": 2}, "persistence": True}


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (Wanted(graphics=1400), "graphics: only allowed with state=set, found state=max"),
        (Wanted(state="default", memory=3201), "memory: only allowed with state=set, found state=default"),
        (Wanted(state="set"), "state=set needs at least one of memory, graphics, power_limit and persistence"),
        (Wanted(state="set", graphics=-15), "graphics: must be a positive number of MHz, found -15"),
        (Wanted(state="set", graphics=345, graphics_min=360), "graphics_min: 360 MHz must not be above graphics"),
        (Wanted(state="set", graphics=1403), r"graphics 1403 MHz is not supported.*nearest: 1395 MHz and 1410 MHz"),
        (Wanted(state="set", graphics=9999), "nearest: 1965 MHz and 1980 MHz"),
        (Wanted(state="set", memory=3000), r"memory 3000 MHz is not supported; nearest: 2201 MHz and 3201 MHz"),
        (Wanted(state="set", graphics=1980, graphics_min=350), "graphics_min 350 MHz is not supported"),
        (Wanted(power_limit="100"), "power_limit 100 is not between 200 and 700 W, default or max"),
        (Wanted(power_limit="much"), "power_limit much is not between 200 and 700 W"),
        (Wanted(gpus=["9"]), r"gpus: '9' does not exist; this machine has GPU 0 \(0000:00:06.0\) GPU-0a"),
        (Wanted(gpus=["0000:00:99.0"]), "gpus: '0000:00:99.0' does not exist"),
        (Wanted(gpus=["GPU-zz"]), "gpus: 'GPU-zz' does not exist"),
        (Wanted(gpus=["0", "1", "2"]), "gpus: '2' does not exist"),
    ],
)
def test_a_bad_wish_is_refused_and_nothing_is_set(wanted: Wanted, words: str) -> None:
    simulated = SimulatedSmi(**H200)

    with pytest.raises(Refused, match=words):
        plan.make(NvidiaSmi(simulated).read(), {}, wanted)

    assert simulated.writes == []


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Refused) as caught:
        plan.make(NvidiaSmi(SimulatedSmi(**H200)).read(), {}, Wanted(state="set", graphics=1403))

    assert len(caught.value.lines) == 2  # one for each GPU


@pytest.mark.parametrize(
    "word", ["1", "0000:00:07.0", "00000000:00:07.0", "0:7.0", "GPU-0a000000-0000-4000-8000-000000000001"]
)
def test_a_gpu_is_chosen_by_any_of_its_names(word: str) -> None:
    report = NvidiaSmi(SimulatedSmi(**H200)).read()

    assert [gpu["index"] for gpu in nvidia_wanted.select(report, [word])] == [1]
    assert [gpu["index"] for gpu in nvidia_wanted.select(report, [word, "1", "0"])] == [1, 0]


def test_a_lost_gpu_is_called_lost() -> None:
    report = NvidiaSmi(SimulatedSmi(driver="610.57.04", gpus={"count": 3}, faults={"lost_gpus": [2]})).read()

    with pytest.raises(Refused, match=r"'0000:00:08.0' is lost \(Unknown Error\)"):
        nvidia_wanted.select(report, ["0000:00:08.0"])


@pytest.mark.parametrize(
    ("config", "method", "expected"),
    [
        ({"driver": "580.159.04", "gpus": {"model": "H100"}}, "auto", "application"),
        ({"driver": "590.48.01", "gpus": {"model": "H100"}}, "auto", "locked"),
        ({"driver": "580.159.04", "gpus": {"model": "RTX 2080"}}, "auto", "locked"),
        ({"driver": "580.159.04", "gpus": {"model": "H100"}}, "locked", "locked"),
    ],
)
def test_the_method_follows_the_driver_and_the_gpu(config: dict[str, t.Any], method: str, expected: str) -> None:
    report = NvidiaSmi(SimulatedSmi(**config)).read()

    assert nvidia_wanted.method(report.gpus[0], Wanted(method=method), report.driver_version) == expected


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (
            {"driver": "610.57.04", "gpus": {"model": "H100", "count": 1}},
            r"no effect with driver 610.57.04.*auto or locked",
        ),
        ({"driver": "580.159.04", "gpus": {"model": "RTX 2080", "count": 1}}, "not supported by this GPU"),
    ],
)
def test_application_clocks_are_refused_where_there_are_none(config: dict[str, t.Any], words: str) -> None:
    report = NvidiaSmi(SimulatedSmi(**config)).read()

    with pytest.raises(Refused, match=words):
        plan.make(report, {}, Wanted(method="application"))


def test_half_a_pair_is_completed_with_the_highest_that_goes_with_it() -> None:
    config = {"gpus": {"model": "T4", "count": 1}}
    gpu = NvidiaSmi(SimulatedSmi(**config)).read().gpus[0]

    assert nvidia_wanted.clocks(gpu, Wanted(state="set", memory=405)) == (405, 645)
    assert nvidia_wanted.clocks(gpu, Wanted(state="set", graphics=1590)) == (5001, 1590)
    assert nvidia_wanted.clocks(gpu, Wanted(state="set", graphics=600)) == (5001, 600)


def test_a_gpu_in_a_broken_state_is_not_set() -> None:
    report = NvidiaSmi(SimulatedSmi(**H200, faults={"requires_reset": [1]})).read()

    with pytest.raises(Refused, match=r"GPU 1 \(0000:00:07.0\): cannot be set in this state: GPU requires reset"):
        plan.make(report, {}, Wanted())
