# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An inventory of azure.azcollection.azure_rm passes the input check: its host variables are those of that plugin."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.tests.integration.conftest import Run


def _machine(name: str, size: str, computer_name: str = "") -> dict[str, t.Any]:
    """Return the host variables that azure_rm sets for a virtual machine."""
    return {
        "ansible_host": "127.0.0.1",
        "ansible_port": 1,
        "name": name,
        "computer_name": computer_name or name,
        "default_inventory_hostname": name,
        "location": "westeurope",
        "resource_group": "lab-rg",
        "resource_type": "Microsoft.Compute/virtualMachines",
        "powerstate": "running",
        "provisioning_state": "succeeded",
        "private_ipv4_addresses": ["10.0.0.4"],
        "tags": {"role": "node"},
        "virtual_machine_size": size,
        "vmss": {},
    }


def _inventory(**nodes: str) -> dict[str, t.Any]:
    """Return a controller, and nodes by their inventory names, each with the name of the machine."""
    size = "Standard_ND96isr_H100_v5"
    hosts = {"head": _machine("head", "Standard_D8s_v5")}
    hosts |= {node: _machine(node, size, computer) for node, computer in nodes.items()}
    children: dict[str, t.Any] = {
        "slurm_controller": {"hosts": {"head": {}}},
        "slurm_compute": {"hosts": {node: {} for node in nodes}},
    }
    return {"all": {"hosts": hosts, "children": children}}


def test_an_inventory_of_azure_rm_passes(run: Run) -> None:
    code, output = run(_inventory(gpu1="gpu1", NODES00000A="NODES00000A"), "playbooks/check_input.yml")

    assert code == 0, output


def test_an_inventory_name_that_is_not_the_name_of_the_machine_is_refused(run: Run) -> None:
    code, output = run(_inventory(gpu1="gpu1", NODES00000A="nodes00000A"), "playbooks/check_input.yml")

    assert code != 0
    assert "found machines of Slurm named NODES00000A" in re.sub(r"\s+", " ", output)
