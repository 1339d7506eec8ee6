# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Write the network topology of Slurm, as a tree of switches or as blocks, from the place of each host.

Sources: topology.conf(5) and topology.yaml(5) of SchedMD's slurm repository at slurm-26-05-3-1; 25.05 introduced
topology.yaml. The number of lines depends on switches and blocks, not on hosts.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

KINDS = ("tree", "block")
FORMATS = ("conf", "yaml")
MAX_NAME = 64

_NAME = re.compile(r"[A-Za-z0-9_.-]+\Z")
_SHOWN = 5


class TopologyError(ValueError):
    """Places that do not form a tree or blocks."""

    def __init__(self, problems: Sequence[str]) -> None:
        """Join the problems into one message."""
        super().__init__("; ".join(problems))
        self.problems = list(problems)


@dataclasses.dataclass
class Topology:
    """Hosts by leaf switch or block, and the parent of each switch."""

    hosts: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    above: dict[str, str] = dataclasses.field(default_factory=dict)
    problems: list[str] = dataclasses.field(default_factory=list)


def render(
    places: Mapping[str, t.Any],
    kind: str,
    known: Iterable[str] | None = None,
    unplaced: str = "",
    root: str = "root",
    block_sizes: Sequence[int] = (),
    form: str = "conf",
    name: str = "default",
) -> str:
    """Return the content of topology.conf or topology.yaml."""
    topology = _read(places, kind, known, unplaced)
    topology.problems.extend(_shape_problems(topology, kind, block_sizes))
    if kind not in KINDS or form not in FORMATS:
        topology.problems.append(
            f"topology {kind!r} in form {form!r}, expected one of {', '.join(KINDS)} in one of {', '.join(FORMATS)}"
        )
    if topology.problems:
        raise TopologyError(topology.problems)
    if kind == "block":
        return _blocks(topology, block_sizes, form, name)
    return _tree(topology, root, form, name)


def _read(places: Mapping[str, t.Any], kind: str, known: Iterable[str] | None, unplaced: str) -> Topology:
    """Read the places of all hosts and check each one."""
    topology = Topology()
    leaf_of: dict[str, str] = {}
    for hosts, place in places.items():
        path = _path(place) or ([unplaced] if unplaced else [])
        bad = [part for part in path if not _NAME.match(part) or len(part) > MAX_NAME]
        if bad:
            topology.problems.append(
                f"{hosts}: {bad[0]!r} is no name for a switch or block; expected at most {MAX_NAME} letters, digits, "
                "dots, hyphens and underscores"
            )
        if kind == "block" and len(path) > 1:
            topology.problems.append(f"{hosts}: {'/'.join(path)!r} is a path, and a block is one name")
        if path and not bad:
            _place(topology, leaf_of, hosts, path)
    _compare(topology, set(leaf_of), places, known, unplaced)
    return topology


def _path(place: t.Any) -> list[str]:
    """Return a place as names from the top switch to the leaf switch."""
    parts = place if isinstance(place, (list, tuple)) else str("" if place is None else place).split("/")
    return [str(part).strip() for part in parts if str(part).strip()]


def _place(topology: Topology, leaf_of: dict[str, str], hosts: str, path: Sequence[str]) -> None:
    """Add the hosts of one entry and the switches above them."""
    for upper, lower in zip(path, path[1:]):
        if topology.above.setdefault(lower, upper) != upper:
            topology.problems.append(f"switch {lower} is below {topology.above[lower]} and below {upper}")
    for host in hostlist.expand(hosts):
        if leaf_of.setdefault(host, path[-1]) != path[-1]:
            topology.problems.append(f"{host} is in {leaf_of[host]} and in {path[-1]}")
        else:
            topology.hosts.setdefault(path[-1], []).append(host)


def _compare(
    topology: Topology, placed: set[str], places: Mapping[str, t.Any], known: Iterable[str] | None, unplaced: str
) -> None:
    """Compare the hosts that have a place with the nodes of the cluster."""
    nodes = {host for hosts in (places if known is None else known) for host in hostlist.expand(hosts)}
    if placed - nodes:
        topology.problems.append(f"no node of the cluster is named {_some(placed - nodes)}")
    missing = sorted(nodes - placed, key=hostlist.natural_key)
    if missing and unplaced:
        topology.hosts.setdefault(unplaced, []).extend(missing)
    elif missing:
        topology.problems.append(f"these nodes have no place: {_some(missing)}")


def _some(names: Iterable[str]) -> str:
    """Return the first few names."""
    return words.listed(sorted(names, key=hostlist.natural_key), _SHOWN)


def _shape_problems(topology: Topology, kind: str, block_sizes: Sequence[int]) -> list[str]:
    """Return the errors in the tree of switches, or in the block sizes."""
    if kind == "block":
        return _size_problems(topology, block_sizes)
    inner = set(topology.above.values())
    found = [f"switch {name} has hosts and switches below it" for name in sorted(inner & topology.hosts.keys())]
    for name in topology.above:
        seen = {name}
        upper = topology.above.get(name)
        while upper is not None and upper not in seen:
            seen.add(upper)
            upper = topology.above.get(upper)
        if upper == name:
            found.append(f"switch {name} is below itself")
    return found


def _size_problems(topology: Topology, block_sizes: Sequence[int]) -> list[str]:
    """Return the block sizes that topology.conf(5) does not allow."""
    if not block_sizes:
        return []
    if any(not isinstance(size, int) or isinstance(size, bool) or size < 1 for size in block_sizes):
        return [f"block sizes are {list(block_sizes)!r}, expected whole numbers above 0"]
    found = [
        f"block size {larger} is not {smaller} times a power of two"
        for smaller, larger in zip(block_sizes, block_sizes[1:])
        if larger % smaller or not _is_power(larger // smaller)
    ]
    small = [name for name, hosts in topology.hosts.items() if len(hosts) < block_sizes[0]]
    if small:
        found.append(f"fewer than the base block size of {block_sizes[0]} hosts are in {_some(small)}")
    return found


def _is_power(number: int) -> bool:
    """Return whether a number is 2, 4, 8 and so on."""
    return number > 1 and not number & (number - 1)


def _names(names: Iterable[str]) -> list[str]:
    """Return names in natural order."""
    return sorted(names, key=hostlist.natural_key)


def _blocks(topology: Topology, block_sizes: Sequence[int], form: str, name: str) -> str:
    """Return blocks with their hosts."""
    hosts = {block: hostlist.compress(topology.hosts[block]) for block in _names(topology.hosts)}
    sizes = [str(size) for size in block_sizes]
    if form == "conf":
        lines = [f"BlockName={block} Nodes={nodes}" for block, nodes in hosts.items()]
        return "".join(f"{line}\n" for line in [*lines, *([f"BlockSizes={','.join(sizes)}"] if sizes else [])])
    head = [f"- topology: {name}", "  cluster_default: true", "  block:"]
    if sizes:
        head += ["    block_sizes:", *(f"      - {size}" for size in sizes)]
    lines = [line for block, nodes in hosts.items() for line in (f"      - block: {block}", f"        nodes: {nodes}")]
    return "".join(f"{line}\n" for line in ["---", *head, "    blocks:", *lines])


def _tree(topology: Topology, root: str, form: str, name: str) -> str:
    """Return switches, leaves first; one root switch is above all others."""
    below: dict[str, list[str]] = {}
    for lower, upper in topology.above.items():
        below.setdefault(upper, []).append(lower)
    tops = _names({*topology.hosts, *below} - topology.above.keys())
    leaves = {leaf: hostlist.compress(topology.hosts[leaf]) for leaf in _names(topology.hosts)}
    depth = {switch: _depth(switch, below) for switch in below}
    inner = {
        switch: hostlist.compress(below[switch])
        for switch in sorted(below, key=lambda switch: (depth[switch], hostlist.natural_key(switch)))
    }
    if len(tops) > 1:
        taken = {*leaves, *inner}
        while root in taken:
            root += "_"
        inner[root] = hostlist.compress(tops)
    if form == "conf":
        lines = [f"SwitchName={leaf} Nodes={nodes}" for leaf, nodes in leaves.items()]
        lines += [f"SwitchName={switch} Switches={lower}" for switch, lower in inner.items()]
        return "".join(f"{line}\n" for line in lines)
    lines = [line for leaf, nodes in leaves.items() for line in (f"      - switch: {leaf}", f"        nodes: {nodes}")]
    lines += [f"      - switch: {switch}\n        children: {lower}" for switch, lower in inner.items()]
    head = ["---", f"- topology: {name}", "  cluster_default: true", "  tree:", "    switches:"]
    return "".join(f"{line}\n" for line in [*head, *lines])


def _depth(switch: str, below: Mapping[str, Sequence[str]]) -> int:
    """Return the number of switch levels below a switch, plus one."""
    return 1 + max((_depth(lower, below) for lower in below.get(switch, ())), default=0)
