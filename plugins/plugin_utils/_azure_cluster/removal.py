# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Delete the machines of nodes that a person names. Everything is checked before the first one goes."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure.sign_in import AzureError
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._inputs import types

if t.TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._azure_cluster import azure


class Removed(t.NamedTuple):
    """What says that a node has left: the inventory, and Slurm."""

    in_inventory: Collection[str]  # gpucluster_removed_nodes
    in_slurm: Collection[str]  # the nodes that Slurm still knows


def problems(names: Collection[str], rows: Mapping[str, Mapping[str, t.Any]], cluster: str, left: Removed) -> list[str]:
    """Return one sentence for each name that may not be deleted; names are compared letter by letter."""
    found = (
        [] if names else [types.problem("nodes", None, "the names of one node or more, such as -e nodes=hpc-h100-4")]
    )
    for name in names:
        tags = (rows.get(name) or {}).get("tags") or {}
        if name not in left.in_inventory:
            found.append(types.problem("nodes", name, "names in gpucluster_removed_nodes; run node_remove.yml first"))
        elif name in left.in_slurm:
            found.append(types.problem("nodes", name, "names that Slurm no longer knows; run node_remove.yml first"))
        elif name in rows and (tags.get("gpucluster_cluster") != cluster or not tags.get("gpucluster_set")):
            found.append(types.problem("nodes", name, f"machines of a set of the cluster {cluster}"))
    return found


def remove(
    asks: azure.Azure, where: tuple[str, str], names: list[str], left: Removed, is_check: bool
) -> dict[str, t.Any]:
    """Delete the machines with these names; I(where) is the resource group and the cluster."""
    group, cluster = where
    rows = asks.machines(group)
    if rows is None:
        raise AzureError(f"the resource group {group} does not exist")
    wrong = problems(names, rows, cluster, left)
    if wrong:
        raise AzureError("\n".join([*wrong, "Nothing was deleted."]))
    there = [name for name in dict.fromkeys(names) if name in rows]
    failed = [] if is_check else [text for name in there if (text := _delete(asks, group, name))]
    if failed:
        raise AzureError("\n".join(failed))
    return {"changed": bool(there), "removed": there, "absent": [name for name in names if name not in rows]}


def _delete(asks: azure.Azure, group: str, name: str) -> str:
    """Delete one machine with its interface and system disk, and return why that failed; the others still go."""
    try:
        asks.finish(f"deletion of {name}", lambda: asks.clients.machines.begin_delete(group, name))
    except AzureError as exc:
        return str(exc)
    return ""
