# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Check C(azure_cluster) and fill in its defaults. All faults are named at once, before any request.

Each sentence names the path of the variable, the value found, what is allowed, and the nearest known name.
"""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import (
    images,
    keys,
    names,
    set_inputs,
    sizes,
    subnets,
    values,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.spec import CLUSTER
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.values import wrong
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    Cluster = dict[str, t.Any]

_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LOCATION = re.compile(r"[a-z]+[0-9]?[a-z0-9]*")
# Days or hours. CycleCloud's users deleted their clusters after some days by hand.
_PERIOD = re.compile(r"[1-9][0-9]{0,3}[dh]")
# Names that Azure refuses for the administrator of a machine: documentation of osProfile.adminUsername.
_RESERVED = re.compile(
    r"admin[12]?|adm|administrator|user[1-5]?|test[1-3]?|a|actuser|aspnet|backup|console|david|guest|john|owner|root|server"
    r"|sql|support|support_388945a0|sys"
)
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_SIZE = re.compile(r"Standard_[A-Za-z0-9_]+")
# Sizes without accelerated networking: "Bv1 sizes series" (B12ms, B16ms and B20ms have it) and "Av2 sizes series",
# https://learn.microsoft.com/azure/virtual-machines/sizes/general-purpose/bv1-series and av2-series.
_SLOW = re.compile(r"Standard_(A\d.*|B[1248]l?m?s2?)", re.IGNORECASE)
# p is an Arm processor: "Azure VM sizes naming conventions",
# https://learn.microsoft.com/azure/virtual-machines/vm-naming-conventions.
_ARM = re.compile(r"Standard_[a-z]+\d+(-\d+)?[a-z]*p[a-z]*_", re.IGNORECASE)
# Most data disks: "Dasv5 sizes series" and its relatives, remote storage,
# https://learn.microsoft.com/azure/virtual-machines/sizes/general-purpose/dasv5-series. No size has more than 64.
_D_SIZE = re.compile(r"Standard_D(\d+)[a-z]*_v[345]", re.IGNORECASE)
# What the controller serves with storage of type head: the defaults of role nfs.
HEAD_PATHS = ("/home", "/shared")
# Azure's limit of a system disk in GiB; of data disks 32,767.
_MAX_SYSTEM_DISK, _MAX_DATA_DISK = 4095, 32767


class InputError(ValueError):
    """The variable azure_cluster has faults; the message has one line for each."""


def read(value: t.Any) -> Cluster:
    """Return azure_cluster with its defaults as Python types, or raise InputError with all faults."""
    faults = problems(value)
    if faults:
        raise InputError("\n".join(faults))
    return normal(plain(value))


def problems(value: t.Any) -> list[str]:
    """Return one sentence per fault of azure_cluster."""
    given = _one_storage(plain(value))
    if not isinstance(given, Mapping):
        return [f"{values.ROOT}: found {type(given).__name__}; allowed: a mapping"]
    shape = list(values.problems(values.ROOT, {"type": "dict", "options": CLUSTER}, given))
    if shape:
        return shape
    cluster = normal(given)
    return [sentence for part in _PARTS for sentence in part(cluster)]


def normal(value: Mapping[str, t.Any]) -> Cluster:
    """Return a value without faults of form, with its defaults."""
    cluster: Cluster = values.filled({"type": "dict", "options": CLUSTER}, _one_storage(value))
    cluster["resource_group"] = cluster["resource_group"] or cluster["name"]
    cluster["image"] = cluster["image"] or sizes.image()
    cluster["tags"] = {str(name): str(text) for name, text in cluster["tags"].items()}
    return cluster


def _one_storage(value: t.Any) -> t.Any:
    """Accept one storage without a list."""
    if isinstance(value, Mapping) and isinstance(value.get("storage"), Mapping):
        return {**value, "storage": [value["storage"]]}
    return value


def _place(cluster: Cluster) -> Iterator[str]:
    if not _UUID.fullmatch(cluster["subscription_id"]):
        yield wrong("subscription_id", cluster["subscription_id"], "the id that 'az account show --query id' prints")
    location = cluster["location"]
    if not _LOCATION.fullmatch(location):
        short = re.sub(r"[^a-z0-9]", "", location.lower())
        yield wrong("location", location, f"the short name of a region, such as {short or 'eastus'}")
    if cluster["delete_after"] and not _PERIOD.fullmatch(cluster["delete_after"]):
        yield wrong("delete_after", cluster["delete_after"], "a number of days or hours, such as 7d or 12h")


def _admin(cluster: Cluster) -> Iterator[str]:
    name = cluster["admin"]["name"]
    if not _USER.fullmatch(name) or _RESERVED.fullmatch(name):
        yield wrong("admin.name", name, "a name of Linux that Azure does not reserve, such as azureuser")
    if not cluster["admin"]["ssh_keys"]:
        yield wrong("admin.ssh_keys", [], "one public key or more; passwords are disabled on all machines")
    for index, key in enumerate(cluster["admin"]["ssh_keys"]):
        fault = keys.problem(key)
        if fault:
            yield f"{values.ROOT}.admin.ssh_keys[{index}]: {fault}"


def _machines(cluster: Cluster) -> Iterator[str]:
    """Check the controller and the login machines."""
    for part in ("controller", "login"):
        machine = cluster[part]
        yield from _head_size(part, machine, cluster)
        yield from _system_disk(f"{part}.os_disk", machine["os_disk"])
        yield from set_inputs.zone_problems(part, machine)
        yield from images.problems(part, machine["image"])
    if not 0 <= cluster["login"]["count"] <= 16:
        yield wrong("login.count", cluster["login"]["count"], "0 to 16")
    disks, most = cluster["controller"]["data_disks"], _most_disks(cluster["controller"]["vm_size"])
    if len(disks) > most:
        allowed = f"at most {most}, the limit of {cluster['controller']['vm_size']}"
        yield wrong("controller.data_disks", f"{len(disks)} disks", allowed)
    for index, disk in enumerate(disks):
        if not 1 <= disk["size_gib"] <= _MAX_DATA_DISK:
            yield wrong(f"controller.data_disks[{index}].size_gib", disk["size_gib"], f"1 to {_MAX_DATA_DISK}")
    yield from images.problems("", cluster["image"])


def _head_size(part: str, machine: Mapping[str, t.Any], cluster: Cluster) -> Iterator[str]:
    size = machine["vm_size"]
    if not _SIZE.fullmatch(size):
        yield wrong(f"{part}.vm_size", size, "a VM size, such as Standard_D8as_v5")
    elif _SLOW.fullmatch(size):
        yield wrong(f"{part}.vm_size", size, "a size with accelerated networking, such as Standard_D8as_v5")
    elif _ARM.match(size) and (machine["image"] or cluster["image"]) == sizes.image():
        yield wrong(f"{part}.image", machine["image"], f"an image for Arm, because {size} has an Arm processor")


def _most_disks(size: str) -> int:
    match = _D_SIZE.fullmatch(size)
    return min(2 * int(match[1]), 32) if match else 64


def _system_disk(where: str, disk: Mapping[str, t.Any]) -> Iterator[str]:
    low = sizes.image_gib()
    if not low <= disk["size_gib"] <= _MAX_SYSTEM_DISK:
        yield wrong(f"{where}.size_gib", disk["size_gib"], f"{low} (the image) to {_MAX_SYSTEM_DISK}")


def _access(cluster: Cluster) -> Iterator[str]:
    access = cluster["access"]
    for index, network in enumerate(access.get("allowed_from") or ()):
        where = f"access.allowed_from[{index}]"
        parsed = subnets.parsed(network)
        if parsed is None:
            yield wrong(where, network, "a network such as 203.0.113.0/24")
        elif parsed.prefixlen < 8:
            yield wrong(where, network, "a network of /8 or smaller: ssh is not open to the whole Internet")
    if access["type"] == "public" and not access["allowed_from"]:
        yield wrong("access.allowed_from", [], "one network or more")


def _storage(cluster: Cluster) -> Iterator[str]:
    """Check the shared storage; the networks of the nodes are checked with the subnets."""
    paths: dict[str, int] = {}
    for index, storage in enumerate(cluster["storage"]):
        where, kind = f"storage[{index}]", storage["type"]
        low, high, step = _CAPACITIES.get(storage.get("sku", kind), (0, 0, 0))
        key = "size_tib" if kind == "amlfs" else "size_gib"
        if step and (not low <= storage[key] <= high or storage[key] % step):
            yield wrong(f"{where}.{key}", storage[key], f"{low} to {high} in steps of {step}")
        if kind == "existing" and ":/" not in storage["source"]:
            yield wrong(f"{where}.source", storage["source"], "server:/path")
        for path in [storage["path"]] if "path" in storage else HEAD_PATHS:
            if path in paths:
                yield wrong(f"{where}.path", path, f"another path than that of storage[{paths[path]}]")
            paths.setdefault(path, index)
    kinds = [storage["type"] for storage in cluster["storage"] if storage["type"] != "existing"]
    for kind in sorted({kind for kind in kinds if kinds.count(kind) > 1}):
        yield wrong("storage", f"{kinds.count(kind)} of type {kind}", "one of each type that the template makes")


# Azure Files NFS: 100 to 102,400 GiB, provisioned v1 (azure-docs, articles/storage/files/understanding-billing.md).
# ANF: a pool in steps of 1 TiB, with a regular volume of at most 100 TiB: "Resource limits for Azure NetApp Files",
# https://learn.microsoft.com/azure/azure-netapp-files/azure-netapp-files-resource-limits.
# AMLFS: "Create an Azure Managed Lustre file system in the Azure portal", throughput configurations,
# https://learn.microsoft.com/azure/azure-managed-lustre/create-file-system-portal.
_CAPACITIES = {
    "azure_files": (100, 102400, 1),
    "anf": (1024, 102400, 1024),
    "AMLFS-Durable-Premium-40": (48, 1536, 48),
    "AMLFS-Durable-Premium-125": (16, 512, 16),
    "AMLFS-Durable-Premium-250": (8, 256, 8),
    "AMLFS-Durable-Premium-500": (4, 128, 4),
}


def _prices(cluster: Cluster) -> Iterator[str]:
    for part in ("hourly", "spot_hourly"):
        for name, price in cluster["prices"][part].items():
            if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", str(price)):
                yield wrong(f"prices.{part}.{name}", price, "a price per hour, such as 98.32")


_PARTS: tuple[t.Callable[[Cluster], Iterator[str]], ...] = (
    names.problems,
    _place,
    _admin,
    subnets.problems,
    _access,
    _machines,
    set_inputs.problems,
    _storage,
    _prices,
)
