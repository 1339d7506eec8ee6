# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware part of a NodeName line."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_node_hardware import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

slurm_node_hardware = FilterModule().filters()["slurm_node_hardware"]


@pytest.mark.parametrize("name", records.names())
@pytest.mark.parametrize("numa_as_sockets", [True, False])
def test_line_has_every_cpu_and_gpu_of_the_record(name: str, numa_as_sockets: bool) -> None:
    record = records.find(name)

    line = slurm_node_hardware(record, numa_as_sockets=numa_as_sockets)

    assert line["Sockets"] * line["CoresPerSocket"] == record["cpus"]["sockets"] * record["cpus"]["cores_per_socket"]
    assert line["RealMemory"] < record["memory_mib"]
    assert line.get("Gres", "gpu:0").endswith(f":{record['gpus']['count']}")


def test_numa_nodes_become_sockets_where_a_socket_has_several() -> None:
    record = records.find("Standard_ND96asr_v4")

    assert slurm_node_hardware(record) == {
        "Sockets": 4,
        "CoresPerSocket": 24,
        "ThreadsPerCore": 1,
        "RealMemory": 861733,
        "Gres": "gpu:a100:8",
    }
    assert slurm_node_hardware(record, 0, numa_as_sockets=False)["Sockets"] == 2


def test_machine_without_gpus_has_no_gres() -> None:
    assert slurm_node_hardware(records.find("lab")) == {
        "Sockets": 1,
        "CoresPerSocket": 2,
        "ThreadsPerCore": 1,
        "RealMemory": 972,
    }


@pytest.mark.parametrize("percent", [-1, 100, 250, "much", None, float("nan")])
def test_headroom_outside_the_range_is_refused(percent: object) -> None:
    with pytest.raises(AnsibleFilterError, match="it must be a number, at least 0 and below 100"):
        slurm_node_hardware(records.find("lab"), percent)


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match=r"slurm_node_hardware: a hardware record must be a mapping, not str"):
        slurm_node_hardware("lab")
