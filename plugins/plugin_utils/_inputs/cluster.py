# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Find faults of the whole cluster: groups, names of machines, tasks. Pure: data in, sentences out."""

from __future__ import annotations

import dataclasses
import posixpath
import re
import typing as t
from collections.abc import Mapping

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import machine_names, words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import nfs, older_names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types as inputs_types
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.types import problem

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Groups = Mapping[str, Sequence[str]]

# Each task of a machine, and the groups that assign it. The second names are those of DeepOps.
GROUPS: dict[str, tuple[str, ...]] = {
    "controllers": ("slurm_controller", "slurm-master"),
    "computes": ("slurm_compute", "slurm-node"),
    "logins": ("slurm_login", "slurm-login"),
    "databases": ("slurm_database",),
    "builds": ("slurm_build",),
    "servers": ("nfs_server", "slurm-nfs"),
    "clients": ("nfs_client", "slurm-nfs-client"),
}
# Groups that plays are for.
GROUP_NAMES = (*(names[0] for names in GROUPS.values()), "monitoring_server")
_OUR_GROUPS = tuple(name for names in GROUPS.values() for name in names)
# What a group may be meant as, by a name that is near to it: plays name the first of each task.
_MEANT = {**{name: names[0] for names in GROUPS.values() for name in names}, "monitoring_server": "monitoring_server"}
# Inputs that name machines of the inventory.
_MACHINES = ("slurm_controllers", "slurm_database", "munge_key_host", "users_keys_host")
# Directory trees that are local to each machine.
_LOCAL = ("/var", "/tmp", "/run", "/root", "/etc", "/usr", "/boot", "/dev", "/proc", "/sys", "/lib", "/bin", "/sbin")  # noqa: S108
_STATE = "/var/spool/slurmctld"
_SHOWN = 5


@dataclasses.dataclass
class Cluster:
    """The inventory, and the inputs of the host that holds those of the whole cluster."""

    groups: Groups
    values: Mapping[str, t.Any]
    # The machines to judge, with C(host), the address for Ansible, and C(computer_name), if the cloud provides it.
    machines: Mapping[str, Mapping[str, t.Any]]
    # Machines without a hardware record.
    unsized: Sequence[str] = ()

    def of(self, task: str) -> list[str]:
        """Return the machines that have a task."""
        return list(dict.fromkeys(host for name in GROUPS[task] for host in self.groups.get(name, ())))

    @property
    def controllers(self) -> list[str]:
        """Return the controllers by their names in Slurm."""
        return [str(host) for host in self.values.get("slurm_controllers") or self.of("controllers")]

    @property
    def computes(self) -> list[str]:
        """Return the compute nodes that are not removed."""
        gone = self.values.get("gpucluster_removed_nodes") or []
        return [host for host in self.of("computes") if host not in gone]


def missing_members(groups: Groups) -> dict[str, list[str]]:
    """Return the machines in groups with older names, with the groups of this collection that lack them."""
    missing: dict[str, list[str]] = {}
    for names in GROUPS.values():
        ours, older = names[0], names[1:]
        present = set(groups.get(ours, ()))
        for host in dict.fromkeys(host for name in older for host in groups.get(name, ())):
            if host not in present:
                missing.setdefault(host, []).append(ours)
    return missing


def problems(cluster: Cluster) -> list[str]:
    """Return one sentence per fault."""
    return [sentence for part in _PARTS for sentence in part(cluster)]


def _groups(cluster: Cluster) -> Iterator[str]:
    """Refuse groups whose name looks like a misspelt group of the collection, and a cluster without its groups."""
    for name, hosts in cluster.groups.items():
        known = name in _MEANT or name in older_names.GROUPS
        near = _near(cluster, name) if hosts and not known else ""
        if near:
            yield f"inventory: found the group {name}, which nothing reads; allowed: {_MEANT[near]}, if that is meant"
    if not cluster.computes:
        yield "inventory: found no compute node; allowed: one machine or more in the group slurm_compute"
    # Parts such as storage.yml need no controller. The role slurm refuses its absence in inventories of our own.
    elif cluster.groups.get("slurm-node") and not cluster.controllers:
        yield "inventory: found the group slurm-node and no controller; allowed: one machine or two in slurm-master"


def _near(cluster: Cluster, name: str) -> str:
    """Return the group that a name is near to; a short word such as compute only if one of its machines has no task."""
    near = inputs_types.nearest(name, _MEANT)
    if near:
        return "" if _is_part(cluster, name, near) else near
    idle = set(cluster.groups[name]).difference(*(cluster.groups.get(group, ()) for group in _MEANT))
    # The appliance of StackHPC has such groups.
    return inputs_types.nearest(f"slurm_{name}", _MEANT) if idle and "openhpc" not in cluster.groups else ""


def _is_part(cluster: Cluster, name: str, near: str) -> bool:
    """
    Return whether a group only sorts machines that have a task anyway.

    This holds for a group of machines of the similar group, and for a longer name of DeepOps, such as slurm-node-gpu,
    also if its machines are in other known groups.
    """
    longer = "_" not in near and name.startswith(f"{near}-")
    same = [task for task, names in GROUPS.items() if longer or near in names]
    tasked = {host for task in same for host in cluster.of(task)}
    return set(cluster.groups[name]) <= tasked.union(cluster.groups.get(near, ()))


def _ungrouped(cluster: Cluster) -> Iterator[str]:
    """Refuse machines in no group, which no play would reach; lists of a cloud and of DeepOps have others, too."""
    older = any(cluster.groups.get(name) for name in (*_OUR_GROUPS, *older_names.GROUPS) if "-" in name)
    wrong = [
        host
        for host in cluster.groups.get("ungrouped", ())
        if host not in machine_names.CONTROL_NODE and not cluster.machines.get(host, {}).get("computer_name")
    ]
    if wrong and not older:
        yield (
            f"inventory: found {words.listed(wrong)} in no group; allowed: {', '.join(GROUP_NAMES)}, or a group of your"
            " own for machines that are not of the cluster"
        )


def _names(cluster: Cluster) -> Iterator[str]:
    """Refuse names that slurmd and slurmctld cannot find in their configuration."""
    wrong = [
        name
        for name in dict.fromkeys(cluster.controllers + cluster.of("computes"))
        if name in cluster.machines and not _is_short(name, cluster.machines[name])
    ]
    if wrong:
        yield (
            f"inventory: found machines of Slurm named {words.listed(wrong)}; allowed: the name that 'hostname -s'"
            " prints on the machine, in lower case; its address or its long name goes into ansible_host"
        )


def _is_short(name: str, machine: Mapping[str, t.Any]) -> bool:
    """Return whether a name can be the short host name of a machine; Azure scale sets also use capital letters."""
    return machine_names.is_short(name, machine.get("computer_name") == name)


def _localhost(cluster: Cluster) -> Iterator[str]:
    """Refuse another machine named localhost: tasks that are delegated to localhost would run there."""
    for name in machine_names.CONTROL_NODE:
        machine = cluster.machines.get(name, {})
        away = machine.get("host", name) not in machine_names.CONTROL_NODE
        if machine and (away or any(name in cluster.groups.get(group, ()) for group in _OUR_GROUPS)):
            yield (
                f"inventory: found a machine of the cluster named {name}; allowed: any other name, because tasks for"
                " the control node would go there"
            )


def _meanings(cluster: Cluster) -> Iterator[str]:
    """Refuse names that mean something else: a play for one machine could run on others."""
    wrong = [
        name
        for name in cluster.machines
        if name not in machine_names.CONTROL_NODE and (machine_names.has_meaning(name) or name in GROUP_NAMES)
    ]
    if wrong:
        yield (
            f"inventory: found machines named {words.listed(wrong)}; allowed: names that are neither groups of the"
            " playbooks nor words of Ansible or Slurm, such as gpu1"
        )


def _sizes(cluster: Cluster) -> Iterator[str]:
    """Refuse nodes without known hardware."""
    wrong = [host for host in cluster.computes if host in set(cluster.unsized)]
    if wrong:
        yield (
            f"gpucluster_vm_size: found nothing for {words.listed(wrong)}; allowed: {', '.join(records.names())}, or"
            " other hardware in gpucluster_vm_size_record"
        )


def _named_machines(cluster: Cluster) -> Iterator[str]:
    """Refuse names of machines that are not in the inventory."""
    for name in _MACHINES:
        value = cluster.values.get(name) or []
        for host in value if isinstance(value, list) else [value]:
            if host not in cluster.groups.get("all", ()) and not re.search(r"[, ]", str(host)):
                near = inputs_types.nearest(str(host), cluster.groups.get("all", ()))
                hint = f"; did you mean {near}?" if near else ""
                yield f"{problem(name, host, 'the name of a machine of the inventory')}{hint}"


def _state(cluster: Cluster) -> Iterator[str]:
    """Require shared state for two controllers: without it, the second knows no jobs when it takes over."""
    state = str(cluster.values.get("slurm_state_directory", _STATE)).rstrip("/")
    controllers = " and ".join(cluster.controllers)
    if len(cluster.controllers) < 2 or state == _STATE:
        return
    if _local(cluster, state):
        yield problem(
            "slurm_state_directory", state, f"a directory on storage that {controllers} share, such as /shared/slurm"
        )
    # The role repair has the same default.
    beside = f"{posixpath.dirname(state)}/gpucluster-repair"
    repair = str(cluster.values.get("repair_state_directory") or beside).rstrip("/")
    if cluster.values.get("gpucluster_repair") == "present" and _local(cluster, repair):
        yield problem(
            "repair_state_directory",
            repair,
            f"a directory of root on storage that {controllers} share, such as /shared/repair",
        )


def _local(cluster: Cluster, path: str) -> bool:
    """Return whether each machine has a directory of its own with this path."""
    local = any(path == tree or path.startswith(f"{tree}/") for tree in _LOCAL)
    return local and not any(path == mount or path.startswith(f"{mount}/") for mount in _mounts(cluster))


def _mounts(cluster: Cluster) -> list[str]:
    mounts = cluster.values.get("nfs_mounts") or []
    return [path for mount in mounts if isinstance(mount, Mapping) and (path := nfs.mount_path(mount))]


def _filer(cluster: Cluster) -> Iterator[str]:
    """Refuse a file server without clients."""
    if cluster.values.get("gpucluster_nfs_server") and not cluster.of("clients"):
        yield (
            f"gpucluster_nfs_server: found {cluster.values['gpucluster_nfs_server']!r}, but the group nfs_client is"
            " empty, so nothing would be mounted; allowed: the machines that mount from it in the group nfs_client"
        )


def _user(cluster: Cluster) -> Iterator[str]:
    """Refuse a UID for Slurm's user that belongs to another user."""
    number = str(cluster.values.get("slurm_user_uid", 22078)).strip()
    people = cluster.values.get("users_accounts") or cluster.values.get("users") or []
    owners = [
        str(one.get("username") or one.get("name"))
        for one in people
        if isinstance(one, Mapping) and str(one.get("uid")) == number and one.get("state") != "absent"
    ]
    if owners:
        allowed = f"a number that no user has; users_accounts gives it to {words.listed(owners)}"
        yield problem("slurm_user_uid", int(number), allowed)


_PARTS = (_groups, _ungrouped, _names, _meanings, _sizes, _localhost, _named_machines, _state, _filer, _user)
