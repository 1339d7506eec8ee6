# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module nvidia_clocks on simulated GPUs: each option, and what it refuses before it changes a GPU."""

from __future__ import annotations

import typing as t

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import record
from ansible_collections.hpcai.gpucluster.plugins.modules import nvidia_clocks
from ansible_collections.hpcai.gpucluster.tests.simulation.simulated_smi import SimulatedSmi
from ansible_collections.hpcai.gpucluster.tests.unit.support.run_module import RunModule

if t.TYPE_CHECKING:
    from pathlib import Path

A100: dict[str, t.Any] = {
    "driver": "580.159.04",
    "gpus": {"model": "A100", "count": 2, "memory_mib": 40960},
    "persistence": True,
}


class Machine:
    """A machine with simulated GPUs, on which the module runs."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.smi = SimulatedSmi(**A100)
        self.limits: list[float] = []
        self._folder, self._module = folder, RunModule(capsys)
        monkeypatch.setattr(nvidia_clocks, "bounded_runner", self._runner)
        monkeypatch.setattr(record, "stamps", lambda: {"boot": "b-1", "driver": "7 x"})

    def _runner(self, seconds: float) -> SimulatedSmi:
        self.limits.append(seconds)
        return self.smi

    def run(self, check_mode: bool = False, **options: t.Any) -> dict[str, t.Any]:
        self.smi.calls.clear()
        given = {"record": str(self._folder / "clocks.json"), **options}
        return self._module(nvidia_clocks.main, check_mode, **given)


@pytest.fixture
def machine(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, capsys, monkeypatch)


def test_the_default_sets_the_highest_clocks_once(machine: Machine) -> None:
    foreseen = machine.run(check_mode=True)
    assert machine.smi.writes == []
    first, second = machine.run(), machine.run()

    assert (foreseen["changed"], first["changed"], second["changed"]) == (True, True, False)
    assert [gpu["after"] for gpu in foreseen["gpus"]] == [gpu["after"] for gpu in first["gpus"]]
    assert "memory 1215 MHz, graphics 1410 MHz" in second["gpus"][0]["msg"]
    assert set(yaml_load(nvidia_clocks.RETURN)) <= set(first)
    assert machine.limits == [60, 60, 60]


def test_a_pair_of_clocks_is_set_on_the_named_gpus_only(machine: Machine) -> None:
    found = machine.run(state="set", graphics="1200", gpus=["1"], method="application")

    assert [(gpu["index"], gpu["changed"]) for gpu in found["gpus"]] == [(1, True)]
    assert found["gpus"][0]["after"]["application_mhz"] == {"memory": 1215, "graphics": 1200}
    assert machine.run(state="default", gpus=["1"])["changed"]


def test_locked_clocks_are_recorded_and_forced_on_request(machine: Machine) -> None:
    given: dict[str, t.Any] = {"state": "set", "method": "locked", "graphics": 1200, "graphics_min": 1005}

    assert [machine.run(**given)["changed"] for _run in range(2)] == [True, False]
    machine.run(**given, force=True)
    assert machine.smi.writes


def test_power_limit_and_persistence_are_set(machine: Machine) -> None:
    machine.smi.config = {**A100, "persistence": False}
    found = machine.run(state="default", power_limit="300", persistence=True)

    assert found["gpus"][0]["after"]["power_limit_w"] == 300
    assert found["gpus"][0]["after"]["persistence"] is True


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"state": "fastest"}, "state"),
        ({"method": "quick"}, "method"),
        ({"timeout": 0}, "timeout: must be a positive number of seconds, found 0"),
        ({"graphics": 1410}, "graphics"),
        ({"state": "set"}, "graphics"),
        ({"state": "set", "graphics": 1411}, "1411"),
        ({"gpus": ["7"]}, "7"),
        ({"power_limit": "9000"}, "power_limit"),
        ({"power_limit": "much"}, "power_limit"),
    ],
)
def test_wrong_options_are_refused_and_change_no_gpu(machine: Machine, options: dict[str, t.Any], named: str) -> None:
    found = machine.run(**options)

    assert found["failed"]
    assert named in found["msg"]
    assert machine.smi.writes == []


def test_a_machine_without_a_driver_says_so(machine: Machine) -> None:
    machine.smi.faults(no_driver=True)
    found = machine.run()

    assert (found["failed"], found["kind"], found["lost"]) == (True, "no_driver", [])


@pytest.mark.parametrize(("unsupported", "fails"), [("fail", True), ("warn", False)])
def test_what_a_gpu_does_not_support_fails_or_warns(machine: Machine, unsupported: str, fails: bool) -> None:
    machine.smi.faults(not_supported=["application"])
    found = machine.run(method="application", unsupported=unsupported)

    assert bool(found.get("failed")) is fails
    assert "not supported by this GPU" in found["warnings"][0]
    assert found["changed"] is False
