# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs of clusters on Azure for tests."""

from __future__ import annotations

import copy
import typing as t

# A key that belongs to nobody: 32 bytes of zero.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA admin@example"
RESERVATION = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/shared/providers/Microsoft.Compute"
    "/capacityReservationGroups/a100"
)
V100_IMAGE = "microsoft-dsvm:ubuntu-hpc:2204-v100:22.04.2025082501"
ARM_IMAGE = (
    "/subscriptions/11111111-2222-3333-4444-555555555555/resourceGroups/images/providers/Microsoft.Compute"
    "/galleries/hpc/images/gb/versions/1.0.0"
)
_SMALLEST: dict[str, t.Any] = {
    "name": "hpc",
    "subscription_id": "11111111-2222-3333-4444-555555555555",
    "location": "eastus",
    "admin": {"ssh_keys": [KEY]},
    "gpu_sets": [{"name": "h100", "vm_size": "Standard_ND96isr_H100_v5", "count": 2}],
}
_NETWORK = {
    "type": "existing",
    "resource_group": "network",
    "name": "hub",
    "head_subnet": "services",
    "node_subnet": "compute",
    "head_addresses": "10.1.0.0/24",
    "node_addresses": "10.1.4.0/22",
    "anf_subnet": "netapp",
    "amlfs_subnet": "lustre",
}


def cluster(**changes: t.Any) -> dict[str, t.Any]:
    """Return the smallest cluster with changes."""
    return {**copy.deepcopy(_SMALLEST), **changes}


def gpu_set(**changes: t.Any) -> dict[str, t.Any]:
    """Return a cluster whose only set has changes."""
    return cluster(gpu_sets=[{**_SMALLEST["gpu_sets"][0], **changes}])


def set_of(size: str) -> dict[str, t.Any]:
    """Return a cluster with one set of a VM size, with the image that the size needs."""
    image = {"2204-v100": V100_IMAGE, "for Arm": ARM_IMAGE}
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import sizes

    found = sizes.find(size)
    rack = {"gpu_imex": "none", "instances_per_group": found.rack} if found.rack > 1 else {}
    return gpu_set(name="gpu", vm_size=size, **({"image": image[found.image_sku]} if found.image_sku else {}), **rack)


# Every branch of the template, by name.
EVERYTHING: dict[str, dict[str, t.Any]] = {
    "smallest": cluster(),
    "public": cluster(
        access={"type": "public", "allowed_from": ["203.0.113.0/24", "198.51.100.7/32"]}, login={"count": 2}
    ),
    "private": cluster(access={"type": "none"}, identity={"controller_role": "none"}),
    "existing network": cluster(
        network=_NETWORK,
        storage=[{"type": "azure_files"}, {"type": "anf", "path": "/anf"}, {"type": "amlfs", "zone": "1"}],
    ),
    "storage": cluster(
        storage=[
            {"type": "head"},
            {"type": "azure_files", "path": "/data"},
            {"type": "anf", "path": "/anf"},
            {"type": "amlfs"},
        ],
        controller={"data_disks": [{"size_gib": 1024}, {"size_gib": 1024}], "zone": "1"},
    ),
    "spot": gpu_set(
        priority="spot", max_price=12.5, zone="2", os_disk={"type": "managed"}, eviction_policy="Deallocate"
    ),
    "split": gpu_set(count=150, max_count=700, instances_per_group=300, proximity=True),
    "reserved": gpu_set(vm_size="Standard_NC96ads_A100_v4", capacity_reservation={"type": "new"}, zone="1"),
    "reservation": gpu_set(
        vm_size="Standard_NC96ads_A100_v4", capacity_reservation={"type": "existing", "id": RESERVATION}
    ),
    "removal": cluster(delete_after="7d", tags={"owner": "alice"}, access={"type": "bastion", "sku": "Premium"}),
}
