# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.filter.cluster_nodes import cluster_nodes
from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_node_lines import slurm_node_lines

NODES = cluster_nodes(
    ["gpu1", "gpu2", "cpu1"],
    {
        "gpu1": {"gpucluster_vm_size": "Standard_ND96isr_H100_v5"},
        "gpu2": {"gpucluster_vm_size": "Standard_ND96isr_H100_v5"},
        "cpu1": {"gpucluster_vm_size": "lab", "slurm_node_config": {"State": "FUTURE", "Weight": 3}},
    },
)


def test_there_is_one_line_for_each_kind_of_machine() -> None:
    lines = slurm_node_lines(NODES)

    assert [line["NodeName"] for line in lines] == ["gpu[1-2]", "cpu1"]
    assert lines[0]["Gres"] == "gpu:h100:8"


def test_the_headroom_comes_off_the_memory() -> None:
    assert slurm_node_lines(NODES, 50)[1]["RealMemory"] == 512


def test_the_additions_of_a_host_win() -> None:
    assert slurm_node_lines(NODES)[1] | {"State": "FUTURE", "Weight": 3} == slurm_node_lines(NODES)[1]


@pytest.mark.parametrize(
    ("size", "line"),
    [
        (
            "Standard_ND128isr_NDR_GB200_v6",
            {"Sockets": 2, "CoresPerSocket": 64, "ThreadsPerCore": 1, "RealMemory": 840499, "Gres": "gpu:gb200:4"},
        ),
        (
            "Standard_ND128isr_GB300_v6",
            {"Sockets": 2, "CoresPerSocket": 64, "ThreadsPerCore": 1, "RealMemory": 840499, "Gres": "gpu:gb300:4"},
        ),
        (
            "DGX_B200",
            {"Sockets": 2, "CoresPerSocket": 56, "ThreadsPerCore": 2, "RealMemory": 1960253, "Gres": "gpu:b200:8"},
        ),
    ],
)
def test_the_lines_of_blackwell(size: str, line: dict[str, t.Any]) -> None:
    (found,) = slurm_node_lines(cluster_nodes(["gpu1"], {"gpu1": {"gpucluster_vm_size": size}}))

    assert found == {"NodeName": "gpu1", **line, "State": "UNKNOWN"}
