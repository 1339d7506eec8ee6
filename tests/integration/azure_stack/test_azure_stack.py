# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""azure_stack, azure-core and azure-identity against a server that speaks Azure over HTTPS."""

from __future__ import annotations

import typing as t

Cluster = t.Any  # of conftest.py, which pytest imports by another name


def test_a_cluster_comes_up_in_one_run_and_the_second_changes_nothing(cluster: Cluster) -> None:
    first = cluster.run()
    second = cluster.run()

    assert first.rc == 0, first.text
    assert first.module["changed"], first.text
    assert ("Create", "training-rg") in first.named()
    assert ("Create", "h100") in first.named()
    assert first.module["outputs"]["principal"].count("-") == 4
    assert second.module["changes"] == [], second.text
    assert not second.module["changed"]
    assert second.module["requests"] <= 3
    assert second.module["outputs"] == first.module["outputs"]


def test_check_mode_names_every_change_and_writes_nothing(cluster: Cluster) -> None:
    new = cluster.run("--check", "--diff")
    writes_of_new = cluster.azure.writes()
    cluster.run()
    before = cluster.contents()
    cluster.resource("networkSecurityGroups")["properties"]["securityRules"][0]["properties"]["priority"] = 110
    written = len(cluster.azure.writes())

    changed = cluster.run("--check", "--diff")
    absent = cluster.absent("--check", "--diff")

    assert writes_of_new == []
    assert len(new.named()) == 1 + len(cluster.template["resources"])
    assert "+  sku.capacity: 2" in new.text
    assert changed.named() == [("Modify", "nodes")]
    assert "-  properties.securityRules[0].properties.priority: 100" in changed.text
    assert "+  properties.securityRules[0].properties.priority: 110" in changed.text
    assert ("Delete", "h100") in absent.named()
    assert "-Microsoft.Compute/virtualMachineScaleSets h100" in absent.text
    assert len(cluster.azure.writes()) == written
    assert cluster.contents() == before


def test_a_change_is_applied_once_and_the_removal_leaves_nothing(cluster: Cluster) -> None:
    cluster.run()
    cluster.resource("virtualMachines")["tags"]["note"] = "new"

    changed, again = cluster.run(), cluster.run()
    gone, nothing = cluster.absent(), cluster.absent()

    assert changed.named() == [("Modify", "control")]
    assert not again.module["changed"]
    assert gone.module["changed"]
    assert cluster.contents() == []
    assert not nothing.module["changed"]
    assert nothing.module["requests"] <= 2


def test_wrong_input_sends_no_request(cluster: Cluster) -> None:
    cluster.resource("virtualNetworks")["name"] = "[parameters('name')]"

    found = cluster.run()

    assert "template.resources[1].name is \"[parameters('name')]\"; it must be a literal string" in found.message
    assert [one for one in cluster.azure.log() if "/subscriptions" in one] == []


def test_another_cluster_is_refused_in_both_directions(cluster: Cluster) -> None:
    cluster.run()
    before, written = cluster.contents(), len(cluster.azure.writes())

    for found in (cluster.run(cluster="other"), cluster.absent(cluster="other")):
        assert "the stack training belongs to the cluster training" in found.message
        assert found.module["failed"]
    assert cluster.contents() == before
    assert len(cluster.azure.writes()) == written


def test_the_inventory_finds_what_the_stack_made(cluster: Cluster) -> None:
    cluster.run()

    found = cluster.azure.inventory(
        cluster.azure.options(include_vmss_resource_groups=["*"], slurm_groups=True, hostnames=["computer_name"])
    )

    assert found.rc == 0, found.err
    assert set(found.hosts) == {"control", "h100-000000", "h100-000001"}
    assert found.listed["slurm_controller"]["hosts"] == ["control"]
    assert found.listed["slurm_compute"]["hosts"] == ["h100-000000", "h100-000001"]
    assert found.hosts["h100-000000"]["azure_vm_size"] == "Standard_ND96isr_H100_v5"
