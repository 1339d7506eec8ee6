# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of nodes in Slurm's files."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import node_lines, nodes

H100 = {"gpucluster_vm_size": "Standard_ND96isr_H100_v5"}
LAB = {"gpucluster_vm_size": "lab"}
NODES = nodes.group(
    ["gpu1", "gpu2", "cpu1"],
    {"gpu1": H100, "gpu2": H100, "cpu1": {**LAB, "slurm_node_config": {"State": "FUTURE", "Weight": 3}}},
)


def test_there_is_one_line_for_each_kind_of_machine() -> None:
    lines = node_lines.node_lines(NODES)

    assert [line["NodeName"] for line in lines] == ["gpu[1-2]", "cpu1"]
    assert lines[0]["Gres"] == "gpu:h100:8"


def test_the_headroom_comes_off_the_memory() -> None:
    assert node_lines.node_lines(NODES, "50")[1]["RealMemory"] == 512


def test_the_additions_of_a_host_win() -> None:
    assert {"State": "FUTURE", "Weight": 3}.items() <= node_lines.node_lines(NODES)[1].items()


def test_gres_conf_names_machines_with_gpus_only() -> None:
    text = node_lines.gres_conf(NODES)

    assert text.startswith("AutoDetect=off\nNodeName=gpu[1-2] Name=gpu Type=h100 File=/dev/nvidia[0-3] Cores=0-47\n")
    assert "File=/dev/nvidia[4-7] Cores=48-95\n" in text
    assert "cpu1" not in text


def test_a_cluster_without_gpus_names_no_node() -> None:
    assert node_lines.gres_conf(nodes.group(["cpu1"], {"cpu1": LAB})) == "AutoDetect=off\n"


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
    (found,) = node_lines.node_lines(nodes.group(["gpu1"], {"gpu1": {"gpucluster_vm_size": size}}))

    assert found == {"NodeName": "gpu1", **line, "State": "UNKNOWN"}


@pytest.mark.parametrize(
    ("size", "lines"),
    [
        (
            "Standard_ND128isr_NDR_GB200_v6",
            [
                "NodeName=gpu[1-18] Name=gpu Type=gb200 File=/dev/nvidia[0-1] Cores=0-63",
                "NodeName=gpu[1-18] Name=gpu Type=gb200 File=/dev/nvidia[2-3] Cores=64-127",
            ],
        ),
        (
            "Standard_ND128isr_GB300_v6",
            [
                "NodeName=gpu[1-18] Name=gpu Type=gb300 File=/dev/nvidia[0-1] Cores=0-63",
                "NodeName=gpu[1-18] Name=gpu Type=gb300 File=/dev/nvidia[2-3] Cores=64-127",
            ],
        ),
        (
            "DGX_B200",
            [
                "NodeName=gpu[1-18] Name=gpu Type=b200 File=/dev/nvidia[0-3] Cores=0-55",
                "NodeName=gpu[1-18] Name=gpu Type=b200 File=/dev/nvidia[4-7] Cores=56-111",
            ],
        ),
    ],
)
def test_gpus_of_blackwell_are_beside_their_processors(size: str, lines: list[str]) -> None:
    hosts = [f"gpu{number}" for number in range(1, 19)]
    text = node_lines.gres_conf(nodes.group(hosts, {host: {"gpucluster_vm_size": size} for host in hosts}))

    assert text.splitlines()[1:] == lines
