# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check the states of nodes in Slurm."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.checks import (
    FAIL,
    NOT_RUN,
    PASS,
    Check,
    check,
)

# Name and title of the check of the state of a node.
_STATE = ("preflight.slurm_state", "state in Slurm")


def state(node: t.Mapping[str, t.Any]) -> Check:
    """Return the check of whether Slurm can use a node."""
    return check(*_STATE, status(node), _condition(node), node["name"])


def status(node: t.Mapping[str, t.Any]) -> str:
    """Return PASS for a node that Slurm can use, NOT_RUN for one that is switched off, reboots or is maintained."""
    if node["state"] not in ("idle", "allocated", "mixed", "completing", "planned", "reserved"):
        return FAIL
    if node.get("transition"):
        return NOT_RUN
    return PASS if node["answers"] else FAIL


def lost(before: t.Sequence[t.Mapping[str, t.Any]], now: t.Sequence[t.Mapping[str, t.Any]]) -> list[Check]:
    """Return the checks of nodes that were usable before and no longer are."""
    well = {node["name"] for node in before if status(node) == PASS}
    found = {node["name"]: node for node in now}
    gone = [check(*_STATE, FAIL, "Slurm does not know it any more", name) for name in sorted(well - set(found))]
    return gone + [
        check(*_STATE, status(node), f"since this run began: {_condition(node)}", name)
        for name, node in found.items()
        if name in well and status(node) != PASS
    ]


def left_out(raw: t.Mapping[str, t.Any], name: str, title: str) -> list[Check]:
    """Return the checks of skipped nodes; an unusable node that was requested by name has failed."""
    result = FAIL if raw.get("named") else NOT_RUN
    found = [check(name, title, NOT_RUN, "busy with other jobs", node) for node in raw.get("busy") or []]
    return found + [
        check(name, title, result, f"skipped: {_condition(node)}", node["name"]) for node in raw.get("unusable") or []
    ]


def _condition(node: t.Mapping[str, t.Any]) -> str:
    """Return the state of a node with its reason."""
    marks = [node["transition"]] if node.get("transition") else []
    marks += [] if node["answers"] else ["slurmd does not answer"]
    return ", ".join([node["state"], *marks]) + (f": {node['reason']}" if node["reason"] else "")
