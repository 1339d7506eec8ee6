# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Turn the data of cluster.yml into hosts, groups and variables. Pure: the data has no faults."""

from __future__ import annotations

import dataclasses
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._cluster_file import ranges, schema
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import cluster as inputs_cluster

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Data = Mapping[str, t.Any]

# Each role of a machine, and its group.
GROUPS = {
    **{
        role: inputs_cluster.GROUPS[task][0]
        for role, task in {
            "controller": "controllers",
            "database": "databases",
            "build": "builds",
            "login": "logins",
            "compute": "computes",
            "nfs_server": "servers",
            "nfs_client": "clients",
        }.items()
    },
    "monitoring": "monitoring_server",
}
_CLIENTS = ("controller", "login", "compute")


@dataclasses.dataclass
class Inventory:
    """Hosts with their own variables, the members of each group, and the variables of groups."""

    hosts: dict[str, dict[str, t.Any]]
    groups: dict[str, list[str]]
    variables: dict[str, dict[str, t.Any]]


def build(data: Data) -> Inventory:
    """Return the inventory of a file without faults."""
    hosts: dict[str, dict[str, t.Any]] = {}
    groups: dict[str, list[str]] = {group: [] for group in GROUPS.values()}
    for expression, machine in (data.get("machines") or {}).items():
        names = ranges.names(expression)
        hosts.update(_hosts(names, machine))
        for group in [*(GROUPS[role] for role in roles(machine)), *machine.get("groups", ())]:
            groups.setdefault(str(group), []).extend(names)
    _add_defaults(groups, data)
    compute = {"gpucluster_vm_size": data["vm_size"]} if data.get("vm_size") else {}
    return Inventory(hosts, groups, {"all": _variables(data, hosts), GROUPS["compute"]: compute})


def roles(machine: Data) -> list[str]:
    """Return the roles of a machine; one role needs no list."""
    given = machine["roles"]
    return [str(given)] if isinstance(given, str) else [str(role) for role in given]


def ranged(machine: Data) -> dict[str, tuple[str, list[str]]]:
    """Return by key of a machine the variable, and the values of its range: addresses, switches, racks."""
    known = schema.load()["$defs"]["machine"]["properties"]
    keys = [key for key, part in known.items() if "x-range" in part and machine.get(key)]
    return {key: (known[key]["x-variable"], ranges.values(machine[key])) for key in keys}


def _hosts(names: list[str], machine: Data) -> Iterator[tuple[str, dict[str, t.Any]]]:
    """Yield the hosts of one entry with their variables."""
    common = {**_mapped(machine, schema.load()["$defs"]["machine"]), **(machine.get("vars") or {})}
    if machine.get("vm_size"):
        common["gpucluster_vm_size"] = machine["vm_size"]
    spread = ranged(machine).values()
    for index, name in enumerate(names):
        yield name, {**common, **{variable: found[index * len(found) // len(names)] for variable, found in spread}}


def _add_defaults(groups: dict[str, list[str]], data: Data) -> None:
    """Give the first controller the tasks that no machine has, and mount what is shared."""
    first = groups[GROUPS["controller"]][:1]
    wanted = ["build"] + (["database"] if (data.get("features") or {}).get("accounting", True) else [])
    for role in wanted:
        groups[GROUPS[role]] = groups[GROUPS[role]] or list(first)
    if not groups[GROUPS["nfs_client"]] and (groups[GROUPS["nfs_server"]] or _has_filer(data)):
        servers = set(groups[GROUPS["nfs_server"]])
        members = [host for role in _CLIENTS for host in groups[GROUPS[role]] if host not in servers]
        groups[GROUPS["nfs_client"]] = list(dict.fromkeys(members))


def _has_filer(data: Data) -> bool:
    storage = data.get("storage") or {}
    named = any(mount.get("server") or mount.get("source") for mount in storage.get("mounts", ()))
    return bool(storage.get("filer") or named)


def _variables(data: Data, hosts: Mapping[str, Data]) -> dict[str, t.Any]:
    """Return the variables of all machines. Those of I(vars) come last: they have no other key here."""
    parts = {
        "users_accounts": _users(data),
        "users_groups": [{"name": str(name), **group} for name, group in (data.get("user_groups") or {}).items()],
        "slurm_partitions": [_partition(name, part) for name, part in (data.get("partitions") or {}).items()],
        "gpucluster_networks": _networks(data, hosts),
        "ansible_ssh_common_args": _ssh_args(data.get("connection") or {}),
        **{f"gpucluster_{name}": state for name, state in (data.get("options") or {}).items()},
        "azure_cluster": {"name": data["name"], **data["azure"]} if data.get("azure") else None,
    }
    return {
        **_mapped(data, schema.load()),
        **{name: value for name, value in parts.items() if value},
        **(data.get("vars") or {}),
    }


def _mapped(data: Data, part: schema.Schema) -> dict[str, t.Any]:
    """Return the values whose key names a variable, also those of inner mappings."""
    found: dict[str, t.Any] = {}
    for name, inner in part.get("properties", {}).items():
        value = data.get(name)
        if value is None:
            continue
        if "x-variable" in inner:
            found[inner["x-variable"]] = value
        elif "properties" in inner:
            found.update(_mapped(value, inner))
    return found


def _users(data: Data) -> list[dict[str, t.Any]]:
    admins = {str(name) for name in data.get("admins") or ()}
    return [
        {"name": str(name), **user, **({"sudo": True} if name in admins else {})}
        for name, user in (data.get("users") or {}).items()
    ]


def _partition(name: str, part: Data) -> dict[str, t.Any]:
    """Return one partition with Slurm's keys."""
    known = schema.load()["$defs"]["partition"]["properties"]
    keys = {known[key]["x-slurm"] if key in known else str(key): value for key, value in part.items()}
    line = {"PartitionName": str(name), "Nodes": "ALL", "State": "UP", **keys}
    return {key: ",".join(map(str, value)) if isinstance(value, list) else value for key, value in line.items()}


def _networks(data: Data, hosts: Mapping[str, Data]) -> dict[str, t.Any]:
    """Return who may mount from the cluster's own server; without a list, the machines of the file."""
    given = (data.get("storage") or {}).get("networks")
    serves = any("nfs_server" in roles(machine) for machine in (data.get("machines") or {}).values())
    if given or not serves:
        return {"cluster": given} if given else {}
    found = ranges.networks([str(variables.get("ansible_host", "")) for variables in hosts.values()])
    return {"cluster": found} if found else {}


def _ssh_args(connection: Data) -> str:
    jump = f"-o ProxyJump={connection['jump_host']}" if connection.get("jump_host") else ""
    return " ".join(filter(None, [jump, connection.get("ssh_args", "")]))
