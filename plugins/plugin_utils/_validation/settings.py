# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""The settings of a validation: the inputs of the role C(validate) without their prefix, and derived values."""

from __future__ import annotations

import typing as t
from collections.abc import Mapping

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import shortfalls

Settings = t.Mapping[str, t.Any]
Record = t.Mapping[str, t.Any]

# The kinds of groups whose bandwidth is measured.
GROUPS = ("node", "pair", "all")
# The metric in the hardware record that is the threshold of each kind of figure.
RECORDED = {
    "node": "nccl_allreduce_busbw_gbps",
    "pair": "nccl_allreduce_multinode_busbw_gbps",
    "all": "nccl_allreduce_multinode_busbw_gbps",
    "host_to_device_gbps": "host_to_device_gbps",
    "device_to_host_gbps": "device_to_host_gbps",
}
_TYPES = {
    "bool": ("busy_too",),
    "dict": ("environment", "relative", "submit_options", "thresholds"),
    "int": (
        *("cpus_per_task", "dcgm_level", "gpus_per_node", "iterations", "nodes", "pair_rounds", "pending_timeout"),
        *("repeats", "search_rounds", "test_timeout", "time_limit"),
    ),
    "str": ("container_image", "cpu_bind", "max_bytes", "min_bytes", "mpi", "mpi_program", "partition", "program"),
}
_LISTS = ("collectives", "command", "container_mounts", "node_checks", "nodelist", "stages")
SPEC: dict[str, t.Any] = {
    **{name: {"type": kind, "required": True} for kind, names in _TYPES.items() for name in names},
    **{name: {"type": "list", "elements": "str", "required": True} for name in _LISTS},
    # The job of the stage training, as the role training describes it.
    "training": {"type": "dict", "default": {}},
    # One record for all nodes, or groups of nodes.
    "hardware": {"type": "raw", "required": True},
}


class SettingsError(ValueError):
    """A setting is wrong; the message names it."""


def problems(thresholds: t.Mapping[str, t.Any], relative: t.Mapping[str, t.Any]) -> list[str]:
    """Return the errors in thresholds, and in the fractions that replace missing thresholds."""
    found = [
        f"validate_thresholds: found {name}; allowed: {', '.join(RECORDED)}"
        for name in thresholds
        if name not in RECORDED
    ]
    for name, threshold in thresholds.items():
        try:
            shortfalls.levels(name, threshold)
        except shortfalls.ThresholdError as exc:
            found.append(f"validate_thresholds: {exc}")
    for name, part in relative.items():
        if name not in GROUPS or isinstance(part, bool) or not isinstance(part, (int, float)):
            found.append(f"validate_relative: found {name}: {part!r}; allowed: numbers for {', '.join(GROUPS)}")
    return found


def refuse_wrong(settings: Settings) -> None:
    """Refuse wrong settings before any measurement."""
    found = problems(settings["thresholds"], settings["relative"])
    if found:
        raise SettingsError("; ".join(found))
    if one_record(settings):
        record(settings, [])
    for fault in records.problems_of_groups(settings["hardware"]):
        raise SettingsError(f"validate_hardware: {fault}")


def one_record(settings: Settings) -> bool:
    """Return whether one hardware record is set, which then applies to all nodes."""
    return isinstance(settings["hardware"], Mapping)


def kinds(settings: Settings, nodes: t.Collection[str]) -> list[tuple[list[str], Record]]:
    """Return the nodes in groups of identical hardware, each with its record from the inventory."""
    if one_record(settings):
        return []
    groups = [(hostlist.expand(kind["hosts"]), kind["record"]) for kind in settings["hardware"] if kind["hosts"]]
    found = [([name for name in names if name in nodes], record) for names, record in groups]
    return [(names, record) for names, record in found if names]


def record(settings: Settings, nodes: t.Collection[str]) -> Record:
    """Return the hardware record with the limits of the nodes; empty if none is known."""
    if one_record(settings):
        try:
            return records.needed(settings["hardware"], "validate_hardware")
        except records.CatalogueError as exc:
            raise SettingsError(str(exc)) from exc
    return next((found for _names, found in kinds(settings, nodes)), {})


def limits(settings: Settings, found: Record) -> dict[str, t.Any]:
    """Return the thresholds by figure: the given ones, or else those of the hardware record."""
    recorded = found.get("thresholds") or {}
    return {name: settings["thresholds"].get(name, recorded.get(metric, {})) for name, metric in RECORDED.items()}


def limits_from(settings: Settings, found: Record) -> dict[str, str]:
    """Return the source of the thresholds of each kind of group, for the report."""
    source = f"hardware record {found.get('name') or ''}".rstrip()
    given = settings["thresholds"]
    return {kind: "validate_thresholds" if kind in given else source for kind in GROUPS}
