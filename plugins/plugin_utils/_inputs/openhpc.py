# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Translate the variables of StackHPC's role openhpc and of its Slurm appliance into inputs. Pure: data in, data out.

C(openhpc.yml) says for each variable which inputs it sets, or what to set instead.
"""

from __future__ import annotations

import functools
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import older_names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.types import is_true
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Values = Mapping[str, t.Any]
    Groups = Mapping[str, Sequence[str]]

FILE = Path(__file__).with_name("openhpc.yml")
# Only an inventory of openhpc has one of these.
_MARKERS = frozenset({"openhpc_cluster_name", "openhpc_enable", "openhpc_nodegroups", "openhpc_slurm_control_host"})
# The groups of the appliance, for machines without openhpc_enable.
_APPLIANCE = {
    "control": ("slurm_controller", "slurm_database"),
    "compute": ("slurm_compute",),
    "login": ("slurm_login",),
}
_ENABLED = {"control": "slurm_controller", "database": "slurm_database", "batch": "slurm_compute"}
# Keys of slurm.conf that inputs of this collection set, and those of programs that it does not install.
_OTHERS = {
    "accountingstoragehost": "add the machine to the group slurm_database",
    "clustername": "set slurm_cluster_name",
    "healthcheckinterval": "the role health sets it",
    "healthchecknodestate": "the role health sets it",
    "healthcheckprogram": "the role health checks the nodes; set health_provider: nhc for checks of LBNL NHC",
    "rebootprogram": "the collection does not rebuild machines",
    "slurmctldhost": "add the machine to the group slurm_controller",
    "statesavelocation": "set slurm_state_directory",
    "topologyplugin": "set slurm_topology_plugin and the place of each node",
}
# Keys of a node group without a counterpart.
_OF_NODES = {
    "gres": "gres.conf comes from the VM size; set gpucluster_vm_size_record for other GPUs",
    "gres_autodetect": "gres.conf comes from the VM size",
    "ram_multiplier": "set slurm_memory_headroom_percent",
}
_MAX_TIME = "60-0"
_ACCOUNT = {"name": "name", "uid": "uid", "comment": "gecos", "groups": "groups", "shell": "shell", "home": "home"}
_ACCOUNT |= {"password": "password", "public_key": "ssh_keys", "state": "state"}


@functools.cache
def table() -> dict[str, dict[str, t.Any]]:
    """Return the known variables; a name that ends with C(*) is a prefix."""
    return dict(yaml_load(FILE.read_text(encoding="utf-8")))


@functools.cache
def entry(name: str) -> dict[str, t.Any] | None:
    """Return what is known of a variable, or nothing."""
    return older_names.find(table(), name)


def is_openhpc(names: Iterable[str]) -> bool:
    """Return whether the variables are those of an inventory of openhpc."""
    return not _MARKERS.isdisjoint(names)


def known(names: Iterable[str]) -> set[str]:
    """Return the variables of openhpc among names, if the inventory is one of openhpc."""
    found = set(names)
    return {name for name in found if entry(name)} if is_openhpc(found) else set()


def translate(host: older_names.Member, groups: Groups) -> older_names.Meaning:
    """Return the inputs that the variables of a machine mean."""
    values = host.values
    config = _config(values.get("openhpc_config"))
    found: dict[str, t.Any] = {
        "slurm_cluster_name": values.get("openhpc_cluster_name"),
        "slurm_state_directory": values.get("openhpc_state_save_location"),
        # The playbook reads the key itself, so that no output shows it.
        "munge_key": "openhpc_munge_key_b64" if values.get("openhpc_munge_key_b64") else None,
        "slurm_partitions": _partitions(values, groups) or None,
        "slurm_node_config": _node_config(host.name, values, groups) or None,
        "slurm_config": config or None,
        "slurm_cgroup_config": _config(values.get("openhpc_cgroup_config")) or None,
        "slurm_mpi_config": _config(values.get("openhpc_mpi_config")) or None,
        "slurm_pam_adopt": _on(values, "appliances_enable_pam_slurm_adopt"),
        "slurm_pam_groups": values.get("appliances_admin_user_groups") or None,
        "users_accounts": [_account(one) for one in _listed(values, "basic_users_users")] or None,
        "gpucluster_proxy": {"http": proxy, "https": proxy} if (proxy := values.get("proxy_http_proxy")) else None,
        "gpucluster_vm_size": "auto",
    }
    inputs = {name: value for name, value in found.items() if value is not None and name not in host.taken}
    meaning = older_names.Meaning(inputs, [], {}, {})
    for name in sorted({*values, *host.unread}):
        older_names.place(name, host, meaning, table())
    _warn(values, groups, meaning)
    return meaning


def memberships(host: older_names.Member, machines: Sequence[str], groups: Groups) -> dict[str, list[str]]:
    """Return the groups of this collection by machine, for machines with the same variables as the host."""
    found = {}
    for machine in machines:
        wanted = _functions(machine, host.values, groups)
        names = [name for name in wanted if machine not in groups.get(name, ())]
        if names:
            found[machine] = names
    return found


def _functions(machine: str, values: Values, groups: Groups) -> list[str]:
    """Return the groups of this collection for one machine."""
    enable = values.get("openhpc_enable")
    if not isinstance(enable, Mapping):
        of_groups = [name for group, names in _APPLIANCE.items() if machine in groups.get(group, ()) for name in names]
        return _named(machine, values, groups) or of_groups
    names = [name for key, name in _ENABLED.items() if is_true(enable.get(key, False))]
    if machine in groups.get(str(values.get("openhpc_login_only_nodes") or ""), ()):
        names.append("slurm_login")
    # A machine with programs of users and without a daemon is a login machine.
    return names or (["slurm_login"] if is_true(enable.get("runtime", False)) else [])


def _named(machine: str, values: Values, groups: Groups) -> list[str]:
    """Return the groups of this collection for a machine that variables name."""
    controller = values.get("openhpc_slurm_control_host")
    nodes = [node for one in _listed(values, "openhpc_nodegroups") for node in _nodes(one["name"], values, groups)]
    wanted = {
        "slurm_controller": [controller],
        "slurm_database": [values.get("openhpc_slurmdbd_host", controller)],
        "slurm_compute": nodes,
        "slurm_login": groups.get(str(values.get("openhpc_login_only_nodes") or ""), ()),
    }
    return [name for name, machines in wanted.items() if machine in machines]


def _config(given: t.Any) -> dict[str, t.Any]:
    """Return keys of a file of Slurm as the inputs of this collection accept them."""
    pairs = given.items() if isinstance(given, Mapping) else ()
    return {key: _plain(value) for key, value in pairs if str(key).lower() not in _OTHERS}


def _plain(value: t.Any) -> t.Any:
    """Return a value; openhpc removes a key by the word omit, and joins the items of a list."""
    if isinstance(value, list):
        return ",".join(str(one) for one in value)
    return None if value == "omit" else value


def _nodes(name: t.Any, values: Values, groups: Groups) -> list[str]:
    """Return the machines of a node group: those of the inventory group with the name of the cluster before it."""
    return list(groups.get(f"{values.get('openhpc_cluster_name', '')}_{name}", ()))


def _listed(values: Values, name: str) -> list[Mapping[str, t.Any]]:
    """Return the items of a list that have a name."""
    value = values.get(name)
    return [one for one in value if isinstance(one, Mapping) and one.get("name")] if isinstance(value, list) else []


def _wanted(values: Values) -> list[Mapping[str, t.Any]]:
    """Return the partitions; without a list, each node group is one."""
    return _listed(values, "openhpc_partitions" if "openhpc_partitions" in values else "openhpc_nodegroups")


def _members(partition: Mapping[str, t.Any], values: Values, groups: Groups) -> list[str]:
    """Return the machines of a partition; without node groups, it has the node group of its name."""
    return [
        node for name in partition.get("nodegroups") or [partition["name"]] for node in _nodes(name, values, groups)
    ]


def _partitions(values: Values, groups: Groups) -> list[dict[str, t.Any]]:
    """Return the partitions that have nodes."""
    found = []
    for one in _wanted(values):
        nodes = _members(one, values, groups)
        if nodes:
            found.append(
                {
                    "PartitionName": one["name"],
                    "Nodes": hostlist.compress(nodes),
                    "Default": is_true(one.get("default", "yes")),
                    "MaxTime": one.get("maxtime", values.get("openhpc_job_maxtime", _MAX_TIME)),
                    "State": "UP",
                    **_config(one.get("partition_params")),
                }
            )
    # Slurm takes the last default. Ours must be one.
    last = max((number for number, one in enumerate(found) if one["Default"]), default=-1)
    return [{**one, "Default": number == last} for number, one in enumerate(found)]


def _node_config(machine: str, values: Values, groups: Groups) -> dict[str, t.Any]:
    """Return the keys of the node line of a machine."""
    group = next(
        (one for one in _listed(values, "openhpc_nodegroups") if machine in _nodes(one["name"], values, groups)), {}
    )
    features = [str(one) for one in group.get("features") or []]
    memory = {"RealMemory": group["ram_mb"]} if group.get("ram_mb") else {}
    return {**({"Features": ",".join(features)} if features else {}), **memory, **_config(group.get("node_params"))}


def _account(user: Mapping[str, t.Any]) -> dict[str, t.Any]:
    """Return a user of the appliance as an item of users_accounts."""
    found = {ours: user[key] for key, ours in _ACCOUNT.items() if user.get(key) is not None}
    keys = found.get("ssh_keys")
    return {
        **found,
        **({"ssh_keys": [keys]} if isinstance(keys, str) else {}),
        **({"sudo": True} if user.get("sudo") else {}),
    }


def _on(values: Values, name: str) -> bool | None:
    return is_true(values[name]) if name in values else None


def _warn(values: Values, groups: Groups, meaning: older_names.Meaning) -> None:
    """Name the parts of lists and mappings that have no effect."""
    config = values.get("openhpc_config")
    keys = [str(key) for key in config] if isinstance(config, Mapping) else []
    meaning.ignored.update({f"openhpc_config.{key}": _OTHERS[key.lower()] for key in keys if key.lower() in _OTHERS})
    empty = [one["name"] for one in _wanted(values) if not _members(one, values, groups)]
    meaning.ignored.update({f"the partition {name}": "none of its node groups has a machine" for name in empty})
    for one in _listed(values, "openhpc_nodegroups"):
        parts = {f"openhpc_nodegroups[{one['name']}].{key}": text for key, text in _OF_NODES.items() if one.get(key)}
        meaning.ignored.update(parts)
    for user in _listed(values, "basic_users_users"):
        unknown = sorted({*user} - {*_ACCOUNT, "sudo"}) + (
            ["its rule of sudo"] if isinstance(user.get("sudo"), str) else []
        )
        if unknown:
            meaning.ignored[f"basic_users_users[{user['name']}]"] = f"{', '.join(unknown)}; set users_accounts"
