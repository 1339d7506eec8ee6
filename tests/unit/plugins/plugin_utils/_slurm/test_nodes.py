# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import auto
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import nodes

if t.TYPE_CHECKING:
    from pathlib import Path

LAB = {"gpucluster_vm_size": "lab"}
H100 = {"azure_vm_size": "Standard_ND96isr_H100_v5"}


def test_equal_hosts_share_a_group_in_the_order_of_the_inventory() -> None:
    groups = nodes.group(["gpu1", "login", "gpu2"], {"gpu1": H100, "login": LAB, "gpu2": H100})

    assert [group["hosts"] for group in groups] == ["gpu[1-2]", "login"]
    assert groups[0]["record"]["gpus"]["count"] == 8


def test_a_host_that_says_nothing_can_be_skipped() -> None:
    groups = nodes.group(["gpu1", "gpu2"], {"gpu1": {}, "gpu2": LAB}, skip=True)

    assert [group["hosts"] for group in groups] == ["gpu2"]
    with pytest.raises(nodes.NodeError, match="huge"):
        nodes.group(["gpu1"], {"gpu1": {"gpucluster_vm_size": "huge"}}, skip=True)


def test_ten_thousand_equal_hosts_are_one_group() -> None:
    hosts = [f"gpu{number}" for number in range(10_000)]

    assert len(nodes.group(hosts, dict.fromkeys(hosts, H100))) == 1


def test_the_size_of_the_site_wins_over_azures() -> None:
    groups = nodes.group(["gpu1"], {"gpu1": H100 | LAB})

    assert groups[0]["record"]["name"] == "lab"


def test_an_addition_to_the_node_line_makes_another_group() -> None:
    groups = nodes.group(["gpu1", "gpu2"], {"gpu1": LAB, "gpu2": LAB | {"slurm_node_config": {"Weight": 5}}})

    assert [group["config"] for group in groups] == [{}, {"Weight": 5}]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "host gpu1: gpucluster_vm_size: found nothing; allowed: DGX_A100, "),
        ({"gpucluster_vm_size": "huge"}, "host gpu1: gpucluster_vm_size.*huge"),
    ],
)
def test_a_host_without_a_known_size_is_named(variables: dict[str, t.Any], message: str) -> None:
    with pytest.raises(nodes.NodeError, match=message):
        nodes.group(["gpu1"], {"gpu1": variables})


def test_a_size_that_was_found_is_used(tmp_path: Path) -> None:
    path = str(tmp_path / "sizes.json")
    auto.write(path, {"gpu1": "lab", "gpu2": "lab"})

    found = nodes.group(["gpu1", "gpu2"], {"gpu1": {"gpucluster_vm_size": "auto"}, "gpu2": {}}, sizes=path)
    assert [(group["hosts"], group["record"]["name"]) for group in found] == [("gpu[1-2]", "lab")]
    with pytest.raises(nodes.NodeError, match="With auto, the first run must include the host"):
        nodes.group(["gpu3"], {"gpu3": {"gpucluster_vm_size": "auto"}}, sizes=path)


def test_a_size_of_the_inventory_takes_precedence_over_one_that_was_found(tmp_path: Path) -> None:
    path = str(tmp_path / "sizes.json")
    auto.write(path, {"gpu1": "DGX_H100"})

    (found,) = nodes.group(["gpu1"], {"gpu1": LAB}, sizes=path)
    assert found["record"]["name"] == "lab"


def test_the_size_of_azure_rm_is_used() -> None:
    (found,) = nodes.group(["gpu1"], {"gpu1": {"virtual_machine_size": "Standard_ND96asr_v4"}})

    assert found["record"]["name"] == "Standard_ND96asr_v4"
