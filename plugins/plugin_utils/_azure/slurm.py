# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find the role of a machine in a Slurm cluster, and its network switch."""

from __future__ import annotations

import contextlib
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.settings import tag

if t.TYPE_CHECKING:
    from collections.abc import Iterable

    Record = dict[str, t.Any]

# Words of the role tag, and the groups that the playbooks of this collection use.
ROLES = {
    "controller": "slurm_controller",
    "scheduler": "slurm_controller",
    "database": "slurm_database",
    "build": "slurm_build",
    "login": "slurm_login",
    "compute": "slurm_compute",
    "execute": "slurm_compute",
    "nfs_server": "nfs_server",
    "nfs_client": "nfs_client",
}
GROUPS = tuple(dict.fromkeys(ROLES.values()))

# Tags of CycleCloud: head nodes have a name, execute nodes have a node array.
NODE_ARRAY = "CycleCloudNodeArray"
NODE_NAME = "Name"
CLUSTER = ("CycleCloudCluster", "ClusterName")
OWN_CLUSTER = "slurm_cluster"  # of machines that CycleCloud did not create
# The word must end there: a node array loginless-gpu does not match.
_HEAD_NODES = {
    re.compile(r"scheduler(?![a-z])"): "slurm_controller",
    re.compile(r"login(?![a-z])"): "slurm_login",
}


class UnknownRoleError(Exception):
    """The role tag contains a word that is not a role."""


def groups(tags: dict[str, t.Any], role_tag: str) -> list[str]:
    """Return the groups of a machine from its role tag, or else from the tags of CycleCloud."""
    said = tag(tags, role_tag)
    if said:
        words = [word for word in re.split(r"[\s,;+]+", str(said).strip().lower()) if word]
        return list(dict.fromkeys(_group(word, str(said)) for word in words))
    if all(tag(tags, name) is None for name in (NODE_ARRAY, *CLUSTER)):
        return []
    head = _head(str(tag(tags, NODE_NAME) or ""))
    if head:
        return [head]
    array = last_part(tag(tags, NODE_ARRAY) or "")
    return [_head(array) or "slurm_compute"] if array else []


def _head(name: str) -> str | None:
    """Return the group of a head node by its name, or None."""
    return next((group for word, group in _HEAD_NODES.items() if word.match(name.lower())), None)


def belongs(record: Record, cluster: str, role_tag: str) -> bool:
    """Return whether a machine belongs to a cluster: by its tags, or by a role without a tag of another cluster."""
    own = record["slurm_cluster"]
    return str(own).lower() == cluster.lower() if own else bool(tag(record["tags"], role_tag))


def clusters(records: Iterable[Record], role_tag: str = "") -> dict[str, list[str]]:
    """
    Return the clusters of machines, each with the names of its machines; the case of the first tag is kept.

    With a role tag, only machines that get a Slurm group count.
    """
    found: dict[str, tuple[str, list[str]]] = {}
    for record in records:
        name = str(record["slurm_cluster"] or "")
        with contextlib.suppress(UnknownRoleError):
            if name and (not role_tag or groups(record["tags"], role_tag)):
                found.setdefault(name.lower(), (name, []))[1].append(record["name"])
    return dict(sorted(found.values(), key=lambda one: one[0].lower()))


def left_to_controller(records: Iterable[Record], role_tag: str, roles: Iterable[str]) -> dict[str, list[str]]:
    """Return the groups of roles without a machine, by the id of the first controller."""
    first: dict[str, str] = {}
    for record in records:
        with contextlib.suppress(UnknownRoleError):
            for group in groups(record["tags"], role_tag):
                first.setdefault(group, str(record["id"]))
    controller = first.get("slurm_controller")
    return {controller: [ROLES[role] for role in roles if ROLES[role] not in first]} if controller else {}


def _group(word: str, said: str) -> str:
    word = word.replace("-", "_")
    if word in ROLES:
        return ROLES[word]
    if word in GROUPS:
        return word
    raise UnknownRoleError(f"{word!r} in {said!r} is no role; allowed: {', '.join(ROLES)}")


def last_part(value: t.Any) -> str:
    """Return the name at the end of a path such as C(/sites/x/clusters/c/nodearrays/hpc)."""
    return str(value).rstrip("/").rsplit("/", 1)[-1]


def facts(record: Record) -> Record:
    """Return the switch, and the CycleCloud names of the cluster and the node array."""
    tags = record["tags"]
    cluster = next((last_part(value) for name in (*CLUSTER, OWN_CLUSTER) if (value := tag(tags, name))), None)
    array = tag(tags, NODE_ARRAY)
    array = last_part(array) if array else None
    return {"slurm_switch": switch(record), "slurm_cluster": cluster, "slurm_nodearray": array}


def switch(record: Record) -> str | None:
    """
    Return the name of the group of machines with a common fabric, valid as a switch or a block in Slurm.

    The group is the scale set. If a set uses several placement groups, each one is identified by the first letters of
    its random name. Without a scale set, the group is the proximity placement group.
    """
    vmss = record["vmss"].get("name")
    group = record["placement_group_id"]
    if group and vmss and record["single_placement_group"] is False:
        name = f"{vmss}-{str(group).replace('-', '')[:8]}"
    else:
        name = vmss or record["proximity_placement_group"] or ""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64] or None
