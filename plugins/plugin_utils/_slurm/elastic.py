# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Elastic sets: nodes whose machines exist only while jobs need them, by Slurm's power saving."""

from __future__ import annotations

import functools
import re
import typing as t
from collections.abc import Mapping
from pathlib import Path

import yaml

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import machine_names
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Inputs = Mapping[str, t.Any]
    Config = dict[str, t.Any]
    Entry = Mapping[str, t.Any]

_TIMES = Path(__file__).with_name("elastic.yml")
SCRIPTS = "/etc/slurm/elastic"
# The limits of Azure for a scale set with one placement group, and with several.
MOST_PER_GROUP = 1000
DEFAULT_PER_GROUP = 100
# What one pass of the program may end without a request of Slurm, and the starts without a registration of a set.
END_LIMIT = 10
START_LIMIT = 3
_KEYS = {"name", "nodes", "vm_size", "provider", "min_count", "config", "program", "switch", "instances_per_group"}
_KEYS |= {"end_limit", "start_limit"}
_NUMBERS = (
    ("min_count", 0, 65536),
    ("instances_per_group", 1, MOST_PER_GROUP),
    ("end_limit", 0, 65536),
    ("start_limit", 1, 65536),
)
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
_AZURE = ("subscription_id", "resource_group", "cluster")


@functools.cache
def _times() -> Config:
    return t.cast("Config", yaml.safe_load(_TIMES.read_text(encoding="utf-8")))


def problems(sets: t.Any, azure: t.Any, static: Iterable[str] = ()) -> list[str]:
    """Return a sentence for each fault; O(static) are hostlists of the nodes of the inventory."""
    if not isinstance(sets, (list, tuple)) or not all(isinstance(one, Mapping) for one in sets):
        return [f"slurm_elastic: found {sets!r}; allowed: a list of mappings with name, nodes, vm_size and provider"]
    found = [fault for one in sets for fault in _faults(one, azure)]
    return found or list(_shared(sets, static))


def groups(sets: t.Any) -> list[Config]:
    """Return the groups of nodes as C(cluster_nodes) does. Sets with faults are left to the check of the input."""
    return [
        {
            "hosts": hostlist.compress(_nodes(one)),
            "record": records.find(str(one["vm_size"])),
            "config": {"State": "CLOUD", "Features": str(one["name"]), **(one.get("config") or {})},
        }
        for one in _usable(sets)
    ]


def places(sets: t.Any) -> dict[str, str]:
    """Return the place of the nodes in the network, known before a machine exists: one switch for each scale set."""
    found = {}
    for one in _usable(sets):
        for number, nodes in enumerate(_parts(one), 1):
            name = str(one["name"]) if number == 1 else f"{one['name']}-{number}"
            found[hostlist.compress(nodes)] = str(one.get("switch") or name)
    return found


def program(sets: t.Any, azure: Mapping[str, t.Any], directory: str, assignments: str) -> Config:
    """Return the configuration of gpucluster-elastic."""
    return {
        "directory": directory,
        "sets": [
            {
                "name": str(one["name"]),
                "nodes": _nodes(one),
                "provider": str(one["provider"]),
                "min_count": int(one.get("min_count") or 0),
                "options": _options(one, azure, assignments),
                "end_limit": _number(one, "end_limit", END_LIMIT),
                "start_limit": _number(one, "start_limit", START_LIMIT),
            }
            for one in _usable(sets)
        ],
    }


def parameters(sets: Sequence[Entry]) -> Config:
    """Return what elastic sets add to SlurmctldParameters."""
    # Addresses come with the registration, so no name of a node needs DNS. A suspended node is idle in any case.
    return {"cloud_reg_addrs": True, "idle_on_node_suspend": True, "power_save_interval": 5} if sets else {}


def settings(sets: Sequence[Entry], nodes: Iterable[Mapping[str, t.Any]]) -> Config:
    """Return what elastic sets add to slurm.conf; O(nodes) are the groups of all nodes."""
    if not sets:
        return {}
    times = [_times()["providers"][str(one["provider"])] for one in sets]
    static = [group["hosts"] for group in nodes if group["config"].get("State") != "CLOUD"]
    kept = [",".join(_nodes(one)[: int(one.get("min_count") or 0)]) for one in sets]
    return {
        **{name: f"{SCRIPTS}/{word}" for name, word in _PROGRAMS.items()},
        "ResumeTimeout": max(time["ResumeTimeout"] for time in times),
        "SuspendTimeout": max(time["SuspendTimeout"] for time in times),
        "SuspendTime": _times()["SuspendTime"],
        # The clouds have limits of their own.
        "ResumeRate": 0,
        "SuspendRate": 0,
        "SuspendExcNodes": ",".join(filter(None, [*static, *kept])) or None,
        # A drained node stays for the person or the check that drained it.
        "SuspendExcStates": ["DRAIN"],
        # Otherwise scontrol and sinfo do not show nodes without a machine.
        "PrivateData": ["cloud"],
        # Nodes do not know the addresses of others, so slurmctld contacts each of them.
        "TreeWidth": 65533,
    }


_PROGRAMS = {"ResumeProgram": "resume", "SuspendProgram": "suspend", "ResumeFailProgram": "fail"}


def _options(one: Entry, azure: Mapping[str, t.Any], assignments: str) -> Config:
    if one["provider"] == "command":
        return {"program": str(one["program"])}
    return {**azure, "instances_per_group": _per_group(one), "assignments": assignments}


def _number(one: Entry, key: str, default: int) -> int:
    return default if one.get(key) is None else int(one[key])


def _per_group(one: Entry) -> int:
    return int(one.get("instances_per_group") or DEFAULT_PER_GROUP)


def _nodes(one: Entry) -> list[str]:
    return hostlist.expand(str(one["nodes"]))


def _parts(one: Entry) -> list[list[str]]:
    """Return the nodes of each scale set; the nodes of a command are one part."""
    nodes = _nodes(one)
    size = _per_group(one) if one["provider"] == "azure" else len(nodes)
    return [nodes[first : first + size] for first in range(0, len(nodes), size)]


def _usable(sets: t.Any) -> list[Entry]:
    given = sets if isinstance(sets, (list, tuple)) else []
    return [one for one in given if isinstance(one, Mapping) and not list(_own_faults(one))]


def _faults(one: Entry, azure: t.Any) -> Iterator[str]:
    yield from _own_faults(one)
    if one.get("provider") != "azure":
        return
    given = azure if isinstance(azure, Mapping) else {}
    missing = [name for name in _AZURE if not given.get(name)]
    if missing:
        yield (
            f"slurm_elastic_azure: found no {', '.join(missing)}; needed for the set {one.get('name')}. azure_cluster"
            " defines them, or set them"
        )


def _own_faults(one: Entry) -> Iterator[str]:
    """Yield the faults of one set alone."""
    where = f"slurm_elastic, set {one.get('name')!r}"
    for key in sorted(set(map(str, one)) - _KEYS):
        yield f"{where}: found {key}; allowed: {', '.join(sorted(_KEYS))}"
    if not isinstance(one.get("name"), str) or not _NAME.fullmatch(one["name"]):
        yield f"{where}: name: allowed: lower-case letters, digits and hyphens, such as h100"
    if one.get("provider") not in _times()["providers"]:
        yield f"{where}: provider: found {one.get('provider')!r}; allowed: {', '.join(_times()['providers'])}"
    for check in (_size_fault, _nodes_fault, _number_fault, _program_fault):
        fault = check(one)
        if fault:
            yield f"{where}: {fault}"


def _size_fault(one: Entry) -> str:
    try:
        records.find(str(one.get("vm_size") or ""))
    except records.CatalogueError as exc:
        return f"vm_size: {exc}"
    given = one.get("config") or {}
    return "" if isinstance(given, Mapping) else f"config: found {given!r}; allowed: a mapping of keys of slurm.conf"


def _nodes_fault(one: Entry) -> str:
    try:
        found = hostlist.expand(str(one.get("nodes") or ""))
    except ValueError as exc:
        return f"nodes: {exc}"
    wrong = [name for name in found if not machine_names.is_short(name)]
    if wrong:
        return f"nodes: found {wrong[0]}; allowed: short names in lower case that are no words of Slurm, such as h100-1"
    return "" if found else "nodes: found nothing; allowed: a hostlist such as h100-[1-16]"


def _number_fault(one: Entry) -> str:
    for key, least, most in _NUMBERS:
        value = one.get(key)
        whole = isinstance(value, int) and not isinstance(value, bool)
        if value is not None and not whole and not re.fullmatch(r"[0-9]{1,5}", str(value)):
            return f"{key}: found {value!r}; allowed: {least} to {most}"
        if value is not None and not least <= int(value) <= most:
            return f"{key}: found {value}; allowed: {least} to {most}"
    return ""


def _program_fault(one: Entry) -> str:
    path = str(one.get("program") or "")
    if one.get("provider") == "command" and not re.fullmatch(r"/[\w./-]+", path):
        return f"program: found {path!r}; allowed: the path of a program on the controllers"
    return ""


def _shared(sets: Sequence[Entry], static: Iterable[str]) -> Iterator[str]:
    """Yield names that two sets, or a set and the inventory, have in common."""
    names = [str(one["name"]) for one in sets]
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"slurm_elastic: found two sets {name}; allowed: one"
    seen = {node: "the inventory" for hosts in static for node in hostlist.expand(hosts)}
    for one in sets:
        twice = [node for node in _nodes(one) if node in seen]
        if twice:
            yield f"slurm_elastic, set {one['name']}: nodes: {twice[0]} is in {seen[twice[0]]} too"
        seen.update(dict.fromkeys(_nodes(one), f"the set {one['name']}"))
