# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Choose the nodes to validate."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import settings as inputs
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation.session import Session, StoppedError

_GONE = "nothing was done, for none of the chosen nodes ran a job"


def need(session: Session, silent: t.Collection[str]) -> None:
    """Choose the nodes, unless an earlier stage did; O(silent) are the nodes that do not answer Ansible."""
    nodes = session.nodes
    if nodes.gone:
        raise StoppedError(_GONE)
    if nodes.taken is not None:
        return
    session.cancel()
    settings = session.settings
    found = session.run(
        "hpcai.gpucluster.slurm_nodes_info",
        partition=settings["partition"] or None,
        nodelist=settings["nodelist"],
        nodes=settings["nodes"] or None,
        busy_too=settings["busy_too"],
    )
    if not nodes.known:
        nodes.known, nodes.meant = found["nodes"], found["wanted"]
    answering = [name for name in found["selected"] if name not in silent]
    refuse_mixed(settings, found["nodes"], answering)
    nodes.taken = answering
    nodes.skipped = {
        "busy": found["busy"],
        "unusable": [node for node in found["nodes"] if node["name"] in found["unusable"]],
        "named": bool(settings["nodelist"]),
    }
    if not answering:
        raise StoppedError(f"none of the chosen nodes answers Ansible: {hostlist.compress(found['selected'])}")
    session.say(f"nodes: {hostlist.compress(answering)}")


def refuse_mixed(settings: inputs.Settings, known: t.Sequence[t.Mapping[str, t.Any]], names: t.Sequence[str]) -> None:
    """Refuse nodes of several kinds for measurements, because one set of limits cannot apply to all of them."""
    if not {"node", "nccl"} & set(settings["stages"]):
        return
    without = [node["name"] for node in known if node["name"] in names and node["gpus"] == 0]
    if 0 < len(without) < len(names) and settings["program"] != "mpi" and not settings["gpus_per_node"]:
        others = [name for name in names if name not in without]
        raise StoppedError(
            f"Nodes with and without GPUs cannot be measured together. Slurm knows GPUs of {hostlist.compress(others)},"
            f" and none of {hostlist.compress(without)}. Choose one kind with nodelist (-e nodelist=...), or with a"
            " partition that has one kind"
        )
    sizes = inputs.kinds(settings, names)
    unknown = set(names) - {name for group, _record in sizes for name in group} if sizes else set()
    distinct: list[inputs.Record] = []
    for _group, record in sizes:
        # Equal machines can have another part of the GPUs of their host.
        same = {**record, "gpus": {**record["gpus"], "first_device": 0}}
        distinct += [same] if same not in distinct else []
    if len(distinct) + bool(unknown) > 1:
        lines = [f"{hostlist.compress(group)} is {record['name']}" for group, record in sizes]
        lines += [f"{hostlist.compress(unknown)} has none in the inventory"] if unknown else []
        raise StoppedError(
            f"Nodes of several VM sizes cannot be measured together: {', '.join(sorted(lines))}. Choose one size with"
            " nodelist (-e nodelist=...), or with a partition that has one size. Or set validate_hardware to one"
            " record, which then holds for all"
        )
