# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import template
from ansible_collections.hpcai.gpucluster.tests.unit.support.azure_clusters import EVERYTHING, cluster

PRICES = {"hourly": {"standard_d8as_v5": "0.40", "Standard_ND96isr_H100_v5": 100, "bastion": 0.2}}


def test_costs_are_counted_now_and_with_all_nodes() -> None:
    given = cluster(prices=PRICES)
    given["gpu_sets"][0]["max_count"] = 5

    lines = template.rendered(given)["summary"]

    total = next(line for line in lines if line.startswith("costs:"))
    assert total == "costs: 200.60 USD per hour, 500.60 with all nodes; no price for nat_gateway"
    assert "  2 x Standard_ND96isr_H100_v5: 200.00 USD per hour" in lines


def test_spot_machines_have_their_own_price() -> None:
    given = cluster(prices={**PRICES, "spot_hourly": {"Standard_ND96isr_H100_v5": "30"}})
    given["gpu_sets"][0]["priority"] = "spot"

    assert any(line.startswith("costs: 60.60 USD") for line in template.rendered(given)["summary"])


def test_without_prices_nothing_is_said_about_costs() -> None:
    assert not any("costs" in line for line in template.rendered(cluster())["summary"])


def test_costs_follow_the_current_number_of_machines() -> None:
    lines = template.rendered(cluster(prices=PRICES), {"hpc--h100": 1})["summary"]

    assert any(line.startswith("costs: 100.60 USD") for line in lines)


def test_the_summary_names_the_command_to_log_in() -> None:
    texts = {name: "\n".join(template.rendered(EVERYTHING[name])["summary"]) for name in EVERYTHING}

    assert "az network bastion ssh --name hpc-bastion" in texts["smallest"]
    assert "ssh azureuser@$(az network public-ip show -g hpc -n hpc-login-1" in texts["public"]
    assert "ssh azureuser@hpc-controller from the virtual network" in texts["private"]
    assert "removal: 7d after its creation" in texts["removal"]


def test_variables_follow_from_the_template() -> None:
    found = template.rendered(EVERYTHING["storage"])["variables"]

    assert found["gpucluster_networks"] == {"cluster": ["10.10.0.0/26", "10.10.128.0/17"]}
    assert [mount["path"] for mount in found["nfs_mounts"]] == ["/home", "/shared", "/data"]


@pytest.mark.parametrize(
    ("size", "link"),
    [
        ("Standard_D8as_v5", "/dev/disk/azure/scsi1/lun"),
        ("Standard_D8as_v6", "/dev/disk/azure/data/by-lun/"),
        ("Standard_D8as_v10", "/dev/disk/azure/data/by-lun/"),
    ],
)
def test_data_disks_of_newer_sizes_have_nvme(size: str, link: str) -> None:
    controller = {**EVERYTHING["storage"]["controller"], "vm_size": size}
    found = template.rendered({**EVERYTHING["storage"], "controller": controller})["variables"]

    assert found["nfs_volumes"][0]["devices"] == [f"{link}0", f"{link}1"]


def test_messages_name_what_surprises() -> None:
    assert any("system disk of the controller (128 GiB)" in line for line in template.rendered(cluster())["messages"])
    assert any("service endpoint" in line for line in template.rendered(EVERYTHING["existing network"])["messages"])
