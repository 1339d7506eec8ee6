# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Health follows what the roles gpu and nccl are told: as the playbook passes it on, by Ansible's own templating."""

from __future__ import annotations

import typing as t
from pathlib import Path

import pytest
from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations
from ansible_collections.hpcai.gpucluster.tests.unit.plugins.module_utils._health import machines
from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

ROOT = Path(__file__).parents[5]
SIZE = "standard_nd96isr_h100_v5"
PATH = "/opt/microsoft/ndv5-topo.xml"
MACHINE = {**machines.record("standard_nd96asr_v4"), "name": "of nccl"}

# One input, its value, the check that follows, and what of its parameters is other than without the input.
FOLLOWS: list[tuple[str, t.Any, str, dict[str, t.Any]]] = [
    ("gpu_count", 7, "gpu_count", {"count": 7}),
    ("gpu_count", "7", "nvlink_allreduce", {"gpus": 7}),
    ("gpu_count", 0, "gpu_count", {"count": None}),
    ("gpu_count", 0, "gpu_xid", {"enabled": False}),
    ("gpu_persistence", False, "gpu_persistence", {"enabled": False}),
    ("gpu_persistence", "no", "gpu_persistence", {"enabled": False}),
    ("gpu_persistence", True, "gpu_persistence", {}),
    ("gpu_clocks", "max", "gpu_clocks", {}),
    ("gpu_clocks", "default", "gpu_clocks", {"application": False}),
    ("gpu_clocks", "job", "gpu_clocks", {"application": False}),
    ("gpu_clocks", "keep", "gpu_clocks", {"application": False}),
    ("gpu_memory_clock", 1593, "gpu_clocks", {"application": False}),
    ("gpu_graphics_clock", "1200", "gpu_clocks", {"application": False}),
    ("gpu_clock_method", "locked", "gpu_clocks", {"application": False}),
    ("gpu_clock_method", "application", "gpu_clocks", {}),
    ("health_application_clocks", False, "gpu_clocks", {"application": False}),
    ("nccl_topology", "none", "nccl_topology", {"path": None}),
    ("nccl_topology", "record", "nccl_topology", {}),
    ("nccl_topology", "machine", "nccl_topology", {"devices": {}, "cpus": {}}),
    ("nccl_topology_path", "/opt/topo.xml", "nccl_topology", {"path": "/opt/topo.xml"}),
    ("nccl_topology_path", "", "nccl_topology", {}),
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, t.Any]:
    (play,) = yaml_load((ROOT / "playbooks/parts/health.yml").read_text(encoding="utf-8"))
    passed_on = {"health_hardware": machines.record(SIZE), **play["tasks"][0]["vars"]}
    cases = {str(number): {**passed_on, row[0]: row[1]} for number, row in enumerate(FOLLOWS)}
    cases |= {"untold": passed_on, "hardware": {**passed_on, "nccl_hardware": MACHINE}}
    return role_values(tmp_path_factory.mktemp("values"), "health", "__health_config.checks", cases)


def test_what_nobody_said_is_as_the_record_says(found: dict[str, t.Any]) -> None:
    assert found["untold"] == expectations.expectations(machines.record(SIZE), {"dcgm": {"level": None}})["checks"]
    assert found["untold"]["nccl_topology"]["path"] == PATH
    assert found["untold"]["gpu_clocks"]["application"]


@pytest.mark.parametrize("number", range(len(FOLLOWS)), ids=[f"{row[0]}-{row[1]}-{row[2]}" for row in FOLLOWS])
def test_health_follows_each_input(found: dict[str, t.Any], number: int) -> None:
    _input, _value, check, other = FOLLOWS[number]
    before, after = found["untold"][check], found[str(number)][check]

    assert {key: value for key, value in after.items() if value != before[key]} == other


def test_health_takes_the_hardware_that_nccl_takes(found: dict[str, t.Any]) -> None:
    after = found["hardware"]["nccl_topology"]

    assert after["path"] == "/opt/microsoft/ndv4-topo.xml"
    assert len(after["devices"]) == len(found["untold"]["nccl_topology"]["devices"])
    assert after["devices"] != found["untold"]["nccl_topology"]["devices"]


def test_every_input_is_passed_on_and_tried() -> None:
    (play,) = yaml_load((ROOT / "playbooks/parts/health.yml").read_text(encoding="utf-8"))

    assert play["tasks"][0]["vars"]["health_inputs"] == {
        name: "{{ " + name + " | default(none) }}" for name in expectations.INPUTS
    }
    assert set(expectations.INPUTS) - {row[0] for row in FOLLOWS} == {"nccl_hardware"}


def test_the_inputs_are_those_of_the_roles() -> None:
    for role in ("gpu", "nccl"):
        spec = yaml_load((ROOT / f"roles/{role}/meta/argument_specs.yml").read_text(encoding="utf-8"))
        options = spec["argument_specs"]["main"]["options"]
        mine = {name: form for name, form in expectations.INPUTS.items() if name.startswith(f"{role}_")}
        for name, form in mine.items():
            said = {key: options[name].get(key) for key in ("type", "choices", "default")}
            kind = {"path": "str"}.get(said["type"], said["type"])
            assert {**said, "type": kind} == {key: form.get(key) for key in said}, name


def test_the_file_is_where_the_role_nccl_writes_it(tmp_path: Path) -> None:
    records = {size: machines.record(size) for size in machines.SIZES}
    cases = {size: {"nccl_hardware": record} for size, record in records.items()}
    written = role_values(tmp_path, "nccl", "nccl_topology_path if nccl_topology != 'none' else none", cases)

    expected = {
        size: expectations.expectations(record)["checks"]["nccl_topology"]["path"] for size, record in records.items()
    }
    assert written == expected


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ({"gpu_persistance": True}, "gpu_persistance"),
        ({"gpu_clocks": "low"}, "value of gpu_clocks must be one of: max, default, job, keep"),
        ({"gpu_count": "eight"}, "'eight'"),
        (["gpu_count"], "the inputs must be a mapping, not list"),
    ],
)
def test_wrong_inputs_are_refused(inputs: t.Any, words: str) -> None:
    with pytest.raises(expectations.HealthError, match=words):
        expectations.expectations(machines.record(SIZE), inputs=inputs)
