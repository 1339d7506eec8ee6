# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Parse the output of nvidia-smi topo -m: links between GPUs and adapters, and the local CPUs of each GPU.

The tool writes ANSI codes even into a pipe. Tabs separate the cells, but pasted copies have spaces, and a wide table
may lose the tab between two cells. The columns after the links depend on the driver version, and rows of adapters are
shorter.
"""

from __future__ import annotations

import re
import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import ParseError

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_LINK = re.compile(r"\s*(NV[0-9]+(?=\s|$|NV|PIX|PXB|PHB|NODE|SYS|SOC|X)|PIX|PXB|PHB|NODE|SYS|SOC|X)")
_LEGEND = re.compile(r"\s*(NIC[0-9]+): (\S+)\s*")
_SET = re.compile(r"[0-9]{1,4}(?:-[0-9]{1,4})?(?:,[0-9]{1,4}(?:-[0-9]{1,4})?)*")
_SETS = ("cpus", "numa_nodes", "gpu_numa_node")
_TAIL = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")

Topology = t.Dict[str, t.List[t.Dict[str, t.Any]]]  # noqa: UP006 - evaluated at run time, also on Python 3.9


def parse(text: str) -> Topology:
    """Return the GPUs and adapters of the table, with CPUs and NUMA nodes as the tool writes them."""
    lines = _ANSI.sub("", text).splitlines()
    odd = next((line for line in lines if not values.is_clean(line.replace("\t", ""))), None)
    if odd is not None:
        raise ParseError(f"nvidia-smi topo -m printed {odd.strip()[:120]!r}")
    place, names, columns = _header(lines)
    _refuse_lost(lines[place + 1 :], names, columns)
    devices = {match.group(1): match.group(2) for match in map(_LEGEND.fullmatch, lines) if match}
    found = [row for row in (_row(line, names, columns) for line in lines[place + 1 :]) if row]
    for row in found:
        odd = next((row[key] for key in _SETS if row[key] and not _is_set(row[key])), None)
        if odd:
            raise ParseError(f"the table of nvidia-smi topo -m has {odd[:60]!r} in place of CPUs or a NUMA node")
    return {
        "gpus": [{"index": int(row["name"][3:]), **row} for row in found if _is_gpu(row["name"])],
        "nics": [
            {"name": row["name"], "device": devices.get(row["name"], row["name"]), "links": row["links"]}
            for row in found
            if not _is_gpu(row["name"])
        ],
    }


def _refuse_lost(lines: list[str], names: list[str], columns: list[str]) -> None:
    """Refuse a table whose rows do not match its header: an unreadable row must not hide a GPU."""
    found = [row["name"] for row in (_row(line, names, columns) for line in lines) if row]
    rows = [line.split(None, 1)[0] for line in lines if _is_row(line)]
    for fault, odd in (
        ("has no readable row of", [name for name in names if name not in found]),
        ("has two rows of", [name for name in names if found.count(name) > 1]),
        ("has no column of", [name for name in rows if name not in names]),
    ):
        if odd:
            raise ParseError(f"the table of nvidia-smi topo -m {fault} {', '.join(dict.fromkeys(odd))}")


def _header(lines: list[str]) -> tuple[int, list[str], list[str]]:
    for place, line in enumerate(lines):
        before, mark, _after = line.partition(_TAIL[0])
        if mark and "GPU" in before:
            return place, before.split(), [column for column in _TAIL if column in line]
    said = next((line.strip() for line in lines if line.strip()), "")
    raise ParseError(f"nvidia-smi topo -m printed no table: {said[:200]!r}")


def _row(line: str, names: list[str], columns: list[str]) -> dict[str, t.Any] | None:
    """Return one row, or None for any other line. Read the links word by word, with or without tabs."""
    words = line.split(None, 1)
    if len(words) < 2 or words[0] not in names or line[:1].isspace():
        return None
    rest, links = words[1], {}
    for name in names:
        match = _LINK.match(rest)
        if not match:
            return None
        rest = rest[match.end() :]
        links[name] = match.group(1)
    tail = _tail(rest, columns)
    others = {name: link for name, link in links.items() if link != "X"}
    return {
        "name": words[0],
        "links": others,
        "cpus": tail.get("CPU Affinity"),
        "numa_nodes": tail.get("NUMA Affinity"),
        "gpu_numa_node": tail.get("GPU NUMA ID"),
    }


def _tail(rest: str, columns: list[str]) -> dict[str, str | None]:
    """Return the columns after the links: by position between tabs, in order between spaces."""
    cells = [cell.strip() for cell in rest.split("\t")[1:]] if "\t" in rest else rest.split()
    if "\t" in rest and len(cells) > 2:
        cells = [*cells[:2], *[cell for cell in cells[2:] if cell]]  # an empty field precedes the last column
    return {column: values.word(cell) for column, cell in zip(columns, cells)}


def _is_set(text: str) -> bool:
    """Return whether a text is a list of ascending numbers and ranges, as the kernel writes it."""
    ends = [int(number) for number in re.split("[-,]", text)] if _SET.fullmatch(text) else []
    return bool(ends) and all(one < other for one, other in zip(ends, ends[1:]))


def _is_row(line: str) -> bool:
    return re.match(r"(GPU|NIC)[0-9]", line) is not None


def _is_gpu(name: str) -> bool:
    return re.fullmatch(r"GPU[0-9]{1,4}", name) is not None
