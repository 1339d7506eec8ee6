# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The variable azure_cluster, in the form of Ansible's argument specs. docs/azure-cluster.md describes each key."""

from __future__ import annotations

import typing as t

Option = dict[str, t.Any]

# The tag ubuntu-hpc-2026072901 of Azure/azhpc-images, with driver 580.173.02. Its system disk has 64 GiB.
IMAGE = "microsoft-dsvm:ubuntu-hpc:2404:24.04.2026072901"
# Standard disks of this size have 500 operations a second.
_DISK_SKU: Option = {"type": "str", "choices": ["Premium_LRS", "StandardSSD_LRS"], "default": "Premium_LRS"}


def _machine(size: str, **more: Option) -> Option:
    options = {"vm_size": {"type": "str", "default": size}, "os_disk_gib": {"type": "int", "default": 128}, **more}
    return {"type": "dict", "apply_defaults": True, "options": options}


def _mapping(**options: Option) -> Option:
    return {"type": "dict", "apply_defaults": True, "options": options}


_DATA_DISKS: Option = {
    "type": "list",
    "elements": "dict",
    "default": [],
    "options": {"size_gib": {"type": "int", "required": True}, "sku": _DISK_SKU},
}
_GPU_SETS: Option = {
    "type": "list",
    "elements": "dict",
    "required": True,
    "options": {
        "name": {"type": "str", "required": True},
        "vm_size": {"type": "str", "required": True},
        "count": {"type": "int", "required": True},
        "elastic": {"type": "bool", "default": False},
        "image": {"type": "str"},
        "os_disk_gib": {"type": "int", "default": 256},
    },
}
CLUSTER: dict[str, Option] = {
    "name": {"type": "str", "required": True},
    "subscription_id": {"type": "str", "required": True},
    "location": {"type": "str", "required": True},
    "resource_group": {"type": "str"},
    "tags": {"type": "dict", "default": {}},
    "expires": {"type": "str"},
    "image": {"type": "str", "default": IMAGE},
    "network": _mapping(address_space={"type": "str", "default": "10.10.0.0/16"}),
    "access": _mapping(
        type={"type": "str", "choices": ["bastion", "public", "none"], "default": "bastion"},
        allowed_from={"type": "list", "elements": "str", "default": []},
    ),
    "admin": {
        "type": "dict",
        "required": True,
        "options": {
            "name": {"type": "str", "default": "azureuser"},
            # Public keys; Ansible would warn about the name.
            "ssh_keys": {"type": "list", "elements": "str", "required": True, "no_log": False},
        },
    },
    "controller": _machine("Standard_D8as_v5", data_disks=_DATA_DISKS),
    "login": _machine("Standard_D4as_v5", count={"type": "int", "default": 0}),
    "gpu_sets": _GPU_SETS,
}
# Keys that went, with what takes their place.
REMOVED = {
    "delete_after": "expires is the time at which Azure deletes the cluster, such as 2027-03-01T18:00:00+01:00",
    "storage": "homes are on controller.data_disks; nfs_mounts mounts other file servers",
    "prices": "the price calculator of Azure knows the prices",
    "identity": "gpu_sets[].elastic gives the controller the right to start and deallocate nodes, and no other",
    "join": "site.yml --limit NEW adds nodes",
    "monitoring": "the ports of the monitoring are open inside the cluster",
    "security_type": "machines have the type Standard, because Secure Boot refuses the drivers of the HPC image",
    "network.type": "the cluster has a network of its own; peer it with yours, azure_up leaves peerings alone",
    "network.subnets": "network.address_space is divided by the template",
    "controller.os_disk": "os_disk_gib is the size of the system disk",
    "login.os_disk": "os_disk_gib is the size of the system disk",
    "gpu_sets.os_disk": "os_disk_gib is the size of the system disk",
    "gpu_sets.max_count": "count is the number of machines of a set; elastic sets deallocate those that are idle",
    "gpu_sets.instances_per_group": "a set is one placement; make a second set for more machines",
    "gpu_sets.priority": "nodes are fixed machines of the regular price",
    "gpu_sets.capacity_reservation": "make the reservation yourself, outside of the cluster",
}
