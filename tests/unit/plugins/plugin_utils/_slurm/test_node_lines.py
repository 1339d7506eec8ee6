# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware of nodes in Slurm's files."""

from __future__ import annotations

import re
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
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


def test_device_files_begin_where_the_record_says() -> None:
    record = records.find("Standard_ND96isr_H100_v5", None)
    record["gpus"]["first_device"] = 8

    assert [line.split()[2] for line in node_lines.gres_lines(record)] == [
        "File=/dev/nvidia[8-11]",
        "File=/dev/nvidia[12-15]",
    ]


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


@pytest.mark.parametrize("name", records.names())
def test_every_gpu_has_one_device_and_the_cores_of_its_numa_node(name: str) -> None:
    record = records.find(name)
    found: dict[int, list[int]] = {}
    for line in node_lines.gres_lines(record):
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
    assert node_lines.gres_lines(records.find("Standard_ND96asr_v4"), "gpu[1-4]") == [
        "NodeName=gpu[1-4] Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=24-47",
        "NodeName=gpu[1-4] Name=gpu Type=a100 File=/dev/nvidia[2-3] Cores=0-23",
        "NodeName=gpu[1-4] Name=gpu Type=a100 File=/dev/nvidia[4-5] Cores=72-95",
        "NodeName=gpu[1-4] Name=gpu Type=a100 File=/dev/nvidia[6-7] Cores=48-71",
    ]


def test_cores_are_logical_and_not_cpu_ids() -> None:
    # Linux calls them 48-63,176-191.
    assert node_lines.gres_lines(records.find("DGX_A100"))[0] == "Name=gpu Type=a100 File=/dev/nvidia[0-1] Cores=48-63"


def test_unknown_topology_gives_no_cores() -> None:
    assert node_lines.gres_lines(records.find("Standard_NC24rs_v3")) == ["Name=gpu Type=v100 File=/dev/nvidia[0-3]"]


def test_single_gpu_needs_no_brackets() -> None:
    assert node_lines.gres_lines(records.find("Standard_NC24ads_A100_v4")) == [
        "Name=gpu Type=a100 File=/dev/nvidia0 Cores=0-23"
    ]


def test_machine_without_gpus_has_no_lines() -> None:
    assert node_lines.gres_lines(records.find("lab")) == []


def test_gpus_of_what_is_no_record_are_refused() -> None:
    with pytest.raises(records.CatalogueError, match="a hardware record"):
        node_lines.gres_lines({"name": "x"})


@pytest.mark.parametrize("name", records.names())
def test_line_has_every_cpu_and_gpu_of_the_record(name: str) -> None:
    record = records.find(name)

    line = node_lines.node_hardware(record)

    assert line["Sockets"] * line["CoresPerSocket"] == record["cpus"]["sockets"] * record["cpus"]["cores_per_socket"]
    assert line["RealMemory"] < record["memory_mib"]
    assert line.get("Gres", "gpu:0").endswith(f":{record['gpus']['count']}")


def test_numa_nodes_become_sockets_where_a_socket_has_several() -> None:
    record = records.find("Standard_ND96asr_v4")

    assert node_lines.node_hardware(record) == {
        "Sockets": 4,
        "CoresPerSocket": 24,
        "ThreadsPerCore": 1,
        "RealMemory": 861733,
        "Gres": "gpu:a100:8",
    }


def test_machine_without_gpus_has_no_gres() -> None:
    assert node_lines.node_hardware(records.find("lab")) == {
        "Sockets": 1,
        "CoresPerSocket": 2,
        "ThreadsPerCore": 1,
        "RealMemory": 972,
    }


@pytest.mark.parametrize("percent", [-1, 100, 250, "much", None, float("nan")])
def test_headroom_outside_the_range_is_refused(percent: object) -> None:
    with pytest.raises(records.CatalogueError, match="it must be a number, at least 0 and below 100"):
        node_lines.node_hardware(records.find("lab"), percent)


def test_what_is_no_record_is_refused() -> None:
    with pytest.raises(records.CatalogueError, match=r"a hardware record must be a mapping, not str"):
        node_lines.node_hardware("lab")
