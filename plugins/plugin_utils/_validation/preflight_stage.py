# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The stage C(preflight): the nodes answer, they match each other, and Slurm can use them."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import consistency

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session

Raw = t.Mapping[str, t.Any]


def measure(session: Session, raw: dict[str, t.Any], facts: t.Mapping[str, t.Any]) -> None:
    """Read the nodes from Slurm, and add the facts of the nodes."""
    raw.update(facts=dict(facts), states=[], nodes=list(facts))
    found = nodes_of_slurm(session)
    session.nodes.known, session.nodes.meant = found["nodes"], found["wanted"]
    meant = session.nodes.meant
    # A controller is not a node of Slurm, but must match the nodes.
    others = {node["name"] for node in found["nodes"]} - set(meant)
    raw["facts"] = {name: said for name, said in facts.items() if name not in others}
    raw["states"] = [node for node in found["nodes"] if node["name"] in meant]
    raw["nodes"] = list(dict.fromkeys([*raw["facts"], *meant]))


def nodes_of_slurm(session: Session) -> t.Mapping[str, t.Any]:
    """Return all nodes in Slurm, and the chosen ones."""
    return session.run(
        "hpcai.gpucluster.slurm_nodes_info",
        partition=session.settings["partition"] or None,
        nodelist=session.settings["nodelist"],
        select=False,
    )


def judge(raw: Raw) -> dict[str, t.Any]:
    """Return the checks of the nodes and of their state in Slurm."""
    facts = {name: found if found and "versions" in found else None for name, found in raw["facts"].items()}
    versions = {name: found["versions"] for name, found in facts.items() if found}
    return {"checks": consistency.checks(facts, raw["states"]), "versions": versions}
