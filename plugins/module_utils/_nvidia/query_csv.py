# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Parse the CSV output of nvidia-smi: --query-gpu and --query-supported-clocks.

The header cannot be used: it contains canonical names, not the requested ones. Cells are matched by position.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import (
    Gpu,
    ParseError,
    Report,
    application_state,
    best_clocks,
    split_notes,
)

# Every driver from 450 to 610 knows these fields. One unknown field would fail the whole query.
FIELDS = (
    "index",
    "uuid",
    "pci.bus_id",
    "name",
    "serial",
    "driver_version",
    "vbios_version",
    "persistence_mode",
    "pstate",
    "compute_mode",
    "mig.mode.current",
    "mig.mode.pending",
    "memory.total",
    "memory.used",
    "memory.free",
    "clocks.current.memory",
    "clocks.current.graphics",
    "clocks.current.sm",
    "clocks.applications.memory",
    "clocks.applications.graphics",
    "clocks.default_applications.memory",
    "clocks.default_applications.graphics",
    "clocks.max.memory",
    "clocks.max.graphics",
    "clocks.max.sm",
    "power.draw",
    "power.limit",
    "enforced.power.limit",
    "power.default_limit",
    "power.min_limit",
    "power.max_limit",
    "temperature.gpu",
    "utilization.gpu",
    "ecc.mode.current",
    "ecc.mode.pending",
)
SUPPORTED_FIELDS = ("gpu_uuid", "memory", "graphics")
PROCESS_FIELDS = ("gpu_uuid", "pid", "process_name", "used_memory")
_WARNING = "WARNING:"  # for example about a corrupted infoROM


class Table(t.NamedTuple):
    """The rows of the output by field, and the warnings of the tool."""

    rows: list[dict[str, str]]
    warnings: list[str]


def rows(text: str, width: int) -> tuple[list[list[str]], list[str]]:
    """Return the rows that have one cell per requested field, and all other lines."""
    data, other = [], []
    for line in filter(None, map(str.strip, text.splitlines())):
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) == width:
            data.append(cells)
        else:
            other.append(line)
    return data, other


def table(text: str, fields: t.Sequence[str]) -> Table:
    """Return every row by field. Lost GPUs have no row. Refuse a line that is neither a row nor a warning."""
    data, other = rows(text, len(fields))
    _lost, notes = split_notes(other)
    odd = next((line for line in notes if not line.startswith(_WARNING)), None)
    if odd is not None:
        raise ParseError(f"expected {len(fields)} fields from nvidia-smi, found {odd[:120]!r}")
    return Table([dict(zip(fields, cells)) for cells in data], notes)


def parse_processes(text: str) -> list[dict[str, str]]:
    """Return the processes from a query of PROCESS_FIELDS. The name of a process may contain commas."""
    return [_process(line) for line in text.splitlines() if line.strip()]


def _process(line: str) -> dict[str, str]:
    uuid, pid, rest = [*(cell.strip() for cell in line.split(",", 2)), "", ""][:3]
    name, _comma, memory = rest.rpartition(",")
    if not uuid.startswith(("GPU-", "MIG-")) or not pid.isdigit():
        raise ParseError(f"expected a process from nvidia-smi, found {line[:120]!r}")
    return dict(zip(PROCESS_FIELDS, (uuid, pid, name.strip(), memory.strip())))


def parse_gpus(text: str, supported: dict[str, dict[int, list[int]]]) -> Report:
    """Return the GPUs from a query of FIELDS (csv,noheader,nounits)."""
    data, other = rows(text, len(FIELDS))
    lost, notes = split_notes(other)
    found = [dict(zip(FIELDS, cells)) for cells in data]
    drivers = [version for version in (values.version(row["driver_version"]) for row in found) if version]
    return Report(
        driver_version=drivers[0] if drivers else None,
        cuda_version=None,
        attached=None,
        gpus=[_gpu(row, supported.get(row["uuid"], {})) for row in found],
        lost=lost,
        notes=notes,
        source="csv",
    )


def parse_supported(text: str) -> dict[str, dict[int, list[int]]]:
    """Return graphics clocks by memory clock by GPU UUID from a query of SUPPORTED_FIELDS."""
    supported: dict[str, dict[int, list[int]]] = {}
    data, _other = rows(text, len(SUPPORTED_FIELDS))
    for uuid, memory_text, graphics_text in data:
        memory, graphics = values.integer(memory_text), values.integer(graphics_text)
        if memory is not None and graphics is not None:
            supported.setdefault(uuid, {}).setdefault(memory, []).append(graphics)
    return {
        uuid: {memory: sorted(set(steps), reverse=True) for memory, steps in table.items()}
        for uuid, table in supported.items()
    }


def _gpu(row: dict[str, str], supported: dict[int, list[int]]) -> Gpu:
    graphics = values.integer(row["clocks.applications.graphics"])
    return {
        "index": values.integer(row["index"]),
        "uuid": values.word(row["uuid"]),
        "pci_bus_id": values.bus_id(row["pci.bus_id"]),
        "name": values.word(row["name"]),
        "architecture": None,
        "serial": values.word(row["serial"]),
        "vbios_version": values.word(row["vbios_version"]),
        "minor_number": None,
        "persistence": values.flag(row["persistence_mode"]),
        "mig": {
            "current": values.flag(row["mig.mode.current"]),
            "pending": values.flag(row["mig.mode.pending"]),
            "devices": [],
        },
        "memory_mib": {
            **{part: values.integer(row[f"memory.{part}"]) for part in ("total", "used", "free")},
            "reserved": None,
        },
        "clocks_mhz": _clocks(row),
        "application_clocks": application_state(row["clocks.applications.graphics"], graphics),
        "best_clocks_mhz": best_clocks(supported),
        "supported_clocks_mhz": supported,
        "power_w": _power(row),
        "temperature_c": {"gpu": values.integer(row["temperature.gpu"]), "memory": None},
        "utilization_percent": {"gpu": values.integer(row["utilization.gpu"]), "memory": None},
        **_health(row),
        "performance_state": values.word(row["pstate"]),
        "compute_mode": values.word(row["compute_mode"]),
        "faults": sorted({text for text in map(values.fault, row.values()) if text}),
    }


def _clocks(row: dict[str, str]) -> dict[str, dict[str, int | None]]:
    kinds = {"current": "current", "application": "applications", "default_application": "default_applications"}
    clocks = {
        kind: {part: values.integer(row[f"clocks.{name}.{part}"]) for part in ("memory", "graphics")}
        for kind, name in {**kinds, "max": "max"}.items()
    }
    for kind in ("current", "max"):
        clocks[kind]["sm"] = values.integer(row[f"clocks.{kind}.sm"])
    return clocks


def _power(row: dict[str, str]) -> dict[str, float | None]:
    names = {
        "draw": "power.draw",
        "limit": "power.limit",
        "enforced_limit": "enforced.power.limit",
        "default_limit": "power.default_limit",
        "min_limit": "power.min_limit",
        "max_limit": "power.max_limit",
    }
    return {key: values.number(row[name]) for key, name in names.items()}


def _health(row: dict[str, str]) -> dict[str, t.Any]:
    """Return the blocks that this short query does not read."""
    counters = [f"{since}_{kind}" for since in ("volatile", "aggregate") for kind in ("corrected", "uncorrected")]
    return {
        "ecc": {
            "current": values.flag(row["ecc.mode.current"]),
            "pending": values.flag(row["ecc.mode.pending"]),
            **dict.fromkeys(counters),
        },
        "remapped_rows": dict.fromkeys(("correctable", "uncorrectable", "pending", "failure")),
        "retired_pages": dict.fromkeys(("single_bit", "double_bit", "pending")),
        "throttle_reasons": [],
        "fabric": dict.fromkeys(("state", "status")),
        "pcie": dict.fromkeys(("generation", "generation_max", "width", "width_max")),
    }
