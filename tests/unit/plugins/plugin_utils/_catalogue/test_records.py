# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of the catalogue, and what a record of a site's own must be."""

from __future__ import annotations

import copy
import typing as t

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records, rules
from ansible_collections.hpcai.gpucluster.tests.unit.support.places import expect_none, place

if t.TYPE_CHECKING:
    from pathlib import Path

NAMES = records.names()
WANTED = [
    "Standard_ND40rs_v2",
    "Standard_ND96asr_v4",
    "Standard_ND96amsr_A100_v4",
    "Standard_ND96isr_H100_v5",
    "Standard_ND96isr_H200_v5",
    "Standard_NC24ads_A100_v4",
    "Standard_NC48ads_A100_v4",
    "Standard_NC96ads_A100_v4",
    "Standard_NC40ads_H100_v5",
    "Standard_NC80adis_H100_v5",
    "Standard_NC24rs_v3",
    "DGX_A100",
    "DGX_H100",
    "lab",
    "simulated_h100",
]


@pytest.fixture(params=NAMES)
def record(request: pytest.FixtureRequest) -> dict[str, t.Any]:
    return records.find(request.param)


def test_the_catalogue_has_the_sizes_that_the_project_promises() -> None:
    assert set(WANTED) <= set(NAMES)


def test_a_file_is_named_after_its_size() -> None:
    expect_none(
        f"{place(records.DIRECTORY / f'{stem}.yml', 'name:')}: the name {found['name']} belongs into the file "
        f"{found['name'].lower()}.yml: rename the file, or correct the name"
        for stem, found in records.load().items()
        if found["name"].lower() != stem
    )


def test_every_record_answers_what_templates_ask(record: dict[str, t.Any]) -> None:
    assert record["gpus"]["count"] >= 0
    assert record["nvme"]["count"] >= 0
    assert record["infiniband"]["hcas"] is not None
    assert record["thresholds"] is not None
    assert record["topology"] is not None


def test_no_record_holds_a_null(record: dict[str, t.Any]) -> None:
    assert "None" not in str(record)


@pytest.mark.parametrize("name", ["Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4"])
def test_gpus_of_nd_a100_v4_have_the_numa_order_that_azure_ships(name: str) -> None:
    assert [gpu["numa_node"] for gpu in records.find(name)["topology"]] == [1, 1, 0, 0, 3, 3, 2, 2]


def test_name_is_found_without_case() -> None:
    assert records.find("STANDARD_nd96isr_h100_V5")["gpus"]["model"] == "H100"


def test_unknown_name_tells_the_known_ones() -> None:
    with pytest.raises(records.CatalogueError, match=r"'Standard_X'; known sizes: DGX_A100, .*lab.*Standard_ND40rs_v2"):
        records.find("Standard_X")


def test_record_of_the_site_wins() -> None:
    own = {
        "name": "mine",
        "cpus": {"sockets": "1", "cores_per_socket": 4, "threads_per_core": 2},
        "numa_nodes": 1,
        "memory_mib": 8000,
        "gpus": {"count": 0},
    }

    found = records.find("Standard_ND96isr_H100_v5", own)

    assert found["name"] == "mine"
    assert found["cpus"]["sockets"] == 1
    assert found["infiniband"] == {"rate_gbps": 0, "hcas": []}


def test_caller_cannot_change_the_catalogue() -> None:
    records.find("lab")["gpus"]["count"] = 9

    assert records.find("lab")["gpus"]["count"] == 0


def test_a_record_is_judged_once_however_often_templates_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[str] = []

    def problems(record: dict[str, t.Any]) -> list[str]:
        judged.append(record["name"])
        return []

    monkeypatch.setattr(rules, "problems", problems)
    own = {**records.find("lab"), "name": "asked often"}

    assert {str(records.checked(own, "x")) for _template in range(3)} == {str(own)}
    assert judged == ["asked often"]


def _broken(change: t.Callable[[dict[str, t.Any]], object]) -> list[str]:
    record = copy.deepcopy(records.find("Standard_ND96asr_v4"))
    change(record)
    return records.problems(record)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda r: r.update(cpus=[None]), "cpus must be a mapping, not list"),
        (lambda r: r.update(memory_mib=[1 << 63, None, None]), "memory_mib must be one value, not list"),
        (lambda r: r.update(topology="none"), "topology must be a list, not str"),
        (lambda r: r.update(topology=["none"]), "topology[0] must be a mapping, not str"),
        (lambda r: r["gpus"].update(clocks=1980), "gpus.clocks must be a mapping, not int"),
        (lambda r: r.update(colour="red"), "colour"),
        (lambda r: r["gpus"].update(cout=8), "cout"),
        (lambda r: r.pop("numa_nodes"), "missing required arguments: numa_nodes"),
        (lambda r: r.update(memory_mib="much"), "memory_mib"),
        (lambda r: r.update(numa_nodes=5), "numa_nodes is 5, which does not divide the 96 cores"),
        (lambda r: r["cpus"].update(sockets=0), "cpus.sockets is 0"),
        (lambda r: r.update(numa_nodes=0), "numa_nodes is 0"),
        (lambda r: r["gpus"].update(count=-1), "gpus.count is -1"),
        (lambda r: r["gpus"].pop("memory_mib"), "gpus.memory_mib is missing"),
        (lambda r: r["topology"].pop(), "with gpus.count 8 it needs each of 0 to 7 once"),
        (lambda r: r["topology"][3].update(numa_node=4), "GPU 3 has numa_node 4, with numa_nodes 4 it must be 0 to 3"),
        (lambda r: r["topology"][0].update(pci=3600.0), "in quotes, or YAML reads a number"),
        (lambda r: r["topology"][0].update(pci="0002:00:00.0"), "0002:00:00.0 is used by GPU 0 and by GPU 1"),
        (lambda r: r["topology"][0].update(hca="mlx5_9"), "hca 'mlx5_9', which is not one of infiniband.hcas"),
        (lambda r: r["topology"][1].update(hca="mlx5_ib0"), "GPU 0 and GPU 1 both have hca 'mlx5_ib0'"),
        (lambda r: r["infiniband"].update(rate_gbps=0), "rate_gbps 0 and 8 hcas"),
        (
            lambda r: r["infiniband"].update(rate_gbps=100),
            "ib_write_bw_gbitps has fail 180, but the link carries no more",
        ),
        (
            lambda r: r["gpus"].update(pcie_width=8),
            "device_to_host_gbps has fail 21, but the link carries no more than 15",
        ),
        (lambda r: r["topology"][1].pop("pci"), "topology_file is true"),
        (lambda r: r["nccl"]["environment"].update(UCX_TLS="rc"), "'UCX_TLS', it may hold variables of NCCL alone"),
        (lambda r: r["environment"].update({"A B": 1}), "'A B', which is no name of a variable"),
        (lambda r: r["thresholds"].update(ib_write_lat_us={"fail": 3}), "ib_write_lat_us"),
        (lambda r: r["thresholds"].update(host_to_device_gbps={"warn": 20, "fail": 21}), "fail must be the lowest"),
        (lambda r: r["thresholds"].update(host_to_device_gbps={}), "host_to_device_gbps is empty"),
    ],
)
def test_fault_is_named(change: t.Callable[[dict[str, t.Any]], object], text: str) -> None:
    assert any(text in problem for problem in _broken(change)), _broken(change)


def test_gpus_may_share_an_adapter_where_there_are_fewer() -> None:
    def change(record: dict[str, t.Any]) -> None:
        record["infiniband"]["hcas"] = ["mlx5_ib0"]
        for gpu in record["topology"]:
            gpu.update(hca="mlx5_ib0")

    assert _broken(change) == []


def test_all_faults_of_a_record_are_told_at_once() -> None:
    def change(record: dict[str, t.Any]) -> None:
        record["numa_nodes"] = 5
        record["infiniband"]["rate_gbps"] = 0

    assert len(_broken(change)) >= 2


def test_error_names_the_variable() -> None:
    with pytest.raises(records.CatalogueError, match=r"^gpucluster_vm_size_record: "):
        records.find("lab", {"name": "x"})


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "odd.yml").write_text("name: odd\n", encoding="utf-8")

    with pytest.raises(records.CatalogueError, match=r"^odd\.yml: missing required arguments"):
        records.load(tmp_path)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(key=st.sampled_from(sorted(records.find("DGX_H100"))), value=_JSON)
def test_no_value_makes_the_check_die(key: str, value: t.Any) -> None:
    record = {**records.find("DGX_H100"), key: value}

    assert all(isinstance(problem, str) for problem in records.problems(record))


@settings(max_examples=60, deadline=None)
@given(_JSON)
def test_nothing_that_is_no_record_passes(value: t.Any) -> None:
    assert records.problems(value)
