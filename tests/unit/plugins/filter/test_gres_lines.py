# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lines of gres.conf."""

from __future__ import annotations

import re

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.gres_lines import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

gres_lines = FilterModule().filters()["gres_lines"]


@pytest.mark.parametrize("name", records.names())
@pytest.mark.parametrize("numa_as_sockets", [True, False])
def test_every_gpu_has_one_device_and_the_cores_of_its_numa_node(name: str, numa_as_sockets: bool) -> None:
    record = records.find(name)
    found: dict[int, list[int]] = {}
    for line in gres_lines(record, numa_as_sockets=numa_as_sockets):
        match = re.fullmatch(r"Name=gpu Type=\w+ File=/dev/nvidia\[?(\d+)-?(\d*)\]?(?: Cores=([\d,-]+))?", line)
        assert match, line
        first, last, cores = match.groups()
        for index in range(int(first), int(last or first) + 1):
            assert index not in found
            found[index] = hardware_record.parse_ranges(cores or "")

    assert sorted(found) == list(range(record["gpus"]["count"]))
    for gpu in record["topology"]:
        assert set(hardware_record.numa_cores(record, gpu["numa_node"])) <= set(found[gpu["index"]])


def test_lines_of_nd_a100_v4() -> None:
    assert gres_lines(records.find("Standard_ND96asr_v4"), "gpu[1-4]") == [
        "NodeName=gpu[1-4] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=24-47",
        "NodeName=gpu[1-4] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=0-23",
        "NodeName=gpu[1-4] Name=gpu Type=a100 File=/dev/nvidia[4-5] Cores=72-95",
        "NodeName=gpu[1-4] Name=gpu Type=a100 File=/dev/nvidia[6-7] Cores=48-71",
    ]


def test_cores_are_logical_and_not_cpu_ids() -> None:
    # Linux calls them 48-63,176-191.
    assert gres_lines(records.find("DGX_A100"))[0] == "Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=48-63"


def test_without_numa_nodes_as_sockets_the_cores_widen_to_the_socket() -> None:
    lines = gres_lines(records.find("Standard_ND96asr_v4"), numa_as_sockets=False)

    assert lines == [
        "Name=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-47",
        "Name=gpu Type=a100 File=/dev/nvidia[4-7] Cores=48-95",
    ]


def test_unknown_topology_gives_no_cores() -> None:
    assert gres_lines(records.find("Standard_NC24rs_v3")) == ["Name=gpu Type=v100 File=/dev/nvidia[0-3]"]


def test_single_gpu_needs_no_brackets() -> None:
    assert gres_lines(records.find("Standard_NC24ads_A100_v4")) == ["Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-23"]


def test_machine_without_gpus_has_no_lines() -> None:
    assert gres_lines(records.find("lab")) == []


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="gres_lines: "):
        gres_lines({"name": "x"})
