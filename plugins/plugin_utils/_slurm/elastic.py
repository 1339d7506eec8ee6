# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Elastic nodes: machines of the inventory that run only while jobs need them, by Slurm's power saving."""

from __future__ import annotations

import re
import typing as t
from collections.abc import Mapping

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    Config = dict[str, t.Any]

SCRIPTS = "/etc/slurm/elastic"
_PROGRAMS = {"ResumeProgram": "resume", "SuspendProgram": "suspend", "ResumeFailProgram": "fail"}
_ID = re.compile(r"/subscriptions/[\w-]+/resourceGroups/[\w.()-]+/providers/Microsoft\.Compute/[\w./-]+", re.IGNORECASE)


def ids(hosts: Iterable[str], hostvars: t.Any) -> dict[str, str]:
    """Return the Azure resource ID of each host, or an empty text."""
    return {host: str(hostvars[host].get("azure_id") or "") for host in hosts}


def problems(elastic: t.Any, nodes: Iterable[Mapping[str, t.Any]]) -> Iterator[str]:
    """Yield a sentence for each fault; O(nodes) are the groups of all nodes."""
    if not isinstance(elastic, Mapping):
        yield f"slurm_elastic: found {elastic!r}; allowed: the Azure resource ID of each elastic node, by its name"
        return
    known = {name for group in nodes for name in hostlist.expand(group["hosts"])}
    for name, machine in elastic.items():
        if name not in known:
            yield f"slurm_elastic: found {name}; allowed: machines of the group slurm_compute"
        elif not _ID.fullmatch(str(machine)):
            yield f"slurm_elastic: found {machine!r} of {name}; allowed: its Azure resource ID (azure_id of azure_vms)"


def parameters(elastic: t.Any) -> Config:
    """Return what elastic nodes add to SlurmctldParameters: a suspended node is idle in any case."""
    return {"idle_on_node_suspend": True, "power_save_interval": 5} if elastic else {}


def settings(elastic: t.Any, nodes: Iterable[Mapping[str, t.Any]]) -> Config:
    """Return what elastic nodes add to slurm.conf; O(nodes) are the groups of all nodes."""
    if not elastic:
        return {}
    stay = [name for group in nodes for name in hostlist.expand(group["hosts"]) if name not in elastic]
    return {
        **{name: f"{SCRIPTS}/{word}" for name, word in _PROGRAMS.items()},
        # CycleCloud azslurm 4.0.9 configures these: a machine with GPUs boots; a failed start is reported in minutes.
        "ResumeTimeout": 1800,
        "SuspendTimeout": 600,
        "SuspendTime": 600,
        "ResumeRate": 0,
        # Fewer in ten minutes than the limit of gpucluster-elastic for 40 nodes or more.
        "SuspendRate": 1,
        "SuspendExcNodes": hostlist.compress(stay) or None,
        # A drained node stays for the person or the check that drained it.
        "SuspendExcStates": ["DRAIN"],
    }
