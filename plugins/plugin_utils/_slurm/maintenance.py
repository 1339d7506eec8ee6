# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Plan the waves of a maintenance: which nodes, in which order, and how many at the same time."""

from __future__ import annotations

import math
import re
import typing as t

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Node = Mapping[str, t.Any]

_SERVICE = ("idle", "allocated", "mixed", "completing", "planned", "reserved", "maint")


class MaintenanceError(ValueError):
    """There is no plan; the message says why, and what to change."""


class Plan(t.NamedTuple):
    """
    The nodes in their order, the size of a wave, and the largest number of nodes that may be out of service.

    C(skipped) has the reason for each other node that was named.
    """

    nodes: list[str]
    wave: int
    max_down: int
    skipped: dict[str, str]


def plan(nodes: Sequence[Node], named: Sequence[str], needing: Sequence[str], max_down: t.Any, reason: str) -> Plan:
    """
    Return the plan. C(named) are the nodes of this maintenance, C(needing) those that need it.

    A node with our reason is left from an interrupted run: it comes first, also if it needs nothing any more, because
    it must return to service.
    """
    most = limit(max_down, len(nodes))
    known = {str(node["name"]): node for node in nodes}
    skipped = {name: why for name in named if (why := _skipped(known.get(name), name in needing, reason))}
    chosen = sorted((name for name in named if name not in skipped), key=lambda name: not _ours(known[name], reason))
    away = [name for name, node in known.items() if _away(node) and not _ours(node, reason)]
    if chosen and len(away) >= most:
        raise MaintenanceError(
            f"maintenance_max_down is {max_down}, which is {most} of {len(nodes)} nodes, and"
            f" {len(away)} are out of service already: {', '.join(away)}. Return them to service, or allow more"
        )
    return Plan(chosen, max(1, most - len(away)), most, skipped)


def limit(max_down: t.Any, count: int) -> int:
    """Return a number of nodes, at least one. A percentage is rounded down."""
    match = re.fullmatch(r"([0-9]{1,6})(%?)", str(max_down).strip())
    number = int(match[1]) if match and not isinstance(max_down, bool) else 0
    if not match or number < 1 or (match[2] and number > 100):
        raise MaintenanceError(
            f"maintenance_max_down is {max_down!r}; allowed: a number of nodes from 1, or a percentage from 1% to 100%"
        )
    return max(1, math.floor(count * number / 100)) if match[2] else number


def _away(node: Node) -> bool:
    return node["state"] not in _SERVICE or not node["answers"]


def _ours(node: Node, reason: str) -> bool:
    return _away(node) and node["reason"] == reason


def _skipped(node: Node | None, needs: bool, reason: str) -> str:
    """Return why a node is skipped, or an empty string."""
    if node is None:
        return "unknown to Slurm"
    if _ours(node, reason):
        return ""
    if _away(node):
        silent = "" if node["answers"] else ", slurmd does not answer"
        return f"{node['state']}{silent}: {node['reason'] or 'no reason given'}"
    return "" if needs else "needs nothing"
