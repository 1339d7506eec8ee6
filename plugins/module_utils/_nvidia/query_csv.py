# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Parse the CSV output of nvidia-smi: --query-gpu and --query-supported-clocks.

The header cannot be used: it contains canonical names, not the requested ones. Cells are matched by position.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import (
    Cells,
    Gpu,
    ParseError,
    Report,
    application_state,
    best_clocks,
    odd_notes,
    split_notes,
)
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

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
# The fields that identify a GPU, with their forms: each GPU has its own.
_IDENTITY: dict[str, t.Callable[[str], t.Any]] = {
    "index": re.compile(r"[0-9]{1,4}").fullmatch,
    "uuid": values.uuid,
    "pci.bus_id": values.bus_id,
}
_BLANKS = " \t\r\n"  # not those of other alphabets, which nvidia-smi does not print
_DEVICE = re.compile(r"(?:GPU|MIG)-[0-9A-Za-z/-]+")
_PID = re.compile(r"[0-9]{1,7}")
_WARNING = "WARNING:"  # for example about a corrupted infoROM


class Table(t.NamedTuple):
    """The rows of the output by field, the warnings of the tool, and the GPUs that fell off the bus."""

    rows: list[dict[str, str]]
    warnings: list[str]
    lost: list[dict[str, t.Any]] = []  # noqa: RUF012 - never changed


def rows(text: str, width: int) -> tuple[list[list[str]], list[str]]:
    """Return the rows that have one cell per requested field, and all other lines."""
    data, other = [], []
    for line in filter(None, (line.strip(_BLANKS) for line in text.splitlines())):
        cells = [cell.strip(_BLANKS) for cell in line.split(",")]
        if len(cells) == width:
            data.append(cells)
        else:
            other.append(line)
    return data, other


def table(text: str, fields: t.Sequence[str]) -> Table:
    """
    Return every row by field. Lost GPUs have no row.

    Refuse a line that is neither a row nor a warning, and a row that names no GPU or one that another row names.
    """
    data, other = rows(text, len(fields))
    lost, notes = split_notes(other)
    odd = next((line for line in notes if not line.startswith(_WARNING)), None)
    if odd is not None:
        raise ParseError(f"expected {len(fields)} fields from nvidia-smi, found {odd[:120]!r}")
    found = [dict(zip(fields, cells)) for cells in data]
    for row in found:
        odd = next((f"{name} {cell!r}" for name, cell in row.items() if not _right(name, cell)), None)
        if odd is not None:
            raise ParseError(f"expected a GPU from nvidia-smi, found {odd[:120]}")
    for name in _IDENTITY.keys() & set(fields):
        seen = [row[name] for row in found if not values.is_missing(row[name])]
        if len(set(seen)) < len(seen):
            raise ParseError(f"nvidia-smi names one GPU twice: {words.listed(seen, 8)}")
    indexes = {int(row["index"]) for row in found if row.get("index", "").isdigit()}
    gap = min(set(range(max(indexes, default=0))) - indexes, default=None)
    if gap is not None and len(indexes) == len(found) and not lost:
        raise ParseError(f"nvidia-smi has no row of GPU {gap}")
    if len({tuple(cells) for cells in data}) < len(data):
        raise ParseError(f"nvidia-smi printed a row twice: {', '.join(_twice(data))[:120]!r}")
    return Table(found, notes, lost)


def _right(name: str, cell: str) -> bool:
    """Return whether a cell has only printable characters and, if it identifies a GPU, the form of its field."""
    form = _IDENTITY.get(name.removeprefix("gpu_"))
    sick = values.is_missing(cell) and not any(char.isdigit() for char in cell)
    return values.is_clean(cell) and (form is None or sick or bool(form(cell)))


def _twice(data: list[list[str]]) -> list[str]:
    return next(cells for cells in data if data.count(cells) > 1)


def parse_processes(text: str) -> list[dict[str, str]]:
    """Return the processes from a query of PROCESS_FIELDS. The name of a process may contain commas."""
    return [_process(line) for line in text.splitlines() if line.strip()]


def _process(line: str) -> dict[str, str]:
    uuid, pid, rest = [*(cell.strip() for cell in line.split(",", 2)), "", ""][:3]
    name, comma, memory = rest.rpartition(",")
    if not comma or not _DEVICE.fullmatch(uuid) or not _PID.fullmatch(pid):
        raise ParseError(f"expected a process from nvidia-smi, found {line[:120]!r}")
    return dict(zip(PROCESS_FIELDS, (uuid, pid, name.strip(), memory.strip())))


def parse_gpus(text: str, supported: dict[str, dict[int, list[int]]]) -> Report:
    """Return the GPUs from a query of FIELDS (csv,noheader,nounits)."""
    found = table(text, FIELDS)
    gpus = []
    for row in found.rows:
        cells = Cells(row.get)
        gpus.append(
            (_gpu(row, cells, supported.get(row["uuid"], {})), cells, cells.read("driver_version", values.version))
        )
    drivers = {driver for _gpu, _cells, driver in gpus}
    return Report(
        driver_version=drivers.pop() if len(drivers) == 1 else None,
        cuda_version=None,
        attached=None,
        gpus=[gpu for gpu, _cells, _driver in gpus],
        lost=found.lost,
        notes=[*found.warnings, *odd_notes((gpu, cells) for gpu, cells, _driver in gpus)],
        source="csv",
    )


def parse_supported(text: str) -> dict[str, dict[int, list[int]]]:
    """
    Return graphics clocks by memory clock by GPU UUID from a query of SUPPORTED_FIELDS (csv,noheader,nounits).

    Refuse a clock that cannot be read: without it, the best one may be another.
    """
    supported: dict[str, dict[int, list[int]]] = {}
    for row in table(text, SUPPORTED_FIELDS).rows:
        cells = Cells(row.get)
        memory, graphics = cells.integer("memory"), cells.integer("graphics")
        sick = next((cell for cell in row.values() if values.fault(cell)), "")
        if cells.odd or sick:
            raise ParseError(f"the supported clocks of nvidia-smi cannot be read: {next(iter(cells.odd), sick)}")
        if memory is not None and graphics is not None:
            supported.setdefault(row["gpu_uuid"], {}).setdefault(memory, []).append(graphics)
    return {
        uuid: {memory: sorted(set(steps), reverse=True) for memory, steps in table.items()}
        for uuid, table in supported.items()
    }


def _gpu(row: dict[str, str], cells: Cells, supported: dict[int, list[int]]) -> Gpu:
    clocks = _clocks(cells)
    return {
        "index": cells.integer("index"),
        "uuid": cells.read("uuid", values.uuid),
        "pci_bus_id": cells.read("pci.bus_id", values.bus_id),
        "name": cells.word("name"),
        "architecture": None,
        "serial": cells.word("serial"),
        "vbios_version": cells.read("vbios_version", values.vbios),
        "minor_number": None,
        "persistence": cells.flag("persistence_mode"),
        "mig": {
            "current": cells.flag("mig.mode.current"),
            "pending": cells.flag("mig.mode.pending"),
            "devices": [],
        },
        "memory_mib": {
            **{part: cells.integer(f"memory.{part}") for part in ("total", "used", "free")},
            "reserved": None,
        },
        "clocks_mhz": clocks,
        "application_clocks": application_state(row["clocks.applications.graphics"], clocks["application"]["graphics"]),
        "best_clocks_mhz": best_clocks(supported),
        "supported_clocks_mhz": supported,
        "power_w": _power(cells),
        "temperature_c": {"gpu": cells.integer("temperature.gpu"), "memory": None},
        "utilization_percent": {"gpu": cells.integer("utilization.gpu"), "memory": None},
        **_health(cells),
        "performance_state": cells.read("pstate", values.performance_state),
        "compute_mode": cells.word("compute_mode"),
        "faults": sorted({text for text in map(values.fault, row.values()) if text}),
    }


def _clocks(cells: Cells) -> dict[str, dict[str, int | None]]:
    kinds = {"current": "current", "application": "applications", "default_application": "default_applications"}
    clocks = {
        kind: {part: cells.integer(f"clocks.{name}.{part}") for part in ("memory", "graphics")}
        for kind, name in {**kinds, "max": "max"}.items()
    }
    for kind in ("current", "max"):
        clocks[kind]["sm"] = cells.integer(f"clocks.{kind}.sm")
    return clocks


def _power(cells: Cells) -> dict[str, float | None]:
    names = {
        "draw": "power.draw",
        "limit": "power.limit",
        "enforced_limit": "enforced.power.limit",
        "default_limit": "power.default_limit",
        "min_limit": "power.min_limit",
        "max_limit": "power.max_limit",
    }
    return {key: cells.number(name) for key, name in names.items()}


def _health(cells: Cells) -> dict[str, t.Any]:
    """Return the blocks that this short query does not read."""
    counters = [f"{since}_{kind}" for since in ("volatile", "aggregate") for kind in ("corrected", "uncorrected")]
    return {
        "ecc": {
            "current": cells.flag("ecc.mode.current"),
            "pending": cells.flag("ecc.mode.pending"),
            **dict.fromkeys(counters),
        },
        "remapped_rows": dict.fromkeys(("correctable", "uncorrectable", "pending", "failure")),
        "retired_pages": dict.fromkeys(("single_bit", "double_bit", "pending")),
        "throttle_reasons": [],
        "fabric": dict.fromkeys(("state", "status")),
        "pcie": dict.fromkeys(("generation", "generation_max", "width", "width_max")),
    }
