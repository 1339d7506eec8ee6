# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check the sets of GPU nodes: sizes, numbers, disks, spot, reservations."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import images, names, sets, sizes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.values import wrong

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Set = Mapping[str, t.Any]

# Azure's limit of a placement group, and the limit for HPC sizes by agreement with Azure: CycleCloud's default of
# Azure.MaxScalesetSize (cyclecloud-slurm, templates/slurm.txt).
GROUP, HPC_GROUP = 100, 300
# An ephemeral disk is at most 2,040 GiB (ephemeral-os-disks.md).
MAX_EPHEMERAL = 2040
_MAX_DISK = 4095
_MOST = 5000


def problems(cluster: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield the faults of all sets."""
    if not cluster["gpu_sets"]:
        yield wrong("gpu_sets", [], "one set or more; a set may have count 0")
    seen: dict[str, str] = {}
    for index, entry in enumerate(cluster["gpu_sets"]):
        where = f"gpu_sets[{index}]"
        faults = list(_name(where, entry)) + list(_size(where, entry))
        yield from faults
        if not faults:
            for part in (_counts, _spot, _reservation, _disk, zone_problems):
                yield from part(where, entry)
            yield from _image(where, entry, cluster)
            yield from _clashes(where, cluster["name"], entry, seen)


def _name(where: str, entry: Set) -> Iterator[str]:
    if not names.SET.fullmatch(entry["name"]):
        allowed = "1 to 20 lower-case letters, digits and single -, beginning with a letter"
        yield wrong(f"{where}.name", entry["name"], allowed)


def _size(where: str, entry: Set) -> Iterator[str]:
    size = sizes.load().get(entry["vm_size"].lower())
    if size is None:
        yield wrong(f"{where}.vm_size", entry["vm_size"], ", ".join(sizes.names()), sizes.names())
    elif size.retired:
        allowed = f"{', '.join(sizes.names())}: since {size.retired}, Azure makes no machine of this size"
        yield wrong(f"{where}.vm_size", entry["vm_size"], allowed)
    elif size.imex and entry["gpu_imex"] != "none":
        yield wrong(f"{where}.gpu_imex", entry["gpu_imex"], size.imex)


def _counts(where: str, entry: Set) -> Iterator[str]:
    most = entry["max_count"]
    if not 0 <= entry["count"] <= _MOST:
        yield wrong(f"{where}.count", entry["count"], f"0 to {_MOST}")
    elif most is not None and not max(entry["count"], 1) <= most <= _MOST:
        yield wrong(f"{where}.max_count", most, f"{max(entry['count'], 1)} (count) to {_MOST}")
    size = sizes.find(entry["vm_size"])
    limit = HPC_GROUP if size.infiniband else GROUP
    # A rack is a group of 18 machines: "ND GB200-v6 sizes series",
    # https://learn.microsoft.com/azure/virtual-machines/sizes/gpu-accelerated/nd-gb200-v6-series.
    limit = size.rack if size.rack > 1 else limit
    if not 1 <= entry["instances_per_group"] <= limit:
        yield wrong(f"{where}.instances_per_group", entry["instances_per_group"], f"1 to {limit}")


def _spot(where: str, entry: Set) -> Iterator[str]:
    spot = entry["priority"] == "spot"
    if entry["max_price"] != -1 and not spot:
        yield wrong(f"{where}.max_price", entry["max_price"], "no price without priority: spot")
    elif entry["max_price"] != -1 and entry["max_price"] <= 0:
        yield wrong(f"{where}.max_price", entry["max_price"], "a price per hour in US dollars, or -1 for no limit")
    if entry["eviction_policy"] == "Deallocate" and sets.ephemeral(entry):
        allowed = "Delete, because a machine with an ephemeral system disk cannot be deallocated"
        yield wrong(f"{where}.eviction_policy", "Deallocate", allowed)


def _reservation(where: str, entry: Set) -> Iterator[str]:
    """Refuse what capacity-reservation-overview.md of azure-compute-docs excludes."""
    reservation = entry["capacity_reservation"]
    if reservation["type"] == "none":
        return
    path = f"{where}.capacity_reservation"
    if not sizes.find(entry["vm_size"]).reservation:
        known = ", ".join(size.name for size in sizes.load().values() if size.reservation)
        yield wrong(path, reservation["type"], f"none for {entry['vm_size']}: Azure reserves only {known}")
    if entry["priority"] == "spot":
        yield wrong(path, reservation["type"], "none for spot machines")
    if entry["proximity"]:
        yield wrong(f"{where}.proximity", True, "false with a capacity reservation")
    if reservation["type"] == "existing" and "/capacityreservationgroups/" not in reservation["id"].lower():
        yield wrong(
            f"{path}.id", reservation["id"], "/subscriptions/.../Microsoft.Compute/capacityReservationGroups/NAME"
        )
    if reservation["type"] == "new" and (reservation["count"] or entry["count"]) < 1:
        yield wrong(f"{path}.count", reservation["count"], "1 or more")


def _disk(where: str, entry: Set) -> Iterator[str]:
    low, disk = sizes.image_gib(), sets.system_disk(entry)
    temp = sizes.find(entry["vm_size"]).temp_gib
    high = min(temp, MAX_EPHEMERAL) if disk["type"] == "ephemeral" else _MAX_DISK
    if high < low:
        yield wrong(
            f"{where}.os_disk.type", "ephemeral", f"managed: {entry['vm_size']} has a temporary disk of {temp} GiB"
        )
    elif not low <= disk["size_gib"] <= high:
        yield wrong(f"{where}.os_disk.size_gib", disk["size_gib"], f"{low} (the image) to {high}")


def zone_problems(where: str, machine: Mapping[str, t.Any]) -> Iterator[str]:
    """Yield the fault of the zone of a set or a machine."""
    if machine["zone"] and machine["zone"] not in ("1", "2", "3"):
        yield wrong(f"{where}.zone", machine["zone"], "1, 2 or 3")


def _image(where: str, entry: Set, cluster: Mapping[str, t.Any]) -> Iterator[str]:
    yield from images.problems(where, entry["image"])
    sku = sizes.find(entry["vm_size"]).image_sku
    if sku and not entry["image"] and cluster["image"] == sizes.image():
        allowed = f"an image {sku}, because {sizes.image()} does not run on {entry['vm_size']}"
        if sku.startswith("2"):
            allowed += f": microsoft-dsvm:ubuntu-hpc:{sku}:VERSION of 'az vm image list --all'"
        yield wrong(f"{where}.image", None, allowed)


def _clashes(where: str, cluster: str, entry: Set, seen: dict[str, str]) -> Iterator[str]:
    """Refuse two scale sets with the same host names, such as the second group of h100 and a set h100-2."""
    for name in sets.scale_set_names(cluster, entry):
        hosts = names.host_prefix(name)
        if hosts in seen:
            yield wrong(f"{where}.name", entry["name"], f"another name: {seen[hosts]} has the hosts {hosts}...")
        seen.setdefault(hosts, where)
