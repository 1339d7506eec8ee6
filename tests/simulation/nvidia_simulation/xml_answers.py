# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers to -q -x, in the shape of each driver generation."""

from __future__ import annotations

import time
import typing as t

from .machine import DEPRECATED, Gpu, Machine, with_unit

REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clocks_setting",
)
Tree: t.TypeAlias = "list[tuple[str, str | Tree]]"


def query_xml(machine: Machine, gpus: list[Gpu]) -> str:
    """Answer -q -x."""
    version = {True: "11", machine.major >= 525: "12", machine.major >= 570: "13"}[True]
    head: Tree = [("timestamp", time.strftime("%a %b %e %H:%M:%S %Y")), ("driver_version", machine.driver)]
    if machine.major >= 595:
        head.append(("kmd_version", machine.driver))
    head += [("cuda_version", "13.0"), ("attached_gpus", str(len(machine.gpus)))]
    body = "".join(f'\t<gpu id="{gpu.bus_id}">\n{xml_text(xml_tree(machine, gpu), 2)}\t</gpu>\n\n' for gpu in gpus)
    return (
        f'<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v{version}.dtd">\n'
        f"<nvidia_smi_log>\n{xml_text(head, 1)}{body}</nvidia_smi_log>\n"
    )


def xml_tree(machine: Machine, gpu: Gpu) -> Tree:
    """Return what -q -x prints for one GPU, as far as the collection and its checks read it."""
    values = {name: with_unit(name, value.strip("[]")) for name, value in gpu.values().items()}
    domain, bus, rest = gpu.bus_id.split(":")
    head: Tree = [("product_name", values["name"]), ("product_brand", "NVIDIA" if machine.major >= 500 else "Tesla")]
    if machine.major >= 510:
        head.append(("product_architecture", machine.model["architecture"]))
    return [
        *head,
        ("persistence_mode", values["persistence_mode"]),
        ("mig_mode", [("current_mig", values["mig.mode.current"]), ("pending_mig", values["mig.mode.pending"])]),
        ("mig_devices", _mig_devices(machine, gpu)),
        ("serial", values["serial"]),
        ("uuid", values["uuid"]),
        ("minor_number", str(gpu.position)),
        ("vbios_version", values["vbios_version"]),
        (
            "pci",
            [
                ("pci_bus", bus),
                ("pci_device", rest.split(".")[0]),
                ("pci_domain", domain[-4:]),
                ("pci_device_id", "233510DE"),
                ("pci_bus_id", values["pci.bus_id"]),
                (
                    "pci_gpu_link_info",
                    [
                        (
                            "pcie_gen",
                            [
                                ("max_link_gen", values["pcie.link.gen.max"]),
                                ("current_link_gen", values["pcie.link.gen.current"]),
                            ],
                        ),
                        (
                            "link_widths",
                            [
                                ("max_link_width", _plus(values["pcie.link.width.max"], "x")),
                                ("current_link_width", _plus(values["pcie.link.width.current"], "x")),
                            ],
                        ),
                    ],
                ),
            ],
        ),
        ("performance_state", values["pstate"]),
        _reasons_tree(machine, values),
        (
            "fb_memory_usage",
            [
                (part, values[f"memory.{part}"])
                for part in ("total", "reserved", "used", "free")
                if part != "reserved" or machine.major >= 510
            ],
        ),
        ("compute_mode", values["compute_mode"]),
        ("utilization", [("gpu_util", values["utilization.gpu"]), ("memory_util", values["utilization.memory"])]),
        ("ecc_mode", [("current_ecc", values["ecc.mode.current"]), ("pending_ecc", values["ecc.mode.pending"])]),
        ("ecc_errors", [(since, _ecc_tree(machine, values, since)) for since in ("volatile", "aggregate")]),
        (
            "retired_pages",
            [
                ("multiple_single_bit_retirement", [("retired_count", values["retired_pages.single_bit_ecc.count"])]),
                ("double_bit_retirement", [("retired_count", values["retired_pages.double_bit.count"])]),
                ("pending_blacklist", values["retired_pages.pending"]),
                ("pending_retirement", values["retired_pages.pending"]),
            ],
        ),
        (
            "remapped_rows",
            [
                ("remapped_row_corr", values["remapped_rows.correctable"]),
                ("remapped_row_unc", values["remapped_rows.uncorrectable"]),
                ("remapped_row_pending", values["remapped_rows.pending"]),
                ("remapped_row_failure", values["remapped_rows.failure"]),
            ],
        ),
        (
            "temperature",
            [
                ("gpu_temp", _plus(values["temperature.gpu"], " C")),
                ("memory_temp", _plus(values["temperature.memory"], " C")),
            ],
        ),
        *_power_tree(machine, values),
        ("clocks", _clock_tree(values, "clocks.current", ("graphics", "sm", "memory", "video"))),
        ("applications_clocks", _clock_tree(values, "clocks.applications", ("graphics", "memory"))),
        ("default_applications_clocks", _clock_tree(values, "clocks.default_applications", ("graphics", "memory"))),
        ("max_clocks", _clock_tree(values, "clocks.max", ("graphics", "sm", "memory"))),
        *_fabric_tree(machine, values),
        ("supported_clocks", [_supported_tree(machine, memory) for memory in sorted(machine.supported, reverse=True)]),
        ("processes", []),
    ]


def _fabric_tree(machine: Machine, values: dict[str, str]) -> Tree:
    if machine.major < 525:
        return []
    return [("fabric", [("state", values["fabric.state"]), ("status", values["fabric.status"])])]


def _supported_tree(machine: Machine, memory: int) -> tuple[str, str | Tree]:
    steps: Tree = [("supported_graphics_clock", f"{step} MHz") for step in machine.steps(memory)]
    return "supported_mem_clock", [("value", f"{memory} MHz"), *steps]


def _plus(value: str, suffix: str) -> str:
    return value + suffix if value.isdigit() else value


def _mig_devices(machine: Machine, gpu: Gpu) -> str | Tree:
    if not machine.fault("mig", gpu.position):
        return "None"
    return [
        (
            "mig_device",
            [
                ("index", str(number)),
                ("gpu_instance_id", str(number + 1)),
                ("compute_instance_id", "0"),
                ("fb_memory_usage", [("total", "40448 MiB"), ("used", "0 MiB"), ("free", "40448 MiB")]),
            ],
        )
        for number in range(2)
    ]


def _reasons_tree(machine: Machine, values: dict[str, str]) -> tuple[str, str | Tree]:
    word = "event" if machine.major >= 535 else "throttle"
    text = values["clocks_event_reasons.active"]
    if not text.startswith("0x"):
        return f"clocks_{word}_reasons", text
    mask = int(text, 16)
    return f"clocks_{word}_reasons", [
        (f"clocks_{word}_reason_{name}", "Active" if mask & (1 << bit) else "Not Active")
        for bit, name in enumerate(REASONS)
    ]


def _ecc_tree(machine: Machine, values: dict[str, str], since: str) -> Tree:
    def cell(kind: str, place: str) -> str:
        return values[f"ecc.errors.{kind}.{since}.{place}"]

    if machine.major < 550:
        names = {"correctable": "corrected", "uncorrectable": "uncorrected"}
        return [(f"{place}_{word}", cell(names[word], place)) for place in ("sram", "dram") for word in names]
    return [
        ("sram_correctable", cell("corrected", "sram")),
        ("sram_uncorrectable_parity", cell("uncorrected", "sram")),
        ("sram_uncorrectable_secded", "0"),
        ("dram_correctable", cell("corrected", "dram")),
        ("dram_uncorrectable", cell("uncorrected", "dram")),
    ]


def _power_tree(machine: Machine, values: dict[str, str]) -> Tree:
    limits = [("default_power_limit", values["power.default_limit"])]
    range_ = [("min_power_limit", values["power.min_limit"]), ("max_power_limit", values["power.max_limit"])]
    if machine.major < 535:
        return [
            (
                "power_readings",
                [
                    ("power_state", values["pstate"]),
                    ("power_management", "Supported"),
                    ("power_draw", values["power.draw"]),
                    ("power_limit", values["power.limit"]),
                    *limits,
                    ("enforced_power_limit", values["enforced.power.limit"]),
                    *range_,
                ],
            )
        ]
    state = DEPRECATED if machine.major >= 590 else values["pstate"]
    names = [
        "average_power_draw",
        "instant_power_draw",
        "current_power_limit",
        "requested_power_limit",
        "default_power_limit",
        "min_power_limit",
        "max_power_limit",
    ]
    return [
        (
            "gpu_power_readings",
            [
                ("power_state", state),
                ("average_power_draw", values["power.draw"]),
                ("instant_power_draw", values["power.draw"]),
                ("current_power_limit", values["enforced.power.limit"]),
                ("requested_power_limit", values["power.limit"]),
                *limits,
                *range_,
            ],
        ),
        ("module_power_readings", [("power_state", state), *[(name, "N/A") for name in names]]),
    ]


def _clock_tree(values: dict[str, str], prefix: str, parts: tuple[str, ...]) -> Tree:
    return [(f"{'mem' if part == 'memory' else part}_clock", values[f"{prefix}.{part}"]) for part in parts]


def xml_text(tree: Tree, depth: int) -> str:
    """Print a tree as the tool does, indented with tabs."""
    lines = []
    for tag, content in tree:
        pad = "\t" * depth
        if isinstance(content, str) and content != "None":
            text = content.replace("&", "&amp;").replace("<", "&lt;")
            lines.append(f"{pad}<{tag}>{text}</{tag}>\n")
        else:
            inner = f"{pad}\t{content}\n" if isinstance(content, str) else xml_text(content, depth + 1)
            lines.append(f"{pad}<{tag}>\n{inner}{pad}</{tag}>\n")
    return "".join(lines)
