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
# Marks of a node that gets no job now, although its state is idle (sinfo(1), NODE STATE CODES).
_TRANSITIONS = {
    "~": "powered down",
    "#": "powering up",
    "!": "about to power down",
    "%": "powering down",
    "$": "in maintenance",
    "@": "about to reboot",
    "^": "rebooting",
}
_BUSY = {"allocated", "mixed", "planned"}
# Prefixes of the states in which a node gets no more jobs until it is repaired.
_LOST = ("drain", "down", "err", "fail", "inval", "no_resp", "unk")
# The same without those in which only slurmd is silent.
_STOPPED = ("drain", "down", "err", "fail", "inval")
# Prefixes of the states of a node whose slurmd has not registered, or with other hardware than slurm.conf says.
_ABSENT = ("down", "inval", "not_resp", "unk")
# A node in the state completing becomes idle soon.
_FREE = {"idle", "completing"}
# The forms of the cells of FORMAT before the reason, which is free text.
_ROW = re.compile(
    r"(?P<name>[\w.-]+) *\|(?P<partition>[^|]+)\|(?P<state>[A-Za-z_]+[*~#!%$@^+-]*) *\|(?P<version>[^|]*)"
    r"\|(?P<gres>[^|]+)\|(?P<cpus>\d{1,6}) *\|(?P<reason>.*)",
    re.ASCII,
)
_CELLS = re.compile("[ -~]*")  # nothing else is in the cells before the reason
# In a reason: two rows without a line break between them.
_JOINED = re.compile(r"\|[^|]+\|[A-Za-z_]+[*~#!%$@^+-]* *\|[^|]*\|[^|]*\|\d{1,6} *\|", re.ASCII)
# In a further line of a reason: a part of a row. Tables and prose have spaces around their bars.
_PART = re.compile(r"\|[\w(]|^[\w.-]+\|")
_GPU = re.compile(r"(?:^|,)gpu(?=[:,(]|$)")
_COUNT = re.compile(r"(?:^|,)gpu:(?:(?:[^,(:]+|\(null\)):)*(\d+)(?=$|[,(])")


class SelectionError(ValueError):
    """No node can be selected. The message contains the reason and what to change."""


class OutputError(ValueError):
    """sinfo printed something that is no row of nodes. The message has it."""


class Node(t.NamedTuple):
    """One node. States are in lower case and without Slurm's suffix marks, of which transition has the meaning."""

    name: str
    partitions: tuple[str, ...]
    state: str
    answers: bool
    version: str
    gres: str
    gpus: int
    cpus: int
    reason: str
    transition: str = ""

    @property
    def idle(self) -> bool:
        """Return whether the node is free and accepts jobs."""
        return self.state in _FREE and self.answers and not self.transition

    @property
    def busy(self) -> bool:
        """Return whether the node is healthy but in use."""
        return self.state in _BUSY and self.answers and not self.transition

    @property
    def lost(self) -> bool:
        """Return whether the node gets no more jobs."""
        return self.state.startswith(_LOST) or not self.answers

    @property
    def stopped(self) -> bool:
        """Return whether the node gets no more jobs until its state is set; a silent one may return."""
        return self.state.startswith(_STOPPED) and not self.transition

    @property
    def registered(self) -> bool:
        """Return whether slurmd has registered and answers; the node may be drained."""
        return self.answers and not self.state.startswith(_ABSENT)

    @property
    def condition(self) -> str:
        """Return a description of the state and its reason."""
        marks = [self.transition] if self.transition else []
        marks += [] if self.answers else ["slurmd does not answer"]
        return ", ".join([self.state, *marks]) + (f": {self.reason}" if self.reason else "")


class Selection(t.NamedTuple):
    """The nodes that a test may use, and those that it must not use."""

    selected: list[str]
    busy: list[str]
    unusable: list[str]


def parse(text: str) -> list[Node]:
    """
    Return the nodes from C(sinfo --Node) in the format O(FORMAT), with one line per node and partition.

    Raise OutputError for a line that is no such row. A reason can have several lines.
    """
    nodes: dict[str, Node] = {}
    last, reason = "", "none"
    for line in filter(str.strip, text.split("\n")):
        row = _ROW.fullmatch(line.rstrip("\r"))
        if not row and last and reason != "none" and not _PART.search(line):
            nodes[last] = nodes[last]._replace(reason=f"{nodes[last].reason} {line.strip()}".strip())
            continue
        if not row or not _CELLS.fullmatch(line, 0, row.start("reason")) or _JOINED.search(row["reason"]):
            raise OutputError(f"sinfo printed {line[:120]!r}, which is no row of a node")
        last, state, gres, reason = row["name"], row["state"], row["gres"].strip(), row["reason"].strip()
        # Until slurmd registers, the cell is that of slurm.conf, where one GPU needs no number.
        if len(_GPU.findall(gres)) != len(_COUNT.findall(gres)) and row["version"].strip() != "N/A":
            raise OutputError(f"sinfo says that {last} has {gres[:120]!r}, not a number of GPUs")
        known = nodes[last].partitions if last in nodes else ()
        nodes[last] = Node(
            name=last,
            partitions=(*known, row["partition"].strip()),
            state=state.rstrip(_MARKS).lower(),
            answers="*" not in state,
            version=row["version"].strip(),
            gres="" if gres == "(null)" else gres,
            gpus=gpus(gres),
            cpus=int(row["cpus"]),
            reason="" if reason == "none" else reason,
            transition=", ".join(text for mark, text in _TRANSITIONS.items() if mark in state),
        )
    return list(nodes.values())


def gpus(gres: str) -> int:
    """Return the number of GPUs in a GRES list such as C(gpu:h100:no_consume:8(S:0-1),nic:2)."""
    return sum(int(number) for number in _COUNT.findall(gres))


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
    states = [
        " and ".join(filter(None, [node.state, node.transition, "" if node.answers else "does not answer"]))
        for node in nodes
    ]
    return ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
