# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Parse the output of nvidia-smi -q -x of the drivers 450 to 610."""

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

if t.TYPE_CHECKING:
    from xml.etree import ElementTree

_START, _END = "<nvidia_smi_log", "</nvidia_smi_log>"
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse(text: str) -> Report:
    """Return the content of the document. Warnings before and after it become notes."""
    start, end = text.find(_START), text.rfind(_END)
    if start < 0 or end < start:
        raise ParseError(f"nvidia-smi -q -x printed no complete document: {_first_line(text)!r}")
    log = _tree(text[start : end + len(_END)])
    around = [*text[:start].splitlines(), *text[end + len(_END) :].splitlines()]
    lost, notes = split_notes(line for line in around if not line.strip().startswith(("<?xml", "<!DOCTYPE")))
    machine = Cells(log.findtext)
    attached = machine.integer("attached_gpus")
    elements = log.findall("gpu")
    # The document contains no index. The position equals the index only if every GPU is present.
    complete = len(elements) == attached
    every = [Cells(_once(item)) for item in elements]
    gpus = [_gpu(item, every[place], place if complete else None) for place, item in enumerate(elements)]
    for key in ("uuid", "pci_bus_id"):
        seen = [gpu[key] for gpu in gpus if gpu[key]]
        if len(set(seen)) < len(seen):
            raise ParseError(f"nvidia-smi -q -x has one GPU twice: {words.listed(seen, 8)}")
    driver = machine.read("kmd_version", values.version) or machine.read("driver_version", values.version)
    cuda = machine.read("cuda_version", values.version) or machine.read("cuda_umd_version", values.version)
    return Report(
        driver_version=driver,
        cuda_version=cuda,
        attached=attached,
        gpus=gpus,
        lost=lost,
        notes=[*notes, *machine.odd, *odd_notes(zip(gpus, every))],
    )


def _once(item: ElementTree.Element) -> t.Callable[[str], str | None]:
    """Return a function that returns the text of an element. Texts of a doubled element are joined, to be no value."""

    def text(path: str) -> str | None:
        found = [cell.text or "" for cell in item.findall(path)]
        return values.REPLACEMENT.join(found) if found else None

    return text


def _tree(document: str) -> ElementTree.Element:
    from xml.etree import ElementTree  # imported here because it costs start time

    # The prolog with its reference to a DTD was removed, and a DTD inside the root element is invalid XML.
    try:
        return ElementTree.fromstring(_NOT_XML.sub(values.REPLACEMENT, document))  # noqa: S314
    except (ElementTree.ParseError, ValueError) as exc:
        raise ParseError(f"nvidia-smi -q -x printed a malformed document: {exc}") from exc


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


def _gpu(item: ElementTree.Element, cells: Cells, index: int | None) -> Gpu:
    supported, clocks = _supported(item, cells), _clocks(cells)
    return {
        "index": index,
        **_identity(item, cells),
        "persistence": cells.flag("persistence_mode"),
        "mig": _mig(item, cells),
        "memory_mib": _numbers(
            cells, "fb_memory_usage", {part: part for part in ("total", "used", "free", "reserved")}, "MiB"
        ),
        "clocks_mhz": clocks,
        "application_clocks": application_state(
            item.findtext("applications_clocks/graphics_clock"),
            clocks["application"]["graphics"],
        ),
        "best_clocks_mhz": best_clocks(supported),
        "supported_clocks_mhz": supported,
        "power_w": _power(item, cells),
        "temperature_c": _numbers(cells, "temperature", {"gpu": "gpu_temp", "memory": "memory_temp"}, "C"),
        "utilization_percent": _numbers(cells, "utilization", {"gpu": "gpu_util", "memory": "memory_util"}, "%"),
        "ecc": _ecc(item, cells),
        "remapped_rows": _remapped(cells),
        "retired_pages": _retired(cells),
        "throttle_reasons": _reasons(item, cells),
        "performance_state": cells.read("performance_state", values.performance_state),
        "compute_mode": cells.word("compute_mode"),
        "fabric": {
            "state": cells.word("fabric/state"),
            "status": cells.word("fabric/status"),
        },
        "pcie": {
            "generation": cells.integer("pci/pci_gpu_link_info/pcie_gen/current_link_gen", "x"),
            "generation_max": cells.integer("pci/pci_gpu_link_info/pcie_gen/max_link_gen", "x"),
            "width": cells.integer("pci/pci_gpu_link_info/link_widths/current_link_width", "x"),
            "width_max": cells.integer("pci/pci_gpu_link_info/link_widths/max_link_width", "x"),
        },
        "faults": _faults(item),
    }


def _identity(item: ElementTree.Element, cells: Cells) -> Gpu:
    return {
        "uuid": cells.read("uuid", values.uuid),
        "pci_bus_id": cells.read("pci/pci_bus_id", values.bus_id) or values.bus_id(item.get("id")),
        "name": cells.word("product_name"),
        "architecture": cells.word("product_architecture"),
        "serial": cells.word("serial"),
        "vbios_version": cells.read("vbios_version", values.vbios),
        "minor_number": cells.integer("minor_number"),
    }


def _numbers(cells: Cells, block: str, names: dict[str, str], unit: str) -> dict[str, int | None]:
    return {key: cells.integer(f"{block}/{tag}", unit) for key, tag in names.items()}


def _mig(item: ElementTree.Element, cells: Cells) -> dict[str, t.Any]:
    return {
        "current": cells.flag("mig_mode/current_mig"),
        "pending": cells.flag("mig_mode/pending_mig"),
        "devices": [
            {
                "index": cells.integer(f"{device}/index"),
                "gpu_instance": cells.integer(f"{device}/gpu_instance_id"),
                "compute_instance": cells.integer(f"{device}/compute_instance_id"),
                "memory_total_mib": cells.integer(f"{device}/fb_memory_usage/total", "MiB"),
            }
            for device in (
                f"mig_devices/mig_device[{place}]"
                for place in range(1, len(item.findall("mig_devices/mig_device")) + 1)
            )
        ],
    }


def _clocks(cells: Cells) -> dict[str, dict[str, int | None]]:
    names = {"memory": "mem_clock", "graphics": "graphics_clock"}
    return {
        "current": _numbers(cells, "clocks", {**names, "sm": "sm_clock"}, "MHz"),
        "application": _numbers(cells, "applications_clocks", names, "MHz"),
        "default_application": _numbers(cells, "default_applications_clocks", names, "MHz"),
        "max": _numbers(cells, "max_clocks", {**names, "sm": "sm_clock"}, "MHz"),
    }


def _supported(item: ElementTree.Element, cells: Cells) -> dict[int, list[int]]:
    """Return graphics clocks by memory clock; none if one cannot be read, because the best one may then be another."""
    supported: dict[int, list[int]] = {}
    sick = 0

    def clock(text: str | None) -> int | None:
        nonlocal sick
        known = cells.known("supported_clocks", text, lambda value: values.integer(value, "MHz"))
        sick += known is None and not values.is_absent(text)
        return known

    for block in item.findall("supported_clocks/supported_mem_clock"):
        memory = clock(block.findtext("value") or "")
        steps = {clock(step.text or "") for step in block.findall("supported_graphics_clock")}
        if memory is not None:
            supported[memory] = sorted((step for step in steps if step is not None), reverse=True)
    return {} if sick else supported


# Names of the limits: driver 535 renamed them, newer drivers nest them deeper.
_LIMITS = {
    "draw": ("power_draw", "average_power_draw", "instant_power_draw"),
    "limit": ("requested_power_limit", "power_limit"),
    "enforced_limit": ("enforced_power_limit", "current_power_limit"),
    "default_limit": ("default_power_limit",),
    "min_limit": ("min_power_limit",),
    "max_limit": ("max_power_limit",),
}


def _power(item: ElementTree.Element, cells: Cells) -> dict[str, float | None]:
    block = item.find("gpu_power_readings")
    if block is None:
        block = item.find("power_readings")
    return {key: _first_number(block, names, cells) for key, names in _LIMITS.items()}


def _first_number(block: ElementTree.Element | None, names: tuple[str, ...], cells: Cells) -> float | None:
    """Return the first number that the driver has."""
    found = ((name, cell.text or "") for name in names for cell in ([] if block is None else block.iter(name)))
    name, text = next(((name, text) for name, text in found if not values.is_missing(text)), ("", None))
    return cells.known(name, text, lambda text: values.number(text, "W"))


def _ecc(item: ElementTree.Element, cells: Cells) -> dict[str, t.Any]:
    return {
        "current": cells.flag("ecc_mode/current_ecc"),
        "pending": cells.flag("ecc_mode/pending_ecc"),
        **{
            f"{since}_{kind}": _ecc_sum(item.find(f"ecc_errors/{since}"), kind, cells)
            for since in ("volatile", "aggregate")
            for kind in ("corrected", "uncorrected")
        },
    }


def _ecc_sum(block: ElementTree.Element | None, kind: str, cells: Cells) -> int | None:
    """
    Return the sum of the counters of one kind; nothing if one cannot be read or is there twice.

    GPUs before Volta report a total for each bit width.
    """
    if block is None:
        return None
    marks = {"corrected": ("_correctable",), "uncorrected": ("_uncorrectable",)}[kind]
    old = block.find({"corrected": "single_bit", "uncorrected": "double_bit"}[kind] + "/total")
    found = [old] if old is not None else [cell for cell in block if any(mark in str(cell.tag) for mark in marks)]
    present = [cell for cell in found if not values.is_absent(cell.text or "")]
    if len({cell.tag for cell in found}) < len(found):
        cells.odd.append(f"a counter of {block.tag} is there twice")
        return None
    counts = [cells.known(str(cell.tag), cell.text or "", values.integer) for cell in present]
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None


def _remapped(cells: Cells) -> dict[str, t.Any]:
    return {
        "correctable": cells.integer("remapped_rows/remapped_row_corr"),
        "uncorrectable": cells.integer("remapped_rows/remapped_row_unc"),
        "pending": cells.flag("remapped_rows/remapped_row_pending"),
        "failure": cells.flag("remapped_rows/remapped_row_failure"),
    }


def _retired(cells: Cells) -> dict[str, t.Any]:
    return {
        "single_bit": cells.integer("retired_pages/multiple_single_bit_retirement/retired_count"),
        "double_bit": cells.integer("retired_pages/double_bit_retirement/retired_count"),
        "pending": cells.flag(
            "retired_pages/pending_blacklist"
            if cells.text("retired_pages/pending_blacklist") is not None
            else "retired_pages/pending_retirement"
        ),
    }


def _reasons(item: ElementTree.Element, cells: Cells) -> list[str]:
    block = item.find("clocks_event_reasons")
    if block is None:
        block = item.find("clocks_throttle_reasons")
    found = [] if block is None else [(str(cell.tag), cell.text or "") for cell in block if not len(cell)]
    active = [tag for tag, text in found if cells.known(tag, text, values.flag)]
    return [re.sub(r"^clocks_(event|throttle)_reason_", "", tag) for tag in dict.fromkeys(active)]


def _faults(item: ElementTree.Element) -> list[str]:
    return sorted({text for text in (values.fault(element.text) for element in item.iter()) if text})
