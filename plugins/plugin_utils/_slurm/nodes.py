# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection. It may change or vanish at any time.
"""Nodes in groups of equals: what the inventory says about them, and their lines in Slurm's files."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Host variables that describe a node, the first that is set wins.
SIZE_VARIABLES = ("gpucluster_vm_size", "azure_vm_size")
RECORD_VARIABLE = "gpucluster_vm_size_record"
CONFIG_VARIABLE = "slurm_node_config"


class NodeError(ValueError):
    """A host that says too little or something wrong about itself."""


def group(
    hosts: Iterable[str], variables: Mapping[str, Mapping[str, t.Any]], *, skip: bool = False
) -> list[dict[str, t.Any]]:
    """Return the hosts in groups of equals, as hostlists, each with its hardware record; O(skip) those without one."""
    groups: dict[str, dict[str, t.Any]] = {}
    members: dict[str, list[str]] = {}
    for host in hosts:
        size, record, config = describe(variables[host])
        if not size and record is None:
            if skip:
                continue
            raise NodeError(
                f"host {host}: gpucluster_vm_size: found nothing; allowed: {', '.join(records.names())}, or other "
                f"hardware in {RECORD_VARIABLE}"
            )
        key = json.dumps([size, record, config], sort_keys=True, default=str)
        if key not in groups:
            groups[key] = {"record": find(host, size, record), "config": config}
        members.setdefault(key, []).append(host)
    # A short text instead of thousands of names, which templates would go through one by one each time.
    return [{"hosts": hostlist.compress(members[key]), **found} for key, found in groups.items()]


def describe(variables: Mapping[str, t.Any]) -> tuple[str, t.Any, dict[str, t.Any]]:
    """Return the VM size, the site's own record and the additions to the node line of one host; any may be empty."""
    size = next((variables[name] for name in SIZE_VARIABLES if variables.get(name)), "")
    return str(size), variables.get(RECORD_VARIABLE) or None, dict(variables.get(CONFIG_VARIABLE) or {})


def find(host: str, size: str, record: t.Any) -> dict[str, t.Any]:
    """Return the hardware record, or say on which host it is wrong."""
    try:
        return records.find(size, record)
    except records.CatalogueError as exc:
        raise NodeError(f"host {host}: gpucluster_vm_size: {exc}") from exc
