# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.filter.cluster_nodes import cluster_nodes
from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_gres_conf import slurm_gres_conf

H100 = {"gpucluster_vm_size": "Standard_ND96isr_H100_v5"}
LAB = {"gpucluster_vm_size": "lab"}


def test_gres_conf_names_machines_with_gpus_only() -> None:
    text = slurm_gres_conf(cluster_nodes(["gpu1", "gpu2", "cpu1"], {"gpu1": H100, "gpu2": H100, "cpu1": LAB}))

    assert text.startswith("AutoDetect=off\nNodeName=gpu[1-2] Name=gpu Type=h100 File=/dev/nvidia")
    assert "cpu1" not in text


def test_every_gpu_of_a_node_has_a_device() -> None:
    text = slurm_gres_conf(cluster_nodes(["gpu1"], {"gpu1": H100}))

    assert text.count("NodeName=gpu1 ") == 2
    assert "File=/dev/nvidia[0-3] Cores=0-47\n" in text
    assert "File=/dev/nvidia[4-7] Cores=48-95\n" in text


def test_a_cluster_without_gpus_names_no_node() -> None:
    assert slurm_gres_conf(cluster_nodes(["cpu1"], {"cpu1": LAB})) == "AutoDetect=off\n"


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
    text = slurm_gres_conf(cluster_nodes(hosts, {host: {"gpucluster_vm_size": size} for host in hosts}))

    assert text.splitlines()[1:] == lines
