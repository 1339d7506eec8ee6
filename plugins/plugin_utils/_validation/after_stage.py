# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The stage C(after): nodes that Slurm could use before the validation are still usable after it."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import (
    checks,
    hardware,
    node_states,
    preflight_stage,
)
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings as inputs

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session

Raw = t.Mapping[str, t.Any]

_REPAIR = "/usr/local/sbin/gpucluster-repair"


def measure(session: Session, raw: dict[str, t.Any]) -> None:
    """Read the nodes from Slurm again, because health checks may drain a node during a measurement."""
    nodes, hardware = session.nodes, session.settings["hardware"]
    if inputs.one_record(session.settings):
        hardware = [{"hosts": hostlist.compress(session.taken or nodes.meant), "record": session.record}]
    raw.update(before=nodes.known, meant=nodes.meant, measured=session.taken, hardware=hardware, states=[])
    raw["states"] = preflight_stage.nodes_of_slurm(session)["nodes"]
    raw["repairs"] = _repairs(session)


def _repairs(session: Session) -> list[dict[str, t.Any]]:
    """Return the last repair of each node that was validated; none if the program is not there or fails."""
    found = session.ask(_REPAIR, "status", "--json")
    try:
        cases = json.loads(found["stdout"])["cases"] if found["rc"] == 0 else []
        return [case for case in cases if case["node"] in session.nodes.meant]
    except (ValueError, KeyError, TypeError):
        return []


def judge(raw: Raw) -> dict[str, t.Any]:
    """Return whether nodes that were usable before are still usable, and the hardware of the nodes."""
    before = [node for node in raw["before"] if node["name"] in raw["meant"]]
    lost = node_states.lost(before, raw["states"])
    seen = sum(node_states.status(node) == checks.PASS for node in before)
    if not lost and before:
        text = f"{seen} node{'' if seen == 1 else 's'} that Slurm could use before can still be used"
        lost = [checks.check("after.nodes", "nodes at the end", checks.PASS, text)]
    named = [item["node"] for item in lost if item["node"] and item["status"] == checks.FAIL]
    return {
        "checks": lost,
        "lost": named,
        "repairs": raw.get("repairs") or [],
        "hardware": hardware.summary(raw, [node["name"] for node in before]),
    }
