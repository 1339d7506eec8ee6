# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""What a person needs after azure_up: how to log in, what the cluster costs, what comes next."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import (
    access,
    costs,
    inputs,
    storage,
    subnets,
)

if t.TYPE_CHECKING:
    from collections.abc import Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.scope import Scope

# Links of data disks by disk controller. Sizes of _v6 and newer have NVMe only. Sources: "About Azure-VM-Utils" (links)
# https://learn.microsoft.com/azure/virtual-machines/linux/azure-virtual-machine-utilities; "NVMe overview" (sizes),
# https://learn.microsoft.com/azure/virtual-machines/nvme-overview.
_DATA_DISKS = {"nvme": "/dev/disk/azure/data/by-lun/", "scsi": "/dev/disk/azure/scsi1/lun"}
_NVME_ONLY = re.compile(r"_v([6-9]|[1-9][0-9]+)$", re.IGNORECASE)


def lines(scope: Scope, capacities: Mapping[str, int], sets: list[dict[str, t.Any]]) -> list[str]:
    """Return the lines of the summary."""
    where = f"cluster {scope.name} in {scope.cluster['resource_group']}, {scope.cluster['location']}"
    counts = [f"  {entry['set']}: {entry['count']} of {entry['max_count']} x {entry['vm_size']}" for entry in sets]
    period = scope.cluster["delete_after"]
    end = (
        [f"removal: {period} after its creation"] if period else ["removal: ansible-playbook playbooks/azure_down.yml"]
    )
    return [where, *counts, *_login(scope), *costs.lines(scope.cluster, capacities), *end]


def variables(scope: Scope) -> dict[str, t.Any]:
    """Return variables for group_vars that follow from the template: networks, mounts, disks of the controller."""
    own = subnets.addresses(scope.cluster)
    served = any(entry["type"] == "head" for entry in scope.cluster["storage"])
    found: dict[str, t.Any] = {"gpucluster_networks": {"cluster": [own["head"], own["nodes"]]}}
    disks = scope.cluster["controller"]["data_disks"]
    if served and disks:
        link = _DATA_DISKS["nvme" if _NVME_ONLY.search(scope.cluster["controller"]["vm_size"]) else "scsi"]
        devices = [f"{link}{number}" for number, _disk in enumerate(disks)]
        found["nfs_volumes"] = [{"name": "shared", "path": "/shared", "devices": devices}]
    mounts = storage.mounts(scope)
    if mounts:
        own_mounts = [{"path": path} for path in inputs.HEAD_PATHS] if served else []
        found["nfs_mounts"] = own_mounts + mounts
    return found


def _login(scope: Scope) -> list[str]:
    """Return the commands to log in."""
    name, group = access.entrance(scope), scope.cluster["resource_group"]
    user = scope.cluster["admin"]["name"]
    kind = scope.cluster["access"]["type"]
    if kind == "public":
        address = f"az network public-ip show -g {group} -n {name} --query ipAddress -o tsv"
        return [f"login: ssh {user}@$({address})"]
    if kind == "none":
        return [f"login: ssh {user}@{name} from the virtual network"]
    target = f"{scope.id('Microsoft.Compute/virtualMachines', name)}"
    bastion = f"--name {scope.name}-bastion --resource-group {group} --target-resource-id {target}"
    return [
        f"login: az network bastion ssh {bastion} --auth-type ssh-key --username {user} --ssh-key ~/.ssh/id_ed25519",
        f"tunnel for Ansible: az network bastion tunnel {bastion} --resource-port 22 --port 50022",
    ]
