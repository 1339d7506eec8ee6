# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The hardware records that public sources call for, made from a table of what each source says."""

from __future__ import annotations

import typing as t
from pathlib import Path

from ansible.module_utils.common.yaml import yaml_load

Record = dict[str, t.Any]

PATH = Path(__file__).parents[1] / "fixtures/hardware/sources.yml"
SIZES: dict[str, Record] = yaml_load(PATH.read_text(encoding="utf-8"))
_METRICS = {
    "copy": ("host_to_device_gbps", "device_to_host_gbps"),
    "busbw": ("nccl_allreduce_busbw_gbps",),
    "multinode": ("nccl_allreduce_multinode_busbw_gbps",),
    "ib": ("ib_write_bw_gbitps",),
}


def differences(record: Record) -> dict[str, tuple[t.Any, t.Any]]:
    """Return by path what a record says and what its sources say, where both differ; None is nothing."""
    wanted = dict(_leaves(called_for(SIZES[record["name"]]), ""))
    found = {
        path: value
        for path, value in _leaves(record, "")
        if not path.startswith((".name", ".environment.", ".nccl.environment", ".nccl.max_message_gib"))
    }
    both = {path: (found.get(path), wanted.get(path)) for path in sorted({*wanted, *found})}
    return {path: (one, other) for path, (one, other) in both.items() if one != other}


def called_for(size: Record) -> Record:
    """Return the record that the sources of a size call for."""
    record: Record = {
        "cpus": {
            **dict(zip(("sockets", "cores_per_socket", "threads_per_core", "vendor", "family", "model"), size["cpus"])),
            "architecture": size.get("architecture", "x86_64"),
            "numbering": "block",
        },
        "numa_nodes": size["numa_nodes"],
        "memory_mib": size["memory"].get("mb") or round(size["memory"]["kb"] / 1024),
        "memory_tolerance_percent": size["memory"].get("tolerance", 3),
        "gpus": _gpus(*size["gpus"]),
        "nvme": {"count": size.get("nvme", 0)},
        "infiniband": {"rate_gbps": 0, "hcas": []},
        "topology": _topology(size),
        "nccl": {"topology_file": size.get("topology_file", False)},
        "thresholds": _thresholds(size),
    }
    if "fabric" in size:
        record["infiniband"] = {"rate_gbps": size["fabric"][0], "hcas": size["fabric"][1].split()}
    if "accelerated" in size:
        record["accelerated_network"] = {"device": "mlx5_an0", "rate_gbps": size["accelerated"]}
    if "family" in size:
        record["nccl"]["family"] = size["family"]
    return record


def _gpus(
    model: str, count: int, memory: int, memory_clock: int | None, clock: int | None, generation: int | None, links: int
) -> Record:
    """Return the GPUs without what no source says."""
    return {
        "model": model,
        "count": count,
        "memory_mib": memory,
        **({"clocks": {"memory": memory_clock, "graphics": clock}} if clock else {}),
        **({"pcie_generation": generation} if generation else {}),
        "pcie_width": 16,
        **({"nvlinks": links} if links else {}),
        **({"nvlink_domain": 72} if model.startswith("GB") else {}),
    }


def _address(bus: str) -> str:
    return f"{bus}:00.0" if ":" in bus else f"{bus}:00:00.0"


def _topology(size: Record) -> list[Record]:
    """Return the GPUs in the order of their buses; adapters have their names in that order, too."""
    rows = [(node, gpus.split(), hcas.split()) for node, gpus, hcas in size.get("rows", [])]
    names = dict(
        zip(sorted(hca for _node, _gpus, hcas in rows for hca in hcas), size.get("fabric", [0, ""])[1].split())
    )
    found: list[Record] = []
    for node, gpus, hcas in rows:
        for position, gpu in enumerate(gpus):
            entry: Record = {"numa_node": node}
            if gpu != "?":
                entry["pci"] = _address(gpu)
            if position < len(hcas):
                entry.update(hca=names[hcas[position]], hca_pci=_address(hcas[position]))
            if "gpus_per_bridge" in size:
                entry["bridge"] = len(found) // size["gpus_per_bridge"] + 1
            found.append(entry)
    found.sort(key=lambda entry: str(entry.get("pci")))
    return [{"index": index, **entry} for index, entry in enumerate(found)]


def _thresholds(size: Record) -> Record:
    """Return the lower of two figures as fail, the higher as warn, and what else is known."""
    found: Record = {}
    for short, metrics in _METRICS.items():
        figures = [size[source][short] for source in ("conf", "nhc") if short in size.get(source, {})]
        levels = {"fail": min(figures), "warn": max(figures)} if figures else {}
        if len(set(figures)) == 1:
            del levels["warn"]
        levels.update(size.get("measured", {}).get(short, {}))
        found.update({metric: levels for metric in metrics if levels})
    return found


def _leaves(value: t.Any, path: str) -> t.Iterator[tuple[str, t.Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}.{number}")
    elif value not in ({}, []):
        yield path, value
