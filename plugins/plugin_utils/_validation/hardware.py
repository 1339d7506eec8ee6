# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Describe the validated hardware, with one line per kind of node."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._slurm import hostlist

Raw = t.Mapping[str, t.Any]


def summary(raw: Raw, meant: t.Sequence[str]) -> list[dict[str, t.Any]]:
    """Return the kinds of the measured (otherwise the chosen) nodes, from the inventory and Slurm."""
    names = list(raw.get("measured") or meant)
    known = {node["name"]: node for node in [*raw["before"], *raw["states"]]}
    records = {
        name: kind["record"]
        for kind in raw.get("hardware") or []
        if kind["hosts"]
        for name in hostlist.expand(kind["hosts"])
    }
    kinds: dict[tuple[t.Any, ...], list[str]] = {}
    for name in names:
        kinds.setdefault(_kind(known.get(name) or {}, records.get(name) or {}), []).append(name)
    return [
        {
            "nodes": hostlist.compress(hosts),
            "count": len(hosts),
            "size": size,
            "gpu": gpu,
            "gpus": gpus,
            "cpus": cpus,
        }
        for (size, gpu, gpus, cpus), hosts in kinds.items()
    ]


def _kind(node: Raw, record: Raw) -> tuple[t.Any, ...]:
    """Return VM size, model and number of GPUs, and number of CPUs; the values of Slurm are those that jobs get."""
    gres = next((part for part in str(node.get("gres") or "").split(",") if part.startswith("gpu:")), "")
    typed = gres.split(":")[1] if gres.count(":") > 1 and not gres.split(":")[1].isdigit() else ""
    gpus = record.get("gpus") or {}
    number = node["gpus"] if "gpus" in node else gpus.get("count", 0)
    model = str(gpus.get("model") or typed) if number else ""
    return str(record.get("name") or ""), model, number, node.get("cpus") or None
