# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Drain and resume nodes that have our reason, and leave all others."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._slurm import nodes as slurm_nodes

if t.TYPE_CHECKING:
    from collections.abc import Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner


class DrainError(Exception):
    """The nodes cannot be drained or resumed; the message says why."""


class Plan(t.NamedTuple):
    """The nodes to change, those that have our reason afterwards, and why others are left."""

    change: list[str]
    ours: list[str]
    left: dict[str, str]


def read(run: Runner) -> list[slurm_nodes.Node]:
    """Return all nodes of Slurm."""
    code, out, err = run(["sinfo", "--all", "--Node", "--noheader", f"--format={slurm_nodes.FORMAT}"])
    if code:
        raise DrainError(f"sinfo exited {code}: {(err or out).strip()}")
    try:
        return slurm_nodes.parse(out)
    except slurm_nodes.OutputError as exc:
        raise DrainError(str(exc)) from exc


def drain(nodes: Sequence[slurm_nodes.Node], wanted: Sequence[str], reason: str, max_down: int | None) -> Plan:
    """Return what drains the nodes. A node that is out of service for another reason is left."""
    known = {node.name: node for node in nodes}
    left = {name: "unknown to Slurm" for name in wanted if name not in known}
    left.update({name: known[name].condition for name in wanted if name in known and _foreign(known[name], reason)})
    ours = [name for name in wanted if name not in left]
    change = [name for name in ours if not known[name].lost]
    _refuse_too_many(nodes, change, max_down)
    return Plan(change, ours, left)


def resume(nodes: Sequence[slurm_nodes.Node], wanted: Sequence[str], reason: str) -> Plan:
    """Return what resumes the nodes with our reason. Nodes with another reason are left."""
    known = {node.name: node for node in nodes if node.lost}
    left = {name: known[name].condition for name in wanted if name in known and _foreign(known[name], reason)}
    return Plan([name for name in wanted if name in known and name not in left], [], left)


def apply(run: Runner, names: Sequence[str], change: Sequence[str]) -> None:
    """Change nodes by one command."""
    if not names:
        return
    code, out, err = run(["scontrol", "update", f"NodeName={','.join(names)}", *change])
    if code:
        raise DrainError(f"scontrol update of {', '.join(names)} failed: {(err or out).strip()}")


def _foreign(node: slurm_nodes.Node, reason: str) -> bool:
    return node.lost and node.reason != reason


def _refuse_too_many(nodes: Sequence[slurm_nodes.Node], change: Sequence[str], max_down: int | None) -> None:
    away = [f"{node.name} ({node.condition})" for node in nodes if node.lost]
    if change and max_down is not None and len(away) + len(change) > max_down:
        raise DrainError(
            f"{len(away) + len(change)} nodes would be out of service, but at most {max_down} may be. To drain:"
            f" {', '.join(change)}. Out of service already: {', '.join(away) or 'none'}"
        )
