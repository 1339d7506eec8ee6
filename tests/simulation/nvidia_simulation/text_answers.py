# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers in text: -q, -L, topo -m, nvlink -s, --version."""

from __future__ import annotations

import time
import typing as t

from .machine import DEPRECATED, Exit, Gpu, Machine, with_unit


def query_text(machine: Machine, gpus: list[Gpu], sections: list[str]) -> str:
    """Answer -q, in the parts that scripts of the field read."""
    lines = [
        "",
        "==============NVSMI LOG==============",
        "",
        _row(0, "Timestamp", time.strftime("%a %b %e %H:%M:%S %Y")),
    ]
    note = " [Deprecated; will be removed in CUDA 14.0. Use KMD Version instead]" if machine.major >= 610 else ""
    lines.append(_row(0, "Driver Version", machine.driver + note))
    if machine.major >= 610:
        lines.append(_row(0, "KMD Version", machine.driver))
    lines += [_row(0, "CUDA Version", "13.0"), "", _row(0, "Attached GPUs", str(len(machine.gpus)))]
    for gpu in gpus:
        lines.append(f"GPU {gpu.bus_id}")
        lines += _gpu_text(machine, gpu, sections)
        lines.append("")
    return "".join(f"{line}\n" for line in lines)


def _row(depth: int, name: str, value: str) -> str:
    return f"{'    ' * depth + name:<55}: {value}"


def _gpu_text(machine: Machine, gpu: Gpu, sections: list[str]) -> list[str]:
    values = {
        name: with_unit(name, value.strip("[]") if DEPRECATED in value else value)
        for name, value in gpu.values().items()
    }
    lines = []
    if not sections:
        lines += [
            _row(1, "Product Name", values["name"]),
            _row(1, "Persistence Mode", values["persistence_mode"]),
            "    MIG Mode",
            _row(2, "Current", values["mig.mode.current"]),
            _row(2, "Pending", values["mig.mode.pending"]),
            _row(1, "GPU UUID", values["uuid"]),
        ]
    if not sections or "CLOCK" in sections:
        for title, prefix, parts in (
            ("Clocks", "current", ("graphics", "sm", "memory")),
            ("Applications Clocks", "applications", ("graphics", "memory")),
            ("Default Applications Clocks", "default_applications", ("graphics", "memory")),
            ("Max Clocks", "max", ("graphics", "sm", "memory")),
        ):
            lines.append(f"    {title}")
            lines += [
                _row(2, "SM" if part == "sm" else part.title(), values[f"clocks.{prefix}.{part}"]) for part in parts
            ]
    if not sections or "POWER" in sections:
        lines.append("    GPU Power Readings" if machine.major >= 535 else "    Power Readings")
        lines += [
            _row(2, name, values[field])
            for name, field in (
                ("Current Power Limit", "enforced.power.limit"),
                ("Requested Power Limit", "power.limit"),
                ("Default Power Limit", "power.default_limit"),
                ("Min Power Limit", "power.min_limit"),
                ("Max Power Limit", "power.max_limit"),
            )
        ]
    if "SUPPORTED_CLOCKS" in sections:
        lines.append("    Supported Clocks")
        for memory in sorted(machine.supported, reverse=True):
            lines.append(_row(2, "Memory", f"{memory} MHz"))
            lines += [_row(3, "Graphics", f"{step} MHz") for step in machine.steps(memory)]
    return lines


def nvlink(machine: Machine, gpu: Gpu, errors: bool) -> str:
    """Answer nvlink -s or -e for one GPU; one in MIG mode has no links to show."""
    head = f"GPU {gpu.index}: {machine.model['name']} (UUID: {gpu.uuid})\n"
    if gpu.mig:
        raise Exit(3, f"{head}Unable to retrieve NVLink information: Not Supported\n")
    counters = machine.config.get("link_counters") or {"Replay Errors": 0, "Recovery Errors": 0, "CRC Errors": 0}
    links = range(int(machine.config.get("nvlink", machine.model.get("nvlink", 0))))
    states = {number: ["26.562 GB/s"] for number in links}
    if machine.fault("inactive_links", gpu.position):
        states[0] = ["<inactive>"]
    if errors:
        states = {number: [f"{name}: {value}" for name, value in counters.items()] for number in links}
    return head + "".join(f"\t Link {number}: {word}\n" for number in links for word in states[number])


def topology(machine: Machine) -> str:
    """Answer topo -m, with the ANSI codes that the tool writes even into a pipe."""
    nics = machine.config.get("nics") or []
    affinity = machine.config.get("affinity") or []
    names = [f"GPU{gpu.index}" for gpu in machine.gpus] + [f"NIC{number}" for number in range(len(nics))]
    nodes = [str(_of(affinity, gpu.position).get("numa", "0")) for gpu in machine.gpus]
    nodes += [str(nic.get("numa", "0")) for nic in nics]
    nvlink = int(machine.config.get("nvlink", machine.model.get("nvlink", 0)))
    near = {
        (gpu.position, number)
        for number, nic in enumerate(nics)
        for gpu in machine.gpus
        if nic.get("gpu") == gpu.position
    }

    def link(row: int, column: int) -> str:
        if row == column:
            return " X "
        gpus = len(machine.gpus)
        if row < gpus and column < gpus and nvlink:
            return f"NV{nvlink}"
        if (min(row, column), max(row, column) - gpus) in near:
            return "PIX"
        return "NODE" if nodes[row] == nodes[column] else "SYS"

    lines = ["\t\x1b[4m" + "\t".join([*names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]) + "\x1b[0m"]
    for row, name in enumerate(names):
        cells = [name, *[link(row, column) for column in range(len(names))]]
        if row < len(machine.gpus):
            entry = _of(affinity, machine.gpus[row].position)
            cells += [str(entry.get("cpus", "0-3")), nodes[row], "", "N/A"]
        lines.append("\t".join(cells))
    lines += [
        "",
        "Legend:",
        "",
        "  X    = Self",
        "  SYS  = Across NUMA nodes",
        "  NODE = Within a NUMA node",
        "  PIX  = One PCIe bridge",
        "  NV#  = A bonded set of # NVLinks",
        "",
    ]
    if nics:
        lines += [
            "NIC Legend:",
            "",
            *[f"  NIC{number}: {nic.get('device', 'mlx5_0')}" for number, nic in enumerate(nics)],
            "",
        ]
    return "".join(f"{line}\n" for line in lines)


def _of(entries: list[dict[str, t.Any]], position: int) -> dict[str, t.Any]:
    return entries[position] if position < len(entries) else {}


def listing(machine: Machine, gpus: list[Gpu]) -> str:
    """Answer -L."""
    lines = []
    for gpu in gpus:
        lines.append(f"GPU {gpu.index}: {machine.model['name']} (UUID: {gpu.uuid})")
        if machine.fault("mig", gpu.position):
            lines += [
                f"  MIG 3g.40gb     Device  {number}: (UUID: MIG-{gpu.uuid[4:-1]}{number})" for number in range(2)
            ]
    return "".join(f"{line}\n" for line in lines)


def version(machine: Machine) -> str:
    """Answer --version."""
    short = ".".join(machine.driver.split(".")[:2])
    driver = 'Deprecated, see "KMD version" instead' if machine.major >= 610 else machine.driver
    text = f"NVIDIA-SMI version  : {machine.driver}\nNVML version        : {short}\nDRIVER version      : {driver}\n"
    if machine.major >= 610:
        return f"{text}KMD version         : {machine.driver}\nCUDA UMD version    : 13.3\n"
    return f"{text}CUDA Version        : 13.0\n"
