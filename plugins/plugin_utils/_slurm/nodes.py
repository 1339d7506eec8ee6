# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This plugin util is PRIVATE to the collection. It may change or vanish at any time.
"""Group nodes with identical settings in the inventory."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import auto, records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

# Host variables that describe a node; the first one that is set takes precedence. The inventory plugin
# azure.azcollection.azure_rm sets the last one.
SIZE_VARIABLES = ("gpucluster_vm_size", "azure_vm_size", "virtual_machine_size")
RECORD_VARIABLE = "gpucluster_vm_size_record"
CONFIG_VARIABLE = "slurm_node_config"


class NodeError(ValueError):
    """A host whose variables are missing or wrong."""


def group(
    hosts: Iterable[str], variables: Mapping[str, Mapping[str, t.Any]], *, skip: bool = False, sizes: str = ""
) -> list[dict[str, t.Any]]:
    """
    Group identical hosts, each group with its hostlist and hardware record.

    O(skip) ignores hosts without one. O(sizes) is the file with the sizes of hosts whose size is C(auto).
    """
    groups: dict[str, dict[str, t.Any]] = {}
    members: dict[str, list[str]] = {}
    for host in hosts:
        size, record, config = describe(variables[host])
        if record is None and (not size or auto.is_auto(size)):
            size = auto.read(sizes).get(host, "") if sizes else ""
        if not size and record is None:
            if skip:
                continue
            raise NodeError(
                f"host {host}: gpucluster_vm_size: found nothing; allowed: {', '.join(records.names())}, or other "
                f"hardware in {RECORD_VARIABLE}. With auto, the first run must include the host"
            )
        key = json.dumps([size, record, config], sort_keys=True, default=str)
        if key not in groups:
            groups[key] = {"record": find(host, size, record), "config": config}
        members.setdefault(key, []).append(host)
    # A hostlist is one short string. Templates would process thousands of names one by one each time.
    return [{"hosts": hostlist.compress(members[key]), **parts} for key, parts in groups.items()]


def describe(variables: Mapping[str, t.Any]) -> tuple[str, t.Any, dict[str, t.Any]]:
    """Return the VM size, the custom record and the additional node settings of one host; each can be empty."""
    size = next((variables[name] for name in SIZE_VARIABLES if variables.get(name)), "")
    return str(size), variables.get(RECORD_VARIABLE) or None, dict(variables.get(CONFIG_VARIABLE) or {})


def find(host: str, size: str, record: t.Any) -> dict[str, t.Any]:
    """Return the hardware record, or raise an error that names the host."""
    try:
        return records.find(size, record)
    except records.CatalogueError as exc:
        raise NodeError(f"host {host}: gpucluster_vm_size: {exc}") from exc
