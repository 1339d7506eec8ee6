# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Parse the CSV output of nvidia-smi: --query-gpu, which is faster than the XML and has some fields alone, and processes.

The header cannot be used: it contains canonical names, not the requested ones. Cells are matched by position.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError, split_notes
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system import words

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
