# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Translate the variables of a DeepOps inventory into inputs of this collection. Pure: data in, data out.

C(deepops.yml) says for each variable whether it is used, which inputs it sets, or what to set instead.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import typing as t
from collections.abc import Mapping
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import nfs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs.types import FALSE, TRUE, is_address, is_true

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Values = Mapping[str, t.Any]
    Groups = Mapping[str, Sequence[str]]

FILE = Path(__file__).with_name("deepops.yml")
# Groups of DeepOps that have no counterpart. They are no misspelt names.
GROUPS = ("slurm-cluster", "slurm-cache", "slurm-metric", "k8s_cluster", "kube_control_plane", "kube_node", "etcd")
# Only an inventory of DeepOps has one of these. The groups alone are not sufficient, because older inventories of this
# collection use them, too.
_MARKERS = ("deepops_dir", "slurm_install_prefix", "slurm_password", "slurm_db_password", "slurm_manage_gpus")
# The account of DeepOps' example, whose password is public.
_PUBLIC_PASSWORD = "$6$IrxI27V4ogJFfgTV$"  # noqa: S105
# Groups of the machines that share directories.
_MEMBERS = ("slurm-master", "slurm-login", "slurm-node", "slurm-nfs", "slurm-nfs-client")
_STATE = "/var/spool/slurm/ctld"
_NHC = "/usr/sbin/nhc"
_PART = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(\[(?P<first>-?\d+)?(?P<range>:)?(?P<last>-?\d+)?\])?")
_USER_DIRECTORY = re.compile(r"(/[A-Za-z0-9._/+-]+)/user-\$\(id -u\)")


@dataclasses.dataclass
class Member:
    """One machine of the inventory, with its variables of DeepOps after templating."""

    name: str
    values: Values
    # Names of inputs of this collection that the inventory sets for the machine.
    taken: frozenset[str]
    # Variables whose templates cannot be evaluated before the facts of the machine are known.
    unread: frozenset[str] = frozenset()


@dataclasses.dataclass
class Meaning:
    """What the variables of a machine mean here."""

    inputs: dict[str, t.Any]
    used: list[str]
    mapped: dict[str, list[str]]
    ignored: dict[str, str]


@functools.cache
def table() -> dict[str, dict[str, t.Any]]:
    """Return the known variables of DeepOps; a name that ends with C(*) is a prefix."""
    return dict(yaml_load(FILE.read_text(encoding="utf-8")))


@functools.cache
def entry(name: str) -> dict[str, t.Any] | None:
    """Return what is known of a variable: its own entry, or the one of its longest prefix, or nothing."""
    return find(table(), name)


def find(entries: Mapping[str, t.Any], name: str) -> dict[str, t.Any] | None:
    """Return the entry of a name in a table, or the one of its longest prefix, or nothing."""
    return entries.get(name) or entries.get(_prefix(entries, name))


def _prefix(entries: Mapping[str, t.Any], name: str) -> str:
    """Return the longest prefix of a name in a table, with its C(*)."""
    prefixes = sorted((one[:-1] for one in entries if one.endswith("*")), key=len, reverse=True)
    return f"{next((one for one in prefixes if name.startswith(one)), '')}*"


def is_deepops(groups: Groups, names: Iterable[str]) -> bool:
    """Return whether groups and variables are those of an inventory of DeepOps."""
    return "slurm-master" in groups and not set(_MARKERS).isdisjoint(names)


def known(names: Iterable[str], groups: Groups) -> set[str]:
    """Return the variables of DeepOps among names, if the inventory is one of DeepOps."""
    found = set(names)
    return {name for name in found if entry(name)} if is_deepops(groups, found) else set()


def translate(host: Member, groups: Groups, addresses: Mapping[str, str]) -> Meaning:
    """Return the inputs that the variables of a machine mean; O(addresses) has C(ansible_host) by machine."""
    found = {**_inputs(host.values, groups, addresses), **_enroot_directories(host.values)}
    own = {"enroot_config", "slurm_health_check_program", "nfs_exports", "nfs_mounts"}
    inputs = {name: value for name, value in found.items() if name not in host.taken or name in own}
    meaning = Meaning(inputs, [], {}, {})
    for name in sorted({*host.values, *host.unread}):
        _sort(name, host, meaning)
    return meaning


def memberships(values: Values, groups: Groups) -> dict[str, list[str]]:
    """Return the groups of this collection by machine that follow from the services of DeepOps' controllers."""
    masters = list(groups.get("slurm-master", ()))
    wanted = {
        # DeepOps runs slurmdbd on its controllers. A group of the inventory, also an empty one, takes precedence.
        "slurm_database": [] if "slurm_database" in groups else masters[:1],
        "nfs_server": pattern(values.get("nfs_server_group"), groups) or [],
        "nfs_client": pattern(values.get("nfs_client_group"), groups) or [],
    }
    found: dict[str, list[str]] = {}
    for group, hosts in wanted.items():
        for host in hosts:
            if host not in groups.get(group, ()):
                found.setdefault(host, []).append(group)
    return found


def pattern(text: t.Any, groups: Groups) -> list[str] | None:
    """Return the machines of a host pattern such as C(slurm-master[1:],slurm-node), or None if it has other forms."""
    found: list[str] = []
    for part in re.split(r",(?![^[]*\])", str(text)) if text else []:
        match = _PART.fullmatch(part.strip())
        if not match:
            return None
        hosts = list(groups.get(match["name"], [match["name"]] if match["name"] in groups.get("all", ()) else []))
        found += _chosen(hosts, match)
    return list(dict.fromkeys(found))


def _chosen(hosts: list[str], match: re.Match[str]) -> list[str]:
    first, last = (int(match[name]) if match[name] else None for name in ("first", "last"))
    if first is None and not match["range"]:
        return hosts
    if not match["range"]:
        return hosts[first:][:1]
    # Ansible includes the last machine.
    return hosts[first : None if last is None or last == -1 else last + 1]


def summary(meanings: Sequence[Meaning]) -> dict[str, t.Any]:
    """Return what one message says: names that are used, inputs by older name, and what to set instead."""
    merged = Meaning({}, [], {}, {})
    for meaning in meanings:
        merged.used += meaning.used
        merged.mapped.update(meaning.mapped)
        merged.ignored.update(meaning.ignored)
    return {
        "used": ", ".join(sorted(set(merged.used))),
        "mapped": [f"{name} -> {', '.join(names)}" for name, names in sorted(merged.mapped.items())],
        "ignored": [f"{name}: {text}" for name, text in sorted(merged.ignored.items())],
    }


def _sort(name: str, host: Member, meaning: Meaning) -> None:
    """Add a variable to the list of the meaning that it belongs to."""
    skipped = name == "slurm_ha_state_save_location" and not _on(host.values, "slurm_enable_ha", default=False)
    _put(name, name, host, meaning, entry(name) or {}, () if skipped else meaning.inputs)
    _warn(name, host.values.get(name), meaning)


def place(name: str, host: Member, meaning: Meaning, entries: Mapping[str, t.Any]) -> None:
    """Add a variable to the list of the meaning that it belongs to; the summary names a prefix once."""
    shown = name if name in entries else _prefix(entries, name)
    _put(name, shown, host, meaning, find(entries, name) or {}, meaning.inputs)


def _put(
    name: str, shown: str, host: Member, meaning: Meaning, known: Mapping[str, t.Any], inputs: Iterable[str]
) -> None:
    """Add a variable to a list, under the name that the summary shows."""
    value = host.values.get(name)
    wanted = known.get("sets", [])
    set_here = [other for other in wanted if other in inputs or (other.startswith("the group ") and inputs)]
    if name in host.unread:
        meaning.ignored[shown] = "its value needs facts of the machine; set " + (", ".join(wanted) or "it without them")
    elif _same(value, known.get("same", [])) or (known.get("used") and not set_here):
        meaning.used.append(shown)
    elif set_here:
        meaning.mapped[shown] = set_here
    elif wanted:
        taken = [other for other in wanted if other in host.taken]
        reason = known.get("instead", f"this value has no effect; set {', '.join(wanted)}")
        meaning.ignored[shown] = f"the inventory sets {', '.join(taken)}" if taken else reason
    else:
        meaning.ignored[shown] = known.get("instead", "")


def _warn(name: str, value: t.Any, meaning: Meaning) -> None:
    """Name networks without a proxy, and the account of DeepOps' example, whose password everybody knows."""
    if name == "no_proxy" and "/" in str(value):
        meaning.ignored["no_proxy, its networks"] = "no program accepts them everywhere; use names and domains"
    for one in value if name == "users" and isinstance(value, list) else []:
        if isinstance(one, Mapping) and str(one.get("password", "")).startswith(_PUBLIC_PASSWORD):
            meaning.ignored[f"users[{one.get('username')}].password"] = "everybody knows it; set another one"


def _same(value: t.Any, values: Sequence[t.Any]) -> bool:
    """Return whether a value is in a list; a boolean may be written in any way that Ansible accepts."""
    word = str(value).strip().lower()
    booleans = [one for one in values if isinstance(one, bool)]
    return value in values or (word in (*TRUE, *FALSE) and is_true(word) in booleans)


def _inputs(values: Values, groups: Groups, addresses: Mapping[str, str]) -> dict[str, t.Any]:
    """Return the inputs that the variables mean. Some of DeepOps' defaults apply without a variable."""
    masters = list(groups.get("slurm-master", ()))
    found = {
        "slurm_cluster_name": "deepops",
        "slurm_pam_adopt": _on(values, "slurm_restrict_node_access") and _on(values, "slurm_enable_pam_slurm_adopt"),
        "gpucluster_vm_size": "auto",
        # DGX OS makes /raid. DeepOps formats no drives.
        "scratch_drive_count": 0,
        "enroot_scratch_path": "",
        **_slurm(values, len(masters)),
        **_machine(values, addresses),
        **_shares(values, groups, addresses),
        **_containers(values),
    }
    return {name: value for name, value in found.items() if value is not None}


def _slurm(values: Values, controllers: int) -> dict[str, t.Any]:
    return {
        "slurm_pam_users": list(values.get("slurm_allow_ssh_user") or []) or None,
        "slurm_partitions": _partitions(values),
        "slurm_state_directory": _state(values, controllers),
        "slurm_jobs_on_controllers": True if _on(values, "slurm_login_on_compute", default=False) else None,
        # DeepOps' program is LBNL NHC. None restores the one of the collection.
        "slurm_health_check_program": "" if values.get("slurm_health_check_program", _NHC) == _NHC else None,
        "nfs_mounts": None if _on(values, "slurm_enable_nfs_client_nodes") else [],
    }


def _shares(values: Values, groups: Groups, addresses: Mapping[str, str]) -> dict[str, t.Any]:
    """Return exports for the machines of the cluster only, and whether mounts need NFS version 3."""
    exports, mounts = values.get("nfs_exports"), values.get("nfs_mounts")
    if not _on(values, "slurm_enable_nfs_server"):
        exports_here: list[t.Any] | None = []
    else:
        open_ = [one for one in exports or [] if isinstance(one, Mapping) and nfs.trusts_everybody(one, None)]
        names = [host for group in _MEMBERS for host in groups.get(group, ())]
        clients = list(dict.fromkeys(addresses.get(host) or host for host in names))
        exports_here = [_narrowed(one, clients) for one in exports or []] if open_ else None
    options = [
        word for one in mounts or [] if isinstance(one, Mapping) for word in nfs.split_options(one.get("options"))
    ]
    return {
        "nfs_exports": exports_here,
        "nfs_version3_enabled": True if {"vers=3", "nfsvers=3"}.intersection(options) else None,
    }


def _narrowed(export: t.Any, clients: Sequence[str]) -> t.Any:
    """Return an export whose root of every machine would be root, for the given clients only."""
    if not isinstance(export, Mapping) or not nfs.trusts_everybody(export, None):
        return export
    words = str(export["options"]).split()
    opened = [word for word in words if word.startswith("*(")]
    others = [word for word in words if word not in opened]
    return {**export, "options": " ".join([*others, *(f"{name}{opened[0][1:]}" for name in clients)])}


def _machine(values: Values, addresses: Mapping[str, str]) -> dict[str, t.Any]:
    servers, packages = values.get("chrony_config_server"), values.get("software_extra_packages")
    hosts = {name: address for name, address in addresses.items() if is_address(address)}
    return {
        "base_time_service": None if _on(values, "chrony_install") else "",
        "base_time_servers": [servers] if isinstance(servers, str) else servers or None,
        "base_packages": packages or None,
        "base_hosts": hosts if hosts and _on(values, "slurm_configure_etc_hosts") else None,
        "gpucluster_proxy": _proxy(values),
    }


def _containers(values: Values) -> dict[str, t.Any]:
    wanted = _on(values, "slurm_install_enroot") and _on(values, "slurm_install_pyxis")
    text = values.get("enroot_config")
    return {
        "gpucluster_containers": None if wanted else False,
        "enroot_config": enroot_config(text) if isinstance(text, str) else None,
    }


def _on(values: Values, name: str, *, default: bool = True) -> bool:
    return str(values.get(name, default)).strip().lower() in TRUE


def _partitions(values: Values) -> list[dict[str, t.Any]] | None:
    """Return DeepOps' partition, if a variable changes it."""
    limits = {
        "MaxTime": values.get("slurm_max_job_timelimit"),
        "DefaultTime": values.get("slurm_default_job_timelimit"),
        "OverSubscribe": _word(values.get("slurm_oversubscribe")),
    }
    limits = {key: value for key, value in limits.items() if value not in (None, "")}
    if not limits:
        return None
    return [{"PartitionName": "batch", "Nodes": "ALL", "Default": True, "MaxTime": "INFINITE", "State": "UP", **limits}]


def _word(value: t.Any) -> t.Any:
    """Return NO and YES as words; YAML reads them as booleans."""
    return {True: "YES", False: "NO"}.get(value, value) if isinstance(value, bool) else value


def _state(values: Values, controllers: int) -> str | None:
    """Return DeepOps' directory for the state of the controller, so that jobs and their numbers survive."""
    if _on(values, "slurm_enable_ha", default=False):
        return str(values.get("slurm_ha_state_save_location", "/sw/slurm"))
    return _STATE if controllers == 1 else None


def _proxy(values: Values) -> dict[str, t.Any] | None:
    """Return the proxies of the variables, or else those of C(proxy_env), without networks, which programs ignore."""
    environment = values.get("proxy_env")
    given = {**(environment if isinstance(environment, Mapping) else {}), **values}
    found: dict[str, t.Any] = {
        key: str(given[f"{key}_proxy"]) for key in ("http", "https") if given.get(f"{key}_proxy")
    }
    names = [name for name in nfs.split_options(given.get("no_proxy")) if "/" not in name]
    return {**found, **({"no_proxy": names} if names else {})} if found else None


def enroot_config(text: str) -> dict[str, t.Any]:
    """Return lines C(KEY value) of enroot.conf as a mapping, without the directories that DeepOps' variables set."""
    lines = (line.split(None, 1) for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    pairs = {words[0]: words[1].strip() if len(words) > 1 else "" for words in lines}
    return {key: value for key, value in pairs.items() if key not in _DIRECTORIES}


_DIRECTORIES = {
    "ENROOT_RUNTIME_PATH": ("enroot_runtime_path", "enroot_runtime_directory"),
    "ENROOT_CACHE_PATH": ("enroot_cache_path", "enroot_cache_directory"),
    "ENROOT_DATA_PATH": ("enroot_data_path", "enroot_data_directory"),
}


def _enroot_directories(values: Values) -> dict[str, str]:
    """Return the parents of the directories of users. Below /tmp, another user could create them first."""
    text = values.get("enroot_config")
    lines = (line.split(None, 1) for line in (text if isinstance(text, str) else "").splitlines())
    config = {words[0]: words[1].strip() for words in lines if len(words) > 1}
    found = {}
    for key, (older, ours) in _DIRECTORIES.items():
        match = _USER_DIRECTORY.fullmatch(str(config.get(key, values.get(older, ""))))
        if match and not re.match(r"/(var/)?tmp/", match[1]):
            found[ours] = match[1]
    return found
