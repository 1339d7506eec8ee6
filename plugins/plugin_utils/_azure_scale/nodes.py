# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Compare the machines of a set with the nodes of Slurm and the hosts of the inventory. Pure functions."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale import choice
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ScaleError

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    Machine = Mapping[str, t.Any]

_NEW = ("unk", "future", "no_resp")  # beginnings of the states of a node whose slurmd never ran


class Names:
    """The names of the inventory and of Slurm by their lower case, which is the name that Azure knows."""

    def __init__(self, hosts: Iterable[str], nodes: Iterable[Mapping[str, t.Any]] | None) -> None:
        """Accept the hosts of the inventory and the nodes of Slurm, or None if nobody asked Slurm."""
        self.asked = nodes is not None
        self.hosts = {name.lower(): name for name in hosts}
        self.nodes = {str(one["name"]).lower(): one for one in nodes or ()}

    def of(self, machine: Machine) -> str:
        """Return the name of a machine in the inventory, or else in Slurm, or else in Azure."""
        name = str(machine["node"])
        node = self.nodes.get(name)
        return self.hosts.get(name) or (str(node["name"]) if node else name)

    def slurm(self, machine: Machine) -> choice.Node:
        """Return what Slurm knows of a machine. One that does not run is absent; without Slurm, others are busy."""
        node = self.nodes.get(str(machine["node"]))
        if not node:
            unclear = not self.asked and machine["power"] in ("running", "unknown")
            return choice.Node("unknown", jobs=True) if unclear else choice.Node()
        state = str(node["state"]) if machine["power"] in ("running", "unknown") else "absent"
        held = "drain" in str(node["state"])
        return choice.Node(str(node["state"]) if held else state, str(node.get("reason") or ""))


def leaving(
    machines: Sequence[Machine], names: Names, count: int, named: Sequence[str] = (), **told: bool
) -> choice.Choice:
    """
    Return the nodes that must leave so that count machines stay.

    O(named) are the only candidates if there are any; then all of them leave. O(told) are the permissions
    C(drained_too) and C(jobs_too).
    """
    order = [names.of(machine) for machine in machines]
    known = {names.of(machine): names.slurm(machine) for machine in machines}
    if named:
        wanted = [name for name in order if name.lower() in {one.lower() for one in named}]
        unknown = sorted({one.lower() for one in named} - {name.lower() for name in wanted})
        if unknown:
            raise ScaleError(f"the set has no nodes {', '.join(unknown)}; there are {', '.join(order) or 'none'}")
        return choice.choose(known, wanted, len(wanted), **told)
    return choice.choose(known, order, max(len(order) - count, 0), **told)


def drains(leaving: Sequence[str], names: Names) -> list[list[str]]:
    """Return the nodes that Slurm knows, as lists of nodes that take jobs, that are drained, and that are down."""
    kinds: dict[str, list[str]] = {"takes jobs": [], "drain": [], "down": []}
    for name in leaving:
        node = names.nodes.get(name.lower())
        if node:
            state = str(node["state"]).lower()
            kind = next((kind for kind in ("down", "drain") if kind in state), "takes jobs")
            kinds[kind].append(str(node["name"]))
    return [found for found in kinds.values() if found]


def joining(machines: Sequence[Machine], names: Names) -> list[str]:
    """Return the hosts whose machine runs and that Slurm does not know, or whose slurmd never answered."""
    found = []
    for machine in machines:
        host = names.hosts.get(str(machine["node"]))
        if host and machine["usable"] and _is_new(names.nodes.get(str(machine["node"]))):
            found.append(host)
    return found


def _is_new(node: Mapping[str, t.Any] | None) -> bool:
    if node is None:
        return True
    state, reason = str(node["state"]).lower(), str(node.get("reason") or "").lower()
    return state.startswith(_NEW) or (
        state.startswith("down") and not node["answers"] and reason in ("", "none", "not responding")
    )


def unlisted(machines: Sequence[Machine], names: Names) -> list[str]:
    """Return the machines that run and that the inventory does not list."""
    return [str(one["node"]) for one in machines if one["usable"] and str(one["node"]) not in names.hosts]


def gone(machines: Sequence[Machine], names: Names, prefixes: Sequence[str]) -> list[str]:
    """
    Return the nodes of Slurm without a machine and without a host: evicted spot machines and interrupted runs.

    Only names with the prefix of a scale set of this set count, and only nodes without jobs.
    """
    alive = {str(one["node"]) for one in machines}
    found = []
    for name, node in names.nodes.items():
        ours = any(name.startswith(prefix) and len(name) == len(prefix) + 6 for prefix in prefixes)
        busy = str(node["state"]).lower().startswith(("alloc", "mix", "comp", "draining"))
        if ours and name not in alive and name not in names.hosts and not busy:
            found.append(str(node["name"]))
    return found
