# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a machine shows of itself."""

from __future__ import annotations

import typing as t

from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import machine as hardware_machine
from ansible_collections.hpcai.gpucluster.tests.unit.support import sysfs

if t.TYPE_CHECKING:
    from pathlib import Path

    import pytest


def _read(tree: sysfs.Tree) -> hardware_machine.Machine:
    return hardware_machine.read(str(tree.sysfs), str(tree.procfs), "x86_64")


def test_gpus_and_adapters_of_an_azure_machine(tmp_path: Path) -> None:
    machine = _read(sysfs.nd_a100_v4(tmp_path))

    assert [gpu.address[:4] for gpu in machine.gpus] == ["0001", "0002", "0003", "0004", "000b", "000c", "000d", "000e"]
    assert [hca.address[:4] for hca in machine.hcas] == [f"010{number}" for number in range(1, 9)]
    assert machine.cpu == {"arch": "x86_64", "vendor": "AuthenticAMD", "family": "23", "model": "49"}
    assert machine.numa[1] == list(range(24, 48))


def test_adapter_of_accelerated_networking_is_none_for_nccl(tmp_path: Path) -> None:
    machine = _read(sysfs.nd_a100_v4(tmp_path))

    assert machine.devices["0110:00:02.0"].accelerated
    assert "0110:00:02.0" not in [hca.address for hca in machine.hcas]


def test_adapter_named_by_the_image_is_none_for_nccl_either(tmp_path: Path) -> None:
    tree = sysfs.Tree(tmp_path, {0: "0-3"}, "0-3")
    tree.hca("0101:00:00.0", 0, "mlx5_an0")

    assert _read(tree).hcas == []


def test_ethernet_adapter_of_bare_metal_is_one_for_nccl(tmp_path: Path) -> None:
    tree = sysfs.Tree(tmp_path, {0: "0-3"}, "0-3")
    home = tree.device("0000:21:00.0", sysfs.ETHERNET, 0, 0x15B3)
    (tree.sysfs / home / "infiniband/mlx5_bond_0").mkdir(parents=True)
    (tree.sysfs / home / "net/ens1").mkdir(parents=True)
    (tree.sysfs / home / "net/ens1/master").symlink_to(tree.sysfs / "devices/virtual/net/bond0")

    assert [hca.address for hca in _read(tree).hcas] == ["0000:21:00.0"]


def test_listing_of_a_real_machine(tmp_path: Path) -> None:
    machine = _read(sysfs.h200_vm(tmp_path))

    assert [gpu.address for gpu in machine.gpus] == [f"0000:00:0{number}.0" for number in range(6, 10)]
    assert {gpu.numa_node for gpu in machine.gpus} == {-1}
    assert machine.hcas == []


def test_bridges_are_read_from_the_root_down(tmp_path: Path) -> None:
    tree = sysfs.Tree(tmp_path)
    tree.device("0000:1b:00.0", sysfs.GPU, 0, bridges=["0000:15:01.0", "0000:16:00.0", "0000:17:02.0"])

    assert _read(tree).gpus[0].bridges == ("0000:15:01.0", "0000:16:00.0", "0000:17:02.0")


def test_machine_that_shows_nothing_is_empty(tmp_path: Path) -> None:
    machine = hardware_machine.read(str(tmp_path / "none"), str(tmp_path / "none"), "aarch64")

    assert machine == hardware_machine.Machine({}, {}, [], {"arch": "arm64"})


@settings(max_examples=15, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20), st.text(max_size=60))
def test_no_contents_make_the_reader_die(
    tmp_path_factory: pytest.TempPathFactory, number: str, cpus: str, cpuinfo: str
) -> None:
    tree = sysfs.Tree(tmp_path_factory.mktemp("tree"), {0: cpus}, cpus)
    home = tree.device("0001:00:00.0", sysfs.GPU, 0)
    for name in ("class", "vendor", "numa_node", "max_link_speed", "max_link_width"):
        (tree.sysfs / home / name).write_text(number, encoding="utf-8")
    (tree.procfs / "cpuinfo").write_text(cpuinfo, encoding="utf-8")

    assert list(_read(tree).devices) == ["0001:00:00.0"]
