# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The catalogue against a table of what public sources say, and against itself."""

from __future__ import annotations

import copy
import itertools
import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records, spec
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._health import expectations
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings
from ansible_collections.hpcai.gpucluster.tests.unit.support import hardware_sources
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

if t.TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Record = dict[str, t.Any]

NAMES = [name for name in records.names() if name not in ("lab", "simulated_h100")]


# One test fails for a size without an entry, and for a GPU without a figure; the others leave it out.
KNOWN = [name for name in NAMES if name in hardware_sources.SIZES]
VM_SIZES = records.DIRECTORY
LINK_GBPS = {3: 15.75, 4: 31.5, 5: 63.0}  # by PCIe generation, 16 lanes
NVLINK_GBPS = {"V100": 25.0, "A100": 25.0, "H100": 26.5, "H200": 26.5}  # of one link


@pytest.fixture(params=KNOWN)
def record(request: pytest.FixtureRequest) -> Record:
    return records.find(request.param)


def test_every_figure_is_that_of_its_sources(record: Record) -> None:
    name = record["name"]
    file, entry = VM_SIZES / f"{name.lower()}.yml", place(hardware_sources.PATH, f"{name}:")

    expect_none(
        f"{place(file, path.split('.')[1] + ':')}: {path[1:]} is {found}, but the sources say "
        f"{'nothing' if said is None else said}: correct it, or add its source to {entry}, entry `{name}`"
        for path, (found, said) in hardware_sources.differences(record).items()
    )


def test_the_table_has_the_sizes_of_the_catalogue() -> None:
    table = place(hardware_sources.PATH)

    expect_none(
        [
            f"{table}: add an entry `{name}:` with what the sources of "
            f"{place(VM_SIZES / f'{name.lower()}.yml')} say; copy the entry of the nearest size"
            for name in NAMES
            if name not in hardware_sources.SIZES
        ]
        + [
            f"{place(hardware_sources.PATH, f'{name}:')}: remove the entry `{name}`, or add the size as "
            f"{place(VM_SIZES / f'{name.lower()}.yml')}"
            for name in hardware_sources.SIZES
            if name not in NAMES
        ]
    )


def test_what_the_rules_below_need_of_a_gpu_is_known() -> None:
    found = {name: records.find(name) for name in NAMES}
    here = "tests/unit/plugins/plugin_utils/_catalogue/test_sources.py"

    expect_none(
        [
            f"{place(here, 'LINK_GBPS =')}: add the GB/s of PCIe generation {generation} for {name}"
            for name, record in found.items()
            for generation in [record["gpus"].get("pcie_generation")]
            if "host_to_device_gbps" in record["thresholds"] and generation not in LINK_GBPS
        ]
        + [
            f"{place(here, 'NVLINK_GBPS =')}: add the GB/s of one NVLink of {model} for {name}"
            for name, record in found.items()
            for model in [record["gpus"]["model"].split()[0]]
            if record["gpus"]["count"] == 8 and model not in NVLINK_GBPS and _busbw(record)
        ]
    )


def _busbw(record: Record) -> float:
    return float(record["thresholds"].get("nccl_allreduce_busbw_gbps", {}).get("fail") or 0)


def _swap_adapters(record: Record) -> None:
    first, second = record["topology"][:2]
    first["hca"], second["hca"] = second["hca"], first["hca"]


@pytest.mark.parametrize(
    "plant",
    [
        lambda r: r["thresholds"]["nccl_allreduce_busbw_gbps"].update(fail=46),
        _swap_adapters,
        lambda r: r["topology"][1].update(hca="mlx5_ib0"),
        lambda r: r["topology"][1].update(hca_pci="0109:00:00.0"),
        lambda r: r["topology"][4].update(numa_node=0),
        lambda r: r["topology"][4].update(bridge=4),
        lambda r: r["nvme"].update(count=7),
        lambda r: r["gpus"].update(nvlinks=12),
        lambda r: r["gpus"].pop("nvlinks"),
        lambda r: r["infiniband"]["hcas"].reverse(),
        lambda r: r["thresholds"].pop("ib_write_bw_gbitps"),
    ],
)
def test_a_planted_error_is_found(plant: Callable[[Record], object]) -> None:
    record = records.find("Standard_ND96isr_H100_v5")
    plant(record)

    assert hardware_sources.differences(record)


def _figures(value: t.Any) -> Iterator[tuple[t.Any, t.Any]]:
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        if isinstance(item, (dict, list)):
            yield from _figures(item)
        elif isinstance(item, (int, float)):
            yield value, key


def test_ten_times_any_figure_is_found(record: Record) -> None:
    for part in ("cpus", "gpus", "nvme", "infiniband", "topology", "thresholds"):
        for number in range(len(list(_figures(record[part])))):
            changed = copy.deepcopy(record)
            holder, key = next(itertools.islice(_figures(changed[part]), number, None))
            holder[key] = holder[key] * 10 + 1

            assert hardware_sources.differences(changed), (part, key)


# What follows needs no table.


def test_figures_of_the_same_gpus_agree() -> None:
    alike: dict[tuple[str, str, str, int, t.Any, bool], list[float]] = {}
    for name in NAMES:
        found = records.find(name)
        gpus, family = found["gpus"], {"H200": "H100"}.get(found["gpus"]["model"], found["gpus"]["model"])
        for metric, levels in found["thresholds"].items():
            kind = "" if metric.startswith("nccl") else "any"
            key = (metric, family, "fail", gpus["count"] if not kind else 0, gpus.get("nvlinks"), bool(found["nvme"]))
            alike.setdefault(key, []).append(levels["fail"])

    assert sum(len(values) > 1 for values in alike.values()) >= 6
    expect_none(
        f"{place(VM_SIZES)}: {key[0]} of sizes with {key[1]} differs by more than 15 %: {', '.join(map(str, values))}"
        for key, values in alike.items()
        if min(values) < 0.85 * max(values)
    )


def _outside(record: Record, metric: str, low: float, high: float) -> str:
    where = place(VM_SIZES / f"{record['name'].lower()}.yml", metric)
    return f"{where}: {metric} must be between {low:g} and {high:g}; correct it, or the width of the link"


def test_copies_reach_half_of_the_link_and_no_more_than_it_carries(record: Record) -> None:
    for metric in ("host_to_device_gbps", "device_to_host_gbps"):
        for value in record["thresholds"].get(metric, {}).values():
            link = LINK_GBPS.get(record["gpus"].get("pcie_generation"))
            assert link is None or 0.5 * link < value < link, _outside(record, metric, 0.5 * link, link)


def test_adapters_reach_three_quarters_of_the_port_and_no_more_than_it_carries(record: Record) -> None:
    rate = record["infiniband"]["rate_gbps"]
    for value in record["thresholds"].get("ib_write_bw_gbitps", {}).values():
        assert 0.75 * rate < value < rate, _outside(record, "ib_write_bw_gbitps", 0.75 * rate, rate)


def test_a_busbw_fits_the_nvlinks(record: Record) -> None:
    fail, each = _busbw(record), NVLINK_GBPS.get(record["gpus"]["model"].split()[0])
    if fail and each and record["gpus"]["count"] == 8:
        width = each * record["gpus"].get("nvlinks", 0)
        assert 0.7 * width < fail < width, _outside(record, "nccl_allreduce_busbw_gbps", 0.7 * width, width)


def test_adapters_have_their_names_in_the_order_of_their_addresses(record: Record) -> None:
    pairs = sorted((gpu["hca_pci"], gpu["hca"]) for gpu in record["topology"] if "hca" in gpu)

    names = [name for _address, name in pairs]
    where = place(VM_SIZES / f"{record['name'].lower()}.yml", "hcas:")
    assert names == record["infiniband"]["hcas"][: len(pairs)], f"{where}: the order by address is {names}"


def test_a_bridge_is_at_one_numa_node_and_as_wide_as_the_others(record: Record) -> None:
    below: dict[int, list[int]] = {}
    for gpu in record["topology"]:
        below.setdefault(gpu.get("bridge", 0), []).append(gpu["numa_node"])

    assert all(len(set(nodes)) == 1 for bridge, nodes in below.items() if bridge)
    assert len({len(nodes) for nodes in below.values()}) <= 1


@pytest.mark.parametrize("metric", spec.THRESHOLDS)
def test_every_threshold_is_judged_by_something(metric: str) -> None:
    record = records.find("Standard_ND96isr_H100_v5")
    before = expectations.expectations(record)
    record["thresholds"][metric] = {"fail": 1}
    by_health = expectations.expectations(record) != before

    assert by_health or metric in settings.RECORDED.values()
