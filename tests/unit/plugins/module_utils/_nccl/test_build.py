# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Topologies from records and from machines, and where they differ from a machine."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import machine as hardware_machine
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import build, compare, judge, topology_xml
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.tests.unit.support import sysfs

if t.TYPE_CHECKING:
    from pathlib import Path

WITH_ADDRESSES = [name for name in records.names() if any("pci" in gpu for gpu in records.find(name)["topology"])]


def _system(text: str) -> topology_xml.Element:
    system = judge.judge(text).system
    assert system is not None
    return system


def _read(tree: sysfs.Tree) -> hardware_machine.Machine:
    return hardware_machine.read(str(tree.sysfs), str(tree.procfs), "x86_64")


# The processors of the lab are those of any host, so its record does not describe them.
@pytest.mark.parametrize("name", [name for name in WITH_ADDRESSES if not name.startswith("simulated")])
def test_topology_of_a_record_draws_no_finding(name: str) -> None:
    assert judge.judge(build.from_record(records.find(name))).findings == []


@pytest.mark.parametrize("name", WITH_ADDRESSES)
def test_topology_of_a_record_has_every_device_below_its_numa_node(name: str) -> None:
    record = records.find(name)

    devices = judge.devices(_system(build.from_record(record)))

    for gpu in record["topology"]:
        for key in ("pci", "hca_pci"):
            if key in gpu:
                assert devices.pop(gpu[key])[1].get("numaid") == str(gpu["numa_node"])
    assert devices == {}


def test_sizes_whose_topology_nccl_needs_have_one() -> None:
    for name in records.names():
        if records.find(name)["nccl"]["topology_file"]:
            assert name in WITH_ADDRESSES


def test_nd_h100_v5_pairs_each_gpu_with_one_adapter() -> None:
    system = _system(build.from_record(records.find("Standard_ND96isr_H100_v5")))

    pairs = [[child.get("busid") for child in pci.children] for cpu in system.children for pci in cpu.children]

    assert pairs[0] == ["0001:00:00.0", "0101:00:00.0"]
    assert [len(pair) for pair in pairs] == [2] * 8
    assert [cpu.get("affinity") for cpu in system.children] == [
        "00000000,0000ffff,ffffffff",
        "ffffffff,ffff0000,00000000",
    ]


def test_record_without_addresses_says_what_to_do() -> None:
    with pytest.raises(build.TopologyError, match="generate from the machine"):
        build.from_record(records.find("Standard_NC40ads_H100_v5"))


def test_record_without_generation_says_so() -> None:
    record = records.find("DGX_H100")
    del record["gpus"]["pcie_generation"]

    with pytest.raises(build.TopologyError, match=r"gpus\.pcie_generation from 1 to 6"):
        build.from_record(record)


@pytest.mark.parametrize(("linux", "nccl"), [(6, 6), (23, 143), (25, 175)])
def test_family_is_written_as_nccl_reads_it(linux: int, nccl: int) -> None:
    # The file that Azure ships for EPYC of family 25 has 175.
    assert build.nccl_family(linux) == nccl


def test_machine_and_record_of_nd_a100_v4_give_the_same_file(tmp_path: Path) -> None:
    machine = _read(sysfs.nd_a100_v4(tmp_path))

    assert build.from_machine(machine, gpus_per_bridge=2) == build.from_record(records.find("Standard_ND96asr_v4"))


def test_bare_metal_keeps_the_upper_port_of_each_switch(tmp_path: Path) -> None:
    tree = sysfs.Tree(tmp_path, {0: "0-95"})
    above = ["0000:15:01.0", "0000:16:00.0"]
    tree.device("0000:1b:00.0", sysfs.GPU, 0, bridges=[*above, "0000:17:02.0"])
    tree.hca("0000:18:00.0", 0, "mlx5_0", bridges=[*above, "0000:17:00.0"])

    cpu = _system(build.from_machine(_read(tree))).children[0]

    assert [pci.get("busid") for pci in cpu.children] == ["0000:16:00.0"]
    assert [pci.get("busid") for pci in cpu.children[0].children] == ["0000:1b:00.0", "0000:18:00.0"]


def test_device_without_numa_node_belongs_to_the_only_one(tmp_path: Path) -> None:
    system = _system(build.from_machine(_read(sysfs.h200_vm(tmp_path))))

    assert [cpu.get("numaid") for cpu in system.children] == ["0"]
    assert len(system.children[0].children) == 4


def test_device_without_numa_node_among_several_is_refused(tmp_path: Path) -> None:
    tree = sysfs.Tree(tmp_path, {0: "0-47", 1: "48-95"})
    tree.device("0001:00:00.0", sysfs.GPU, -1)

    with pytest.raises(build.TopologyError, match=r"does not show the NUMA node of 0001:.* but has 2"):
        build.from_machine(_read(tree))


def test_bridges_that_do_not_work_out_are_refused(tmp_path: Path) -> None:
    with pytest.raises(build.TopologyError, match="NUMA node 0 has 2 GPUs and 2 adapters"):
        build.from_machine(_read(sysfs.nd_a100_v4(tmp_path)), gpus_per_bridge=3)


def test_machine_without_gpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(build.TopologyError, match="shows no GPU"):
        build.from_machine(_read(sysfs.Tree(tmp_path, {0: "0-1"}, "0-1")))


@pytest.mark.parametrize(
    ("shown", "written"),
    [
        ("16.0 GT/s PCIe", "16.0 GT/s PCIe"),
        ("16 GT/s", "16.0 GT/s PCIe"),  # kernels before 5.8
        ("8.0 GT/s PCIe", "8.0 GT/s PCIe"),
        ("Unknown", "8.0 GT/s PCIe"),  # what NCCL would make of it
        ("", "8.0 GT/s PCIe"),
    ],
)
def test_link_speed_is_written_in_a_form_that_nccl_knows(tmp_path: Path, shown: str, written: str) -> None:
    tree = sysfs.Tree(tmp_path, {0: "0-95"})
    tree.device("0001:00:00.0", sysfs.GPU, 0, speed=shown)

    assert f'link_speed="{written}"' in build.from_machine(_read(tree))


def _differences(tmp_path: Path, change: t.Callable[[str], str] = lambda text: text) -> compare.Difference:
    text = change(build.from_record(records.find("Standard_ND96asr_v4")))
    return compare.compare(_system(text), _read(sysfs.nd_a100_v4(tmp_path)))


def test_file_of_the_machine_does_not_differ(tmp_path: Path) -> None:
    assert _differences(tmp_path) == compare.Difference([], False)


def test_file_of_the_years_before_2023_is_told(tmp_path: Path) -> None:
    # Azure shipped NUMA nodes 0 and 1 of ND A100 v4 the wrong way round.
    def swapped(text: str) -> str:
        return text.replace('numaid="0"', 'numaid="x"').replace('numaid="1"', 'numaid="0"').replace('"x"', '"1"')

    texts = _differences(tmp_path, swapped).texts

    assert "0001:00:00.0 is at NUMA node 1, the file has it at node 0" in texts
    assert "NUMA node 0 has the CPUs 0-23, the file says 24-47" in texts


def test_file_with_one_mask_for_all_is_told(tmp_path: Path) -> None:
    # Until 2025-01 the files had 0000ffff,0000ffff for every node; here for one, as NCCL refuses no overlap.
    texts = _differences(tmp_path, lambda text: text.replace("00000000,00000000,00ffffff", "0000ffff,0000ffff")).texts

    assert any(text.startswith("NUMA node 0 has the CPUs 0-23, the file says 0-15,32-47") for text in texts)
    assert "the CPUs 16-23 of the machine belong to no NUMA node of the file" in texts


def test_lost_and_added_devices_are_told(tmp_path: Path) -> None:
    difference = _differences(tmp_path, lambda text: text.replace("000e:", "000f:").replace("0108:", "0109:"))

    assert "GPU 000e:00:00.0 of the machine is not in the file: NCCL puts it beside no NUMA node" in difference.texts
    assert "GPU 000f:00:00.0 of the file is not in the machine" in difference.texts
    assert "adapter 0109:00:00.0 of the file is not in the machine" in difference.texts
    assert not difference.foreign


def test_file_of_another_kind_of_machine_is_foreign(tmp_path: Path) -> None:
    system = _system(build.from_record(records.find("DGX_H100")))

    assert compare.compare(system, _read(sysfs.nd_a100_v4(tmp_path))).foreign


def test_machine_that_shows_no_gpu_makes_no_file_foreign(tmp_path: Path) -> None:
    system = _system(build.from_record(records.find("Standard_NC24ads_A100_v4")))

    difference = compare.compare(system, _read(sysfs.Tree(tmp_path, {0: "0-23"}, "0-23")))

    assert difference == compare.Difference([], False)
