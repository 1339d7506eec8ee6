# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Choose the nodes that leave a set when it shrinks. Pure functions."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_scale.scale_sets import ScaleError

if t.TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MARKS = "*~#!%$@^-+"
# Beginnings of states of sinfo in the order in which nodes leave. All other states are somebody's decision.
_FREE = ("absent", "idle", "planned", "powering", "powered", "future", "unk", "no_resp", "down")
_BUSY = ("alloc", "mix", "comp", "draining", "failing")
# Slurm's own reasons of a node that is down; another reason is that of a person or of a health check.
_SLURMS_OWN = ("not responding", "node unexpectedly rebooted")
OURS = "removed by"  # the reason of an earlier run that was interrupted
_HOLDERS = ("held", "busy")


class Node(t.NamedTuple):
    """
    A node as Slurm knows it: its state as C(sinfo) prints it, the reason for that, and whether it has jobs.

    The state of a node that Slurm does not know, or whose machine does not run, is absent.
    """

    state: str = "absent"
    reason: str = ""
    jobs: bool = False


class Choice(t.NamedTuple):
    """The nodes that leave, in their order, and one sentence per group of nodes that stay for a reason."""

    nodes: list[str]
    kept: list[str]


def choose(
    nodes: Mapping[str, Node], order: Sequence[str], number: int, *, drained_too: bool = False, jobs_too: bool = False
) -> Choice:
    """
    Return the nodes that leave a set.

    O(order) are the nodes of the set in the order of their scale sets; the last ones leave first. O(nodes) are the
    nodes that Slurm knows. Absent nodes and those of an interrupted run leave first, then idle nodes, then those that
    are down. A node that a person or a health check drained or reserved stays unless drained_too, a node with jobs
    stays unless jobs_too.
    """
    known = {name: nodes.get(name, Node()) for name in order}
    why = {name: _reasons(node) for name, node in known.items()}
    allowed = {*(["held"] if drained_too else []), *(["busy"] if jobs_too else [])}
    usable = [name for name in reversed(order) if why[name] <= allowed]
    usable.sort(key=lambda name: (_weight(why[name]), _rank(known[name])))
    kept = _kept(known, why, allowed)
    if len(usable) < number:
        raise ScaleError(f"{number} nodes must leave, but only {len(usable)} may: {'; '.join(kept)}")
    return Choice(usable[:number], kept)


def _reasons(node: Node) -> set[str]:
    """Return why a node stays: its jobs (busy), or a person or a health check (held)."""
    plain = node.state.lower().rstrip(_MARKS)
    found = {"busy"} if node.jobs or plain.startswith(_BUSY) else set[str]()
    if not _is_ours(node) and not _is_free(plain, node.reason):
        found.add("held")
    return found


def _is_free(state: str, reason: str) -> bool:
    """Return whether nobody decided that the node takes no jobs."""
    if any(word in state for word in ("drain", "maint", "reserved", "fail")):
        return False
    if state.startswith("down"):
        return reason.lower() in ("", "none") or reason.lower().startswith(_SLURMS_OWN)
    return state.startswith((*_FREE, *_BUSY))


def _is_ours(node: Node) -> bool:
    return node.reason.lower().startswith(OURS)


def _rank(node: Node) -> int:
    state = "absent" if _is_ours(node) else node.state.lower()
    return next((place for place, start in enumerate(_FREE) if state.startswith(start)), len(_FREE))


def _weight(reasons: set[str]) -> int:
    return sum(10**place for place, name in enumerate(_HOLDERS) if name in reasons)


def _kept(known: Mapping[str, Node], why: Mapping[str, set[str]], allowed: set[str]) -> list[str]:
    """Return one sentence for the nodes with jobs, and one for those that somebody drained."""
    texts = {
        "busy": "run jobs (-e azure_scale_force_jobs=true removes them, too)",
        "held": "are drained or reserved (-e azure_scale_force_drained=true removes them, too)",
    }
    found = []
    for kind, text in texts.items():
        names = [f"{name} ({_state(node)})" for name, node in known.items() if kind in why[name] - allowed]
        if names:
            found.append(f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''} {text}")
    return found


def _state(node: Node) -> str:
    return f"{node.state}: {node.reason}" if node.reason not in ("", "none") else node.state
