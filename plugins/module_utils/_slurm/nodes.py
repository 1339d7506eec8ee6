# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Read Slurm's nodes and their states, and select the nodes that a test may use."""

from __future__ import annotations

import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = "%N|%R|%T|%v|%G|%c|%E"
_MARKS = "*~#!%$@^-+"
_BUSY = {"allocated", "mixed", "planned"}
# Prefixes of the states in which a node gets no more jobs until it is repaired.
_LOST = ("drain", "down", "err", "fail", "inval", "no_resp", "unk")
# Prefixes of the states of a node whose slurmd has not registered, or with other hardware than slurm.conf says.
_ABSENT = ("down", "inval", "not_resp", "unk")
# A node in the state completing becomes idle soon.
_FREE = {"idle", "completing"}


class SelectionError(ValueError):
    """No node can be selected. The message contains the reason and what to change."""


class Node(t.NamedTuple):
    """One node. States are in lower case and without Slurm's suffix marks."""

    name: str
    partitions: tuple[str, ...]
    state: str
    answers: bool
    version: str
    gres: str
    gpus: int
    cpus: int
    reason: str

    @property
    def idle(self) -> bool:
        """Return whether the node is free and accepts jobs."""
        return self.state in _FREE and self.answers

    @property
    def busy(self) -> bool:
        """Return whether the node is healthy but in use."""
        return self.state in _BUSY and self.answers

    @property
    def lost(self) -> bool:
        """Return whether the node gets no more jobs."""
        return self.state.startswith(_LOST) or not self.answers

    @property
    def registered(self) -> bool:
        """Return whether slurmd has registered and answers; the node may be drained."""
        return self.answers and not self.state.startswith(_ABSENT)

    @property
    def condition(self) -> str:
        """Return a description of the state and its reason."""
        silent = "" if self.answers else ", slurmd does not answer"
        return f"{self.state}{silent}" + (f": {self.reason}" if self.reason else "")


class Selection(t.NamedTuple):
    """The nodes that a test may use, and those that it must not use."""

    selected: list[str]
    busy: list[str]
    unusable: list[str]


def parse(text: str) -> list[Node]:
    """Return the nodes from C(sinfo --Node) in the format O(FORMAT), with one line per node and partition."""
    nodes: dict[str, Node] = {}
    for line in text.splitlines():
        fields = line.split("|", 6)
        if len(fields) < 7:
            continue
        name, partition, state, version, gres, cpus, reason = (field.strip() for field in fields)
        known = nodes[name].partitions if name in nodes else ()
        nodes[name] = Node(
            name=name,
            partitions=(*known, partition),
            state=state.rstrip(_MARKS).lower(),
            answers="*" not in state,
            version=version,
            gres="" if gres == "(null)" else gres,
            gpus=gpus(gres),
            cpus=int(cpus) if cpus.isdigit() else 0,
            reason="" if reason == "none" else reason,
        )
    return list(nodes.values())


def gpus(gres: str) -> int:
    """Return the number of GPUs in a GRES list such as C(gpu:h100:no_consume:8(S:0-1),nic:2)."""
    return sum(int(number) for number in re.findall(r"(?:^|,)gpu:(?:[^,(:]+:)*(\d+)(?=$|[,(])", gres))


def select(
    nodes: Sequence[Node],
    *,
    partition: str | None = None,
    nodelist: Sequence[str] = (),
    count: int | None = None,
    busy_too: bool = False,
) -> Selection:
    """Return the nodes that a test may use, in Slurm's order."""
    wanted = meant(nodes, partition, nodelist)
    selected = [node.name for node in wanted if node.idle or (busy_too and node.busy)]
    if count is not None and len(selected) < count:
        raise SelectionError(f"{count} nodes are asked for, but only {len(selected)} are idle: {_states(wanted)}")
    if not selected:
        raise SelectionError(f"no idle node: {_states(wanted)}")
    return Selection(
        selected=selected[:count],
        busy=[node.name for node in wanted if node.busy and not busy_too],
        unusable=[node.name for node in wanted if not node.idle and not node.busy],
    )


def meant(nodes: Sequence[Node], partition: str | None, nodelist: Sequence[str]) -> list[Node]:
    """Return the nodes that the user named, in any state."""
    candidates = [node for node in nodes if partition is None or partition in node.partitions]
    if not candidates:
        known = sorted({name for node in nodes for name in node.partitions})
        raise SelectionError(f"partition {partition!r} is empty or unknown; Slurm knows {', '.join(known) or 'none'}")
    _refuse_unknown(candidates, nodelist, partition)
    return [node for node in candidates if not nodelist or node.name in nodelist]


def _refuse_unknown(candidates: Sequence[Node], nodelist: Sequence[str], partition: str | None) -> None:
    """Refuse names that are not among the candidates."""
    unknown = sorted(set(nodelist) - {node.name for node in candidates})
    if unknown:
        where = f"in partition {partition}" if partition else "in Slurm"
        known = ", ".join(node.name for node in candidates[:20]) + (", ..." if len(candidates) > 20 else "")
        raise SelectionError(f"no such node {where}: {', '.join(unknown)}; there are {known}")


def _states(nodes: Sequence[Node]) -> str:
    """Return the number of nodes in each state."""
    states = [node.state + ("" if node.answers else " and does not answer") for node in nodes]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
