# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Write the hardware of nodes for slurm.conf and gres.conf from records of the catalogue."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record as hardware_record
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

if t.TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Record = dict[str, t.Any]

_SOURCE = "a hardware record"


def node_lines(nodes: Iterable[Mapping[str, t.Any]], headroom: t.Any = 5) -> list[dict[str, t.Any]]:
    """Return one NodeName line for each group of identical machines; settings of the inventory take precedence."""
    return [
        {
            "NodeName": group["hosts"],
            **node_hardware(group["record"], headroom),
            "State": "UNKNOWN",
            **group.get("config", {}),
        }
        for group in nodes
    ]


def gres_conf(nodes: Iterable[Mapping[str, t.Any]]) -> str:
    """Return gres.conf; automatic detection is off, so that Slurm notices when a node loses a GPU."""
    lines = ["AutoDetect=off"]
    for group in nodes:
        if group["record"]["gpus"]["count"]:
            lines += gres_lines(group["record"], group["hosts"])
    return "".join(f"{line}\n" for line in lines)


def node_hardware(record: t.Any, headroom: t.Any = 5) -> dict[str, t.Any]:
    """Return sockets, cores, threads, memory and GRES in the order of a NodeName line."""
    offered = 1 - _percent(headroom) / 100
    record = records.checked(record, _SOURCE)
    sockets = hardware_record.slurm_sockets(record)
    line: dict[str, t.Any] = {
        "Sockets": sockets,
        "CoresPerSocket": hardware_record.core_count(record) // sockets,
        "ThreadsPerCore": record["cpus"]["threads_per_core"],
        "RealMemory": int(record["memory_mib"] * offered),
    }
    if record["gpus"]["count"]:
        line["Gres"] = ",".join(f"gpu:{kind}:{count}" for kind, count in hardware_record.gres_counts(record).items())
    return line


def gres_lines(record: t.Any, nodes: str | None = None) -> list[str]:
    """Return the lines of gres.conf for the GPUs of a machine."""
    record = records.checked(record, _SOURCE)
    if not record["gpus"]["count"]:
        return []
    head = f"NodeName={nodes} " if nodes else ""
    if record["gpus"].get("mig"):
        # The device files of slices follow from how the site made them, so slurmd finds them.
        return [f"{head}AutoDetect=nvml"]
    head += f"Name=gpu Type={hardware_record.gres_type(record)}"
    first = record["gpus"].get("first_device") or 0
    return [f"{head} File=/dev/nvidia{_indexes([first + gpu for gpu in gpus])}{cores}" for gpus, cores in _runs(record)]


def _percent(value: t.Any) -> float:
    try:
        percent = float(value)
    except (TypeError, ValueError):
        percent = -1.0
    if not 0 <= percent < 100:
        raise records.CatalogueError(
            f"{_SOURCE}: memory_headroom_percent is {value!r}, it must be a number, at least 0 and below 100"
        )
    return percent


def _runs(record: Record) -> list[tuple[list[int], str]]:
    """Return runs of adjacent GPUs with the same cores."""
    if not record["topology"]:
        return [(list(range(record["gpus"]["count"])), "")]
    runs: list[tuple[list[int], str]] = []
    for gpu in sorted(record["topology"], key=lambda gpu: int(gpu["index"])):
        cores = f" Cores={hardware_record.ranges(hardware_record.gpu_cores(record, gpu))}"
        if runs and runs[-1][1] == cores:
            runs[-1][0].append(gpu["index"])
        else:
            runs.append(([gpu["index"]], cores))
    return runs


def _indexes(gpus: list[int]) -> str:
    return str(gpus[0]) if len(gpus) == 1 else f"[{gpus[0]}-{gpus[-1]}]"
