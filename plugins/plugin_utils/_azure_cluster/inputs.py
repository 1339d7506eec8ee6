# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Check azure_cluster before any request, and fill in its defaults.

Ansible's validator checks keys, types and choices. Below is only what a right type can still have wrong and what Azure
would refuse late or not at all. VM sizes of the controller, quotas and images are Azure's to judge, in its validation.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import ipaddress
import re
import typing as t
from collections.abc import Mapping

from ansible.module_utils.common.arg_spec import ArgumentSpecValidator

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster.spec import CLUSTER, REMOVED
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    Cluster = dict[str, t.Any]

ROOT = "azure_cluster"
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LOCATION = re.compile(r"[a-z]+[0-9]?[a-z0-9]*")
# A host name has at most 64 characters: cluster, set and number.
_CLUSTER = re.compile(r"(?!.*--)[a-z][a-z0-9-]{1,18}[a-z0-9]")
_SET = re.compile(r"(?!.*--)[a-z]([a-z0-9-]{0,18}[a-z0-9])?")
_GROUP = re.compile(r"[A-Za-z0-9_().-]{0,89}[A-Za-z0-9_()-]")
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_URN = re.compile(r"[A-Za-z0-9._-]+(:[A-Za-z0-9._-]+){3}")
_ID = re.compile(r"/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute/\S+", re.IGNORECASE)
_OURS = ("slurm_cluster", "slurm_role", "gpucluster_set", "gpucluster_cluster", "gpucluster_template")
# An availability set has at most 200 machines: "Virtual machine limits",
# https://learn.microsoft.com/azure/azure-resource-manager/management/azure-subscription-service-limits.
MOST = 200
_LONGEST = datetime.timedelta(days=366)
_EXAMPLE = "2027-03-01T18:00:00+01:00"


class InputError(ValueError):
    """The variable azure_cluster has faults; the message has one line for each."""


def read(value: t.Any, judges_end: bool = True) -> Cluster:
    """Return azure_cluster with its defaults, or raise InputError with all faults. Its end may have passed already."""
    if not isinstance(value, Mapping):
        raise InputError(f"{ROOT}: found {type(value).__name__}; allowed: a mapping")
    found = ArgumentSpecValidator({ROOT: {"type": "dict", "options": CLUSTER}}).validate({ROOT: plain(value)})
    if found.error_messages:
        gone = [f"{ROOT}.{key} is no longer a key; {text}" for key, text in REMOVED.items() if _has(value, key)]
        raise InputError("\n".join([*gone, *found.error_messages]))
    cluster: Cluster = found.validated_parameters[ROOT]
    cluster["resource_group"] = cluster["resource_group"] or cluster["name"]
    cluster["tags"] = {str(name): str(text) for name, text in cluster["tags"].items()}
    faults = [
        types.problem(f"{ROOT}.{where}", given, allowed)
        for part in (_names, _place, _admin, _network, _machines, _sets)
        for where, given, allowed in part(cluster)
    ]
    faults += expiry_problems(cluster["expires"], datetime.datetime.now(datetime.timezone.utc)) if judges_end else []
    if faults:
        raise InputError("\n".join(faults))
    return cluster


def _has(value: t.Any, path: str) -> bool:
    """Return whether a mapping, or one of a list of mappings, has the key at a path."""
    name, _dot, rest = path.partition(".")
    if isinstance(value, list):
        return any(_has(one, path) for one in value)
    return isinstance(value, Mapping) and name in value and (not rest or _has(value[name], rest))


def moment(text: str) -> datetime.datetime | None:
    """Return a time with a zone, or None for everything else."""
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.astimezone(datetime.timezone.utc) if found.tzinfo else None


Faults: t.TypeAlias = "Iterator[tuple[str, t.Any, str]]"


def expiry_problems(text: str | None, now: datetime.datetime) -> list[str]:
    """Return the fault of C(expires), or nothing."""
    if not text:
        return []
    end = moment(text)
    if end is None:
        allowed = f"a date, a time and a zone, such as {_EXAMPLE}"
    elif end <= now:
        allowed = f"a time in the future; now is {now:%Y-%m-%dT%H:%M:%SZ}"
    elif end > now + _LONGEST:
        allowed = "a time within a year"
    else:
        return []
    return [types.problem(f"{ROOT}.expires", text, allowed)]


def _names(cluster: Cluster) -> Faults:
    if not _CLUSTER.fullmatch(cluster["name"]):
        yield "name", cluster["name"], "3 to 20 lower-case letters, digits and single -, beginning with a letter"
    if not _GROUP.fullmatch(cluster["resource_group"]):
        allowed = "1 to 90 letters, digits and _-.(), without a dot at the end"
        yield "resource_group", cluster["resource_group"], allowed
    for name in cluster["tags"]:
        if name.lower() in _OURS:
            yield "tags", name, f"names other than {', '.join(_OURS)}, which the template sets"


def _place(cluster: Cluster) -> Faults:
    if not _UUID.fullmatch(cluster["subscription_id"]):
        yield "subscription_id", cluster["subscription_id"], "the id that 'az account show --query id' prints"
    if not _LOCATION.fullmatch(cluster["location"]):
        short = re.sub(r"[^a-z0-9]", "", cluster["location"].lower())
        yield "location", cluster["location"], f"the short name of a region, such as {short or 'eastus'}"


def _admin(cluster: Cluster) -> Faults:
    admin = cluster["admin"]
    if not _USER.fullmatch(admin["name"]) or admin["name"] in ("root", "admin", "administrator"):
        yield "admin.name", admin["name"], "a name of Linux that Azure does not reserve, such as azureuser"
    if not admin["ssh_keys"]:
        yield "admin.ssh_keys", [], "one public key or more; passwords are disabled on all machines"
    for index, key in enumerate(admin["ssh_keys"]):
        if not _is_public_key(key):
            # Never the whole value: it may be a private key.
            allowed = "a complete public key of type ssh-ed25519 or ssh-rsa, such as that in ~/.ssh/id_ed25519.pub"
            yield f"admin.ssh_keys[{index}]", f"{key[:12]}...", allowed


def _is_public_key(key: str) -> bool:
    """Return whether a line is a whole public key that Azure accepts: its data repeats the type, RSA has 2048 bits."""
    kind, _blank, rest = key.strip().partition(" ")
    try:
        data = base64.b64decode(rest.split(" ", 1)[0], validate=True)
    except (binascii.Error, ValueError):
        return False
    return data[4:].startswith(kind.encode()) and len(data) >= {"ssh-ed25519": 51, "ssh-rsa": 276}.get(kind, 1 << 20)


def _network(cluster: Cluster) -> Faults:
    space = network(cluster["network"]["address_space"])
    if space is None or not space.is_private or not 8 <= space.prefixlen <= 23:
        allowed = "a private network of /8 to /23, such as 10.10.0.0/16"
        yield "network.address_space", cluster["network"]["address_space"], allowed
    elif sum(entry["count"] for entry in cluster["gpu_sets"]) > space.num_addresses // 2 - 5:
        yield "network.address_space", str(space), "a network whose upper half has an address for each node"
    access = cluster["access"]
    if (access["type"] == "public") != bool(access["allowed_from"]):
        allowed = "one network or more with type public, and none with another type"
        yield "access.allowed_from", access["allowed_from"], allowed
    for index, text in enumerate(access["allowed_from"]):
        source = network(text)
        if source is None or source.prefixlen < 8:
            allowed = "a network of /8 or smaller, such as 203.0.113.0/24: ssh is not open to the whole Internet"
            yield f"access.allowed_from[{index}]", text, allowed


def network(text: str) -> ipaddress.IPv4Network | None:
    """Return a network of IPv4, or None if the string is none or has bits beside its mask."""
    try:
        return ipaddress.IPv4Network(text, strict=True) if "/" in text else None
    except ValueError:
        return None


def _machines(cluster: Cluster) -> Faults:
    if not 0 <= cluster["login"]["count"] <= 16:
        yield "login.count", cluster["login"]["count"], "0 to 16"
    for index, disk in enumerate(cluster["controller"]["data_disks"]):
        if not 1 <= disk["size_gib"] <= 32767:
            yield f"controller.data_disks[{index}].size_gib", disk["size_gib"], "1 to 32767"
    yield from _image("image", cluster["image"])
    for part in ("controller", "login"):
        yield from _disk(part, cluster[part])


def _disk(where: str, machine: Mapping[str, t.Any]) -> Faults:
    if not 64 <= machine["os_disk_gib"] <= 4095:
        yield f"{where}.os_disk_gib", machine["os_disk_gib"], "64 (the image) to 4095"


def _image(where: str, image: str) -> Faults:
    """Refuse an image without a version: a node of next month must equal those of today."""
    if not _ID.fullmatch(image) and (not _URN.fullmatch(image) or image.endswith(":latest")):
        yield where, image, "publisher:offer:sku:version with a version, or the id of an image"


def _sets(cluster: Cluster) -> Faults:
    names = [entry["name"] for entry in cluster["gpu_sets"]]
    known = {name.lower(): name for name in records.names() if name.lower().startswith("standard_")}
    for index, entry in enumerate(cluster["gpu_sets"]):
        where = f"gpu_sets[{index}]"
        if not _SET.fullmatch(entry["name"]) or entry["name"] == "login":
            allowed = "1 to 20 lower-case letters, digits and single -, beginning with a letter, and not login"
            yield f"{where}.name", entry["name"], allowed
        elif names.index(entry["name"]) != index:
            yield f"{where}.name", entry["name"], "a name that no other set has"
        if entry["vm_size"].lower() not in known:
            yield f"{where}.vm_size", entry["vm_size"], f"a size of the catalogue: {', '.join(sorted(known.values()))}"
        if not 0 <= entry["count"] <= MOST:
            yield f"{where}.count", entry["count"], f"0 to {MOST}; make a second set for more machines"
        yield from _disk(where, entry)
        if entry["image"] is not None:
            yield from _image(f"{where}.image", entry["image"])
