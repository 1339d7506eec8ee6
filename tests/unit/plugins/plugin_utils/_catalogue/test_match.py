# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The VM size of a machine is found by its hardware, or the nearest one is named with each difference."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import look
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import match, records
from ansible_collections.hpcai.gpucluster.tests.unit.support import sysfs
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import place

if t.TYPE_CHECKING:
    from pathlib import Path

REAL = sorted(set(records.load()) - {"lab", "simulated_h100"})


def machine(size: str, **changes: t.Any) -> dict[str, t.Any]:
    """Return what a healthy machine of a size shows, with changes."""
    record = records.find(size)
    cpus, gpus = record["cpus"], record["gpus"]
    numbers = [number for number, kind in match.gpus().items() if (kind["model"], kind["memory_mib"]) == _kind(gpus)]
    return {
        "gpus": {numbers[0]: gpus["count"]},
        "cpus": cpus["sockets"] * cpus["cores_per_socket"] * cpus["threads_per_core"],
        "numa_nodes": record["numa_nodes"],
        "memory_mib": record["memory_mib"],
        "nvme": record["nvme"]["count"],
        "hcas": len(record["infiniband"]["hcas"]),
        "architecture": cpus["architecture"],
        "product": "",
        **changes,
    }


def _kind(gpus: dict[str, t.Any]) -> tuple[str, int]:
    return gpus["model"], gpus["memory_mib"]


KINDS = [(kind["model"], kind["memory_mib"]) for kind in match.gpus().values()]


# Those whose GPU has no device id fail in a test of their own.
@pytest.mark.parametrize("size", [size for size in REAL if _kind(records.find(size)["gpus"]) in KINDS])
def test_each_size_is_found_and_no_other(size: str) -> None:
    found = match.find(machine(size))

    where = place(records.DIRECTORY / f"{size}.yml")
    assert found.size.lower() == size, f"{where}: a machine of this size is taken for {found}"
    assert (found.differences, found.problem) == ([], "")
    others = {name: record for name, record in records.load().items() if name != size}
    other = match.find(machine(size), others).size
    assert other == "", f"{where}: nothing distinguishes {size} from {other}"


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"gpus": {"2330": 7}}, "it has 7 GPUs instead of 8"),
        ({"gpus": {"2330": 9}}, "it has 9 GPUs instead of 8"),
        ({"gpus": {}}, "it has 0 GPUs instead of 8"),
        ({"cpus": 112}, "it has 112 CPUs instead of 224"),
        ({"numa_nodes": 8}, "it has 8 NUMA nodes instead of 2"),
        ({"memory_mib": 1031712}, "it has 1007 GiB of memory instead of 2015"),
        ({"nvme": 9}, "it has 9 NVMe drives instead of 10"),
        ({"hcas": 7}, "it has 7 RDMA adapters instead of 8"),
    ],
)
def test_a_machine_that_lost_something_gets_no_size(changes: dict[str, t.Any], difference: str) -> None:
    found = match.find(machine("dgx_h100", product="DGXH100", **changes))

    assert found.size == ""
    assert found.problem == f"no size fits; the nearest is DGX_H100, but {difference}"


@pytest.mark.parametrize("changes", [{"nvme": 12}, {"hcas": 12}, {"memory_mib": 2063425 - 90000}])
def test_drives_and_adapters_in_addition_and_less_memory_within_the_tolerance_fit(changes: dict[str, t.Any]) -> None:
    assert match.find(machine("dgx_h100", **changes)).size == "DGX_H100"


@pytest.mark.parametrize(
    ("kinds", "named"),
    [
        ({"2331": 8}, "its GPUs are H100 PCIe with 79 GiB instead of H100 with 79 GiB"),
        ({"ffff": 8}, "its GPUs are 10de:ffff, which is unknown instead of H100 with 79 GiB"),
        ({"2330": 4, "20b2": 4}, "its GPUs are A100 with 80 GiB and H100 with 79 GiB instead of H100 with 79 GiB"),
    ],
)
def test_other_gpus_are_named(kinds: dict[str, int], named: str) -> None:
    found = match.find(machine("dgx_h100", product="NVIDIA DGX H100", gpus=kinds))

    assert (found.size, found.nearest) == ("", "DGX_H100")
    assert found.differences == [named]


def test_a_recorded_machine_with_four_h200_fits_none(tmp_path: Path) -> None:
    tree = sysfs.h200_vm(tmp_path)

    # Without sizes that come later and may be as near.
    sizes = {name: records.load()[name] for name in ("standard_nd96isr_h200_v5", "dgx_h100")}

    found = match.find(look.read(str(tree.sysfs), str(tree.procfs), "x86_64"), sizes)
    assert match.find(look.read(str(tree.sysfs), str(tree.procfs), "x86_64")).size == ""
    assert (found.size, found.nearest) == ("", "Standard_ND96isr_H200_v5")
    assert "it has 4 GPUs instead of 8" in found.differences
    assert "it has 64 CPUs instead of 96" in found.differences


def test_another_architecture_is_no_match() -> None:
    found = match.find(machine("dgx_h100", architecture="aarch64"))

    assert found.differences == ["it has aarch64 instead of x86_64"]


@pytest.mark.parametrize("size", REAL)
def test_each_gpu_of_the_catalogue_has_a_pci_id(size: str) -> None:
    model, memory = _kind(records.find(size)["gpus"])
    table = place("plugins/plugin_utils/_catalogue/gpus.yml", model)
    line = f'"DEVICE ID": {{model: {model}, memory_mib: {memory}}}'
    assert (model, memory) in KINDS, f"{table}: add the line  {line}  for {size}, with its source"
