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
    Gpu,
    ParseError,
    Report,
    application_state,
    best_clocks,
    split_notes,
)

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
    attached = values.integer(log.findtext("attached_gpus"))
    elements = log.findall("gpu")
    return Report(
        driver_version=values.version(log.findtext("kmd_version")) or values.version(log.findtext("driver_version")),
        cuda_version=values.version(log.findtext("cuda_version")) or values.version(log.findtext("cuda_umd_version")),
        attached=attached,
        # The document contains no index. The position equals the index only if every GPU is present.
        gpus=[_gpu(item, place if len(elements) == attached else None) for place, item in enumerate(elements)],
        lost=lost,
        notes=notes,
        source="xml",
    )


def _tree(document: str) -> ElementTree.Element:
    from xml.etree import ElementTree  # imported here because it costs start time

    # The prolog with its reference to a DTD was removed, and a DTD inside the root element is invalid XML.
    try:
        return ElementTree.fromstring(_NOT_XML.sub("?", document))  # noqa: S314
    except (ElementTree.ParseError, ValueError) as exc:
        raise ParseError(f"nvidia-smi -q -x printed a malformed document: {exc}") from exc


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


def _gpu(item: ElementTree.Element, index: int | None) -> Gpu:
    supported = _supported(item)
    return {
        "index": index,
        **_identity(item),
        "persistence": values.flag(item.findtext("persistence_mode")),
        "mig": _mig(item),
        "memory_mib": _numbers(item, "fb_memory_usage", {part: part for part in ("total", "used", "free", "reserved")}),
        "clocks_mhz": _clocks(item),
        "application_clocks": application_state(
            item.findtext("applications_clocks/graphics_clock"),
            values.integer(item.findtext("applications_clocks/graphics_clock")),
        ),
        "best_clocks_mhz": best_clocks(supported),
        "supported_clocks_mhz": supported,
        "power_w": _power(item),
        "temperature_c": _numbers(item, "temperature", {"gpu": "gpu_temp", "memory": "memory_temp"}),
        "utilization_percent": _numbers(item, "utilization", {"gpu": "gpu_util", "memory": "memory_util"}),
        "ecc": _ecc(item),
        "remapped_rows": _remapped(item),
        "retired_pages": _retired(item),
        "throttle_reasons": _reasons(item),
        "performance_state": values.word(item.findtext("performance_state")),
        "compute_mode": values.word(item.findtext("compute_mode")),
        "fabric": {
            "state": values.word(item.findtext("fabric/state")),
            "status": values.word(item.findtext("fabric/status")),
        },
        "pcie": {
            "generation": values.integer(item.findtext("pci/pci_gpu_link_info/pcie_gen/current_link_gen")),
            "generation_max": values.integer(item.findtext("pci/pci_gpu_link_info/pcie_gen/max_link_gen")),
            "width": values.integer(item.findtext("pci/pci_gpu_link_info/link_widths/current_link_width")),
            "width_max": values.integer(item.findtext("pci/pci_gpu_link_info/link_widths/max_link_width")),
        },
        "faults": _faults(item),
    }


def _identity(item: ElementTree.Element) -> Gpu:
    return {
        "uuid": values.word(item.findtext("uuid")),
        "pci_bus_id": values.bus_id(item.findtext("pci/pci_bus_id")) or values.bus_id(item.get("id")),
        "name": values.word(item.findtext("product_name")),
        "architecture": values.word(item.findtext("product_architecture")),
        "serial": values.word(item.findtext("serial")),
        "vbios_version": values.word(item.findtext("vbios_version")),
        "minor_number": values.integer(item.findtext("minor_number")),
    }


def _numbers(item: ElementTree.Element, block: str, names: dict[str, str]) -> dict[str, int | None]:
    return {key: values.integer(item.findtext(f"{block}/{tag}")) for key, tag in names.items()}


def _mig(item: ElementTree.Element) -> dict[str, t.Any]:
    return {
        "current": values.flag(item.findtext("mig_mode/current_mig")),
        "pending": values.flag(item.findtext("mig_mode/pending_mig")),
        "devices": [
            {
                "index": values.integer(device.findtext("index")),
                "gpu_instance": values.integer(device.findtext("gpu_instance_id")),
                "compute_instance": values.integer(device.findtext("compute_instance_id")),
                "memory_total_mib": values.integer(device.findtext("fb_memory_usage/total")),
            }
            for device in item.findall("mig_devices/mig_device")
        ],
    }


def _clocks(item: ElementTree.Element) -> dict[str, dict[str, int | None]]:
    names = {"memory": "mem_clock", "graphics": "graphics_clock"}
    return {
        "current": _numbers(item, "clocks", {**names, "sm": "sm_clock"}),
        "application": _numbers(item, "applications_clocks", names),
        "default_application": _numbers(item, "default_applications_clocks", names),
        "max": _numbers(item, "max_clocks", {**names, "sm": "sm_clock"}),
    }


def _supported(item: ElementTree.Element) -> dict[int, list[int]]:
    supported: dict[int, list[int]] = {}
    for block in item.findall("supported_clocks/supported_mem_clock"):
        memory = values.integer(block.findtext("value"))
        steps = [values.integer(step.text) for step in block.findall("supported_graphics_clock")]
        if memory is not None:
            supported[memory] = sorted((step for step in steps if step is not None), reverse=True)
    return supported


# Names of the limits: driver 535 renamed them, newer drivers nest them deeper.
_LIMITS = {
    "draw": ("power_draw", "average_power_draw", "instant_power_draw"),
    "limit": ("requested_power_limit", "power_limit"),
    "enforced_limit": ("enforced_power_limit", "current_power_limit"),
    "default_limit": ("default_power_limit",),
    "min_limit": ("min_power_limit",),
    "max_limit": ("max_power_limit",),
}


def _power(item: ElementTree.Element) -> dict[str, float | None]:
    block = item.find("gpu_power_readings")
    if block is None:
        block = item.find("power_readings")
    return {key: _first_number(block, names) for key, names in _LIMITS.items()}


def _first_number(block: ElementTree.Element | None, names: tuple[str, ...]) -> float | None:
    found = (values.number(element.text) for name in names for element in ([] if block is None else block.iter(name)))
    return next((value for value in found if value is not None), None)


def _ecc(item: ElementTree.Element) -> dict[str, t.Any]:
    return {
        "current": values.flag(item.findtext("ecc_mode/current_ecc")),
        "pending": values.flag(item.findtext("ecc_mode/pending_ecc")),
        **{
            f"{since}_{kind}": _ecc_sum(item.find(f"ecc_errors/{since}"), kind)
            for since in ("volatile", "aggregate")
            for kind in ("corrected", "uncorrected")
        },
    }


def _ecc_sum(block: ElementTree.Element | None, kind: str) -> int | None:
    """Return the sum of the counters of one kind. GPUs before Volta report a total for each bit width."""
    if block is None:
        return None
    marks = {"corrected": ("_correctable",), "uncorrected": ("_uncorrectable",)}[kind]
    old = block.find({"corrected": "single_bit", "uncorrected": "double_bit"}[kind] + "/total")
    cells = [old.text] if old is not None else [cell.text for cell in block if any(m in str(cell.tag) for m in marks)]
    counts = [count for count in map(values.integer, cells) if count is not None]
    return sum(counts) if counts else None


def _remapped(item: ElementTree.Element) -> dict[str, t.Any]:
    return {
        "correctable": values.integer(item.findtext("remapped_rows/remapped_row_corr")),
        "uncorrectable": values.integer(item.findtext("remapped_rows/remapped_row_unc")),
        "pending": values.flag(item.findtext("remapped_rows/remapped_row_pending")),
        "failure": values.flag(item.findtext("remapped_rows/remapped_row_failure")),
    }


def _retired(item: ElementTree.Element) -> dict[str, t.Any]:
    return {
        "single_bit": values.integer(item.findtext("retired_pages/multiple_single_bit_retirement/retired_count")),
        "double_bit": values.integer(item.findtext("retired_pages/double_bit_retirement/retired_count")),
        "pending": values.flag(
            item.findtext("retired_pages/pending_blacklist") or item.findtext("retired_pages/pending_retirement")
        ),
    }


def _reasons(item: ElementTree.Element) -> list[str]:
    block = item.find("clocks_event_reasons")
    if block is None:
        block = item.find("clocks_throttle_reasons")
    active = [] if block is None else [str(cell.tag) for cell in block if values.flag(cell.text)]
    return [re.sub(r"^clocks_(event|throttle)_reason_", "", tag) for tag in active]


def _faults(item: ElementTree.Element) -> list[str]:
    return sorted({text for text in (values.fault(element.text) for element in item.iter()) if text})
