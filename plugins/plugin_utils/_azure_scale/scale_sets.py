# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read the scale sets of a set of GPU nodes, and their instances."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import AzureInventoryError, meant, tag

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    Body = dict[str, t.Any]

VERSION = "2025-04-01"  # of Microsoft.Compute
SET_TAG = "gpucluster_set"
CLUSTER_TAG = "slurm_cluster"
_CYCLECLOUD = ("CycleCloudCluster", "CycleCloudNodeArray", "ClusterId")
ONE_GROUP, MANY_GROUPS = 100, 1000  # instances of a scale set with one placement group, and with several


class ScaleError(AzureInventoryError):
    """A set cannot be scaled as asked; nothing was changed. The message says what to change."""


class Reader(t.Protocol):
    """The requests that read."""

    def rows(self, path: str, version: str, **query: str) -> list[Body]:
        """Return all rows of a list."""


class Instance(t.NamedTuple):
    """One machine of a scale set; states are in lower case, node is the host name, which Slurm uses."""

    scale_set: str
    id: str
    name: str
    node: str
    provisioning: str
    power: str
    vm_id: str

    @property
    def usable(self) -> bool:
        """Return whether the machine runs and Azure has finished it."""
        return self.provisioning == "succeeded" and self.power == "running"

    @property
    def stopped(self) -> bool:
        """Return whether the machine exists but does not run, such as an evicted spot machine."""
        return self.provisioning == "succeeded" and self.power in ("deallocated", "deallocating", "stopped")

    @property
    def broken(self) -> bool:
        """Return whether Azure could not make the machine; it does not run, so it has no jobs."""
        return self.provisioning in ("failed", "canceled") and self.power not in ("running", "starting")


class ScaleSet(t.NamedTuple):
    """One scale set; limit is the largest number of instances, prefix the beginning of their host names."""

    path: str
    name: str
    size: str
    tier: str
    capacity: int
    limit: int
    spot: bool
    prefix: str
    instances: tuple[Instance, ...]

    def body(self, capacity: int) -> Body:
        """Return the request that sets the number of instances. Never less than exist: Azure would choose victims."""
        if capacity < len(self.instances):
            raise ScaleError(f"{self.name} has {len(self.instances)} instances; {capacity} would delete some of them")
        return {"sku": {"name": self.size, "tier": self.tier, "capacity": capacity}}


def read(arm: Reader, group: str, cluster: str, name: str, limit: int = 0) -> list[ScaleSet]:
    """
    Return the scale sets of a set of nodes in their order.

    O(group) is the path of the resource group. O(limit) is the number of instances that one scale set may have; 0 is
    Azure's own limit.
    """
    rows = arm.rows(f"{group}/providers/Microsoft.Compute/virtualMachineScaleSets", VERSION)
    found = [row for row in rows if _is_of(row, cluster, name)]
    if not found:
        raise ScaleError(_no_such_set(group, cluster, name, rows))
    return [_scale_set(arm, row, limit) for row in sorted(found, key=lambda row: _natural(str(row.get("name"))))]


def instances(scale_sets: Sequence[ScaleSet]) -> list[Instance]:
    """Return the instances of several scale sets."""
    return [one for scale_set in scale_sets for one in scale_set.instances]


def _is_of(row: Body, cluster: str, name: str) -> bool:
    tags = row.get("tags") or {}
    if (tag(tags, SET_TAG) or "") != name or (tag(tags, CLUSTER_TAG) or cluster) != cluster:
        return False
    if any(tag(tags, mark) for mark in _CYCLECLOUD):
        raise ScaleError(f"CycleCloud made the scale set {row.get('name')} and changes it; scale it with CycleCloud")
    return True


def _no_such_set(group: str, cluster: str, name: str, rows: Sequence[Body]) -> str:
    """Return the refusal of an unknown set, with the known ones."""
    tags = [row.get("tags") or {} for row in rows]
    if any(tag(one, mark) for one in tags for mark in _CYCLECLOUD):
        return f"the scale sets of {group} are CycleCloud's, which changes them; scale them with CycleCloud"
    known = sorted({str(tag(one, SET_TAG)) for one in tags if tag(one, SET_TAG)})
    where = f"in the cluster {cluster}, resource group {group.rpartition('/')[2]}"
    there = f"there are {', '.join(known)}" if known else "there are none; run azure_up first"
    return f"there is no set {name!r} {where}{meant(name, known)}; {there}"


def _natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts h100-2 before h100-10."""
    return [(int(part), "") if part.isdigit() else (-1, part.lower()) for part in re.split(r"(\d+)", name)]


def _scale_set(arm: Reader, row: Body, limit: int) -> ScaleSet:
    properties, sku = row.get("properties") or {}, row.get("sku") or {}
    name, path = str(row["name"]), str(row["id"])
    profile = properties.get("virtualMachineProfile") or {}
    members = arm.rows(f"{path}/virtualMachines", VERSION, **{"$expand": "instanceView"})
    own = ONE_GROUP if properties.get("singlePlacementGroup") is not False else MANY_GROUPS
    return ScaleSet(
        path=path,
        name=name,
        size=str(sku.get("name") or ""),
        tier=str(sku.get("tier") or "Standard"),
        capacity=int(sku.get("capacity") or 0),
        limit=limit or own,
        spot=str(profile.get("priority") or "").lower() == "spot",
        prefix=str((profile.get("osProfile") or {}).get("computerNamePrefix") or name).lower(),
        instances=tuple(sorted((_instance(name, one) for one in members), key=lambda one: _natural(one.id))),
    )


def _instance(scale_set: str, row: Body) -> Instance:
    properties = row.get("properties") or {}
    view = properties.get("instanceView") or {}
    codes = [str(one.get("code") or "") for one in view.get("statuses") or [] if isinstance(one, dict)]
    power = next((code.partition("/")[2] for code in codes if code.startswith("PowerState/")), "unknown")
    # The machine may have renamed itself; its agent says so.
    node = view.get("computerName") or (properties.get("osProfile") or {}).get("computerName") or row.get("name")
    return Instance(
        scale_set=scale_set,
        id=str(row.get("instanceId") or str(row.get("id")).rpartition("/")[2]),
        name=str(row.get("name") or ""),
        node=str(node or "").lower(),
        provisioning=str(properties.get("provisioningState") or "").lower(),
        power=power.lower(),
        vm_id=str(properties.get("vmId") or ""),
    )
