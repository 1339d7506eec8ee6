# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""playbooks/azure_up.yml and azure_down.yml, from the variable azure_cluster to an empty subscription."""

from __future__ import annotations

import json
import re
import typing as t

import pytest
from azure_server.client import ROOT, SUBSCRIPTION  # type: ignore[import-not-found]

if t.TYPE_CHECKING:
    from pathlib import Path

Azure = t.Any
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA admin@example"
INVENTORY = ROOT / "inventories/azure/control_node.yml"


class Playbooks:
    """Runs a playbook of the collection with one cluster."""

    def __init__(self, azure: Azure, folder: Path) -> None:
        self.azure = azure
        self.folder = folder
        self.cluster: dict[str, t.Any] = {
            "name": "training",
            "subscription_id": SUBSCRIPTION,
            "location": "southcentralus",
            "admin": {"ssh_keys": [KEY]},
            "login": {"count": 1},
            "gpu_sets": [{"name": "h100", "vm_size": "Standard_ND96isr_H100_v5", "count": "2", "max_count": 16}],
            "prices": {"hourly": {"Standard_ND96isr_H100_v5": 98.32}},
        }
        azure.control(subscriptions=[{"id": SUBSCRIPTION}], faults=[], quota=False)

    def run(self, name: str, *arguments: str) -> t.Any:
        variables = self.folder / "cluster.json"
        variables.write_text(json.dumps({"azure_cluster": self.cluster}), encoding="utf-8")
        playbook = ROOT / f"playbooks/{name}.yml"
        return self.azure.run(
            "ansible-playbook",
            *("-i", str(INVENTORY), "-e", f"@{variables}", str(playbook), *arguments),
            environment=self.azure.signed_in(),
        )


def changed(run: t.Any) -> int:
    return int(re.findall(r"changed=(\d+)", run.out)[-1])


def tasks(run: t.Any) -> int:
    return len(re.findall(r"^TASK \[", run.out, re.MULTILINE))


@pytest.fixture
def playbooks(azure: Azure, tmp_path: Path) -> Playbooks:
    return Playbooks(azure, tmp_path)


def test_a_cluster_comes_and_goes(playbooks: Playbooks) -> None:
    tried = playbooks.run("azure_up", "--check", "--diff")
    assert tried.rc == 0, tried.out + tried.err
    assert playbooks.azure.writes() == []
    assert "training--h100" in tried.out

    first = playbooks.run("azure_up")
    assert first.rc == 0, first.out + first.err
    assert changed(first) == 1
    assert tasks(first) <= 6
    assert "az network bastion ssh --name training-bastion" in first.out
    assert "costs: 196.64 USD per hour, 1573.12 with all nodes" in first.out

    second = playbooks.run("azure_up")
    assert second.rc == 0, second.out + second.err
    assert changed(second) == 0

    refused = playbooks.run("azure_down", "-e", "azure_down=other")
    assert refused.rc != 0
    assert "allowed: training" in refused.out + refused.err
    assert playbooks.azure.contents()["resources"]

    removed = playbooks.run("azure_down", "-e", "azure_down=training")
    assert removed.rc == 0, removed.out + removed.err
    assert playbooks.azure.contents()["resources"] == []
    assert playbooks.azure.contents()["groups"] == []


def test_wrong_input_is_refused_before_any_request(playbooks: Playbooks) -> None:
    playbooks.cluster["gpu_sets"][0]["vm_size"] = "Standard_ND96isr_H100"
    playbooks.cluster["location"] = "South Central US"

    found = playbooks.run("azure_up")

    assert found.rc != 0
    said = " ".join((found.out + found.err).split())
    assert "azure_cluster.location: found 'South Central US'; allowed: the short name of a region" in said
    assert "did you mean Standard_ND96isr_H100_v5?" in said
    assert playbooks.azure.log() == []


def test_the_addresses_that_azure_chose_for_storage_are_printed(playbooks: Playbooks) -> None:
    playbooks.cluster["storage"] = [{"type": "anf"}, {"type": "amlfs"}]

    found = playbooks.run("azure_up")

    assert found.rc == 0, found.out + found.err
    assert "address_of_anf: 10.1.0.4" in found.out
    assert "address_of_amlfs: 10.1.0.5" in found.out
