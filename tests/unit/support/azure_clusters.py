# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Inputs of clusters on Azure for tests."""

from __future__ import annotations

import copy
import typing as t

# A key that belongs to nobody: 32 bytes of zero.
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA admin@example"
_SMALLEST: dict[str, t.Any] = {
    "name": "hpc",
    "subscription_id": "11111111-2222-3333-4444-555555555555",
    "location": "eastus",
    "admin": {"ssh_keys": [KEY]},
    "gpu_sets": [{"name": "h100", "vm_size": "Standard_ND96isr_H100_v5", "count": 2}],
}


def cluster(**changes: t.Any) -> dict[str, t.Any]:
    """Return the smallest cluster with changes."""
    return {**copy.deepcopy(_SMALLEST), **changes}


def gpu_set(**changes: t.Any) -> dict[str, t.Any]:
    """Return a cluster whose only set has changes."""
    return cluster(gpu_sets=[{**_SMALLEST["gpu_sets"][0], **changes}])


_DISKS = {"data_disks": [{"size_gib": 1024}, {"size_gib": 512, "sku": "StandardSSD_LRS"}]}
_IMAGE = "/subscriptions/1/resourceGroups/images/providers/Microsoft.Compute/galleries/hpc/images/gb/versions/1.0.0"
# Every branch of the template, by name. The tests set expires to a time that is still to come.
EVERYTHING: dict[str, dict[str, t.Any]] = {
    "smallest": cluster(),
    "public": cluster(access={"type": "public", "allowed_from": ["203.0.113.0/24", "198.51.100.7/32"]}),
    "private": cluster(access={"type": "none"}, login={"count": 2}, tags={"owner": "alice"}),
    "disks": cluster(controller=_DISKS, image=_IMAGE),
    "elastic": gpu_set(elastic=True),
    "without InfiniBand": gpu_set(vm_size="standard_nc24ads_a100_v4"),
    "racks": gpu_set(vm_size="Standard_ND128isr_GB300_v6", image=_IMAGE),
    "expires": cluster(expires=""),
}
