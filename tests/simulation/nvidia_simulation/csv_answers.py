# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers to --query-gpu."""

from __future__ import annotations

from .machine import FABRIC_HEALTH, UNITS, Exit, Gpu, Machine, with_unit

ALIASES = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_serial": "serial",
    "gpu_bus_id": "pci.bus_id",
    "clocks.gr": "clocks.current.graphics",
    "clocks.sm": "clocks.current.sm",
    "clocks.mem": "clocks.current.memory",
    "clocks.applications.gr": "clocks.applications.graphics",
    "clocks.applications.mem": "clocks.applications.memory",
    "clocks.default_applications.gr": "clocks.default_applications.graphics",
    "clocks.default_applications.mem": "clocks.default_applications.memory",
    "clocks.max.gr": "clocks.max.graphics",
    "clocks.max.mem": "clocks.max.memory",
    "retired_pages.sbe": "retired_pages.single_bit_ecc.count",
    "retired_pages.dbe": "retired_pages.double_bit.count",
}


def known_fields(machine: Machine) -> set[str]:
    """Return the query fields that this driver generation knows."""
    fields = set(Gpu(machine, 0).values())
    if machine.major < 595:
        fields.discard("kmd_version")
    if machine.major < 570:
        fields.discard("gpu_recovery_action")
    if machine.major < 525:
        fields -= {"fabric.state", "fabric.status"}
    if machine.major < 580:
        older = FABRIC_HEALTH[:4] if machine.major >= 550 else ()
        fields -= {f"fabric.health.{name}" for name in FABRIC_HEALTH if name not in older}
    if machine.major < 510:
        fields.discard("memory.reserved")
    return fields


def canonical(machine: Machine, field: str) -> str:
    """Return the name under which a field is printed."""
    old, new = "clocks_throttle_reasons.", "clocks_event_reasons."
    if field.startswith(old):
        field = new + field[len(old) :]
    elif field.startswith(new) and machine.major < 535:
        return ""
    return ALIASES.get(field, field)


def query_gpu(machine: Machine, gpus: list[Gpu], fields: list[str], style: list[str]) -> str:
    """Answer --query-gpu."""
    names = [canonical(machine, field) for field in fields]
    known = known_fields(machine)
    for field, name in zip(fields, names):
        if name not in known:
            raise Exit(2, f'Field "{field}" is not a valid field to query.\n\n')
    lines = []
    if "noheader" not in style:
        units = [UNITS.get(name.split(".")[0], "") for name in names]
        shown = [name if machine.major >= 535 else name.replace("event_reasons", "throttle_reasons") for name in names]
        lines.append(
            ", ".join(
                f"{name} [{unit}]" if unit and unit != "" and _has_unit(name) else name
                for name, unit in zip(shown, units)
            )
        )
    for gpu in gpus:
        values = gpu.values()
        cells = [values[name] for name in names]
        if "nounits" not in style:
            cells = [with_unit(name, cell) for name, cell in zip(names, cells)]
        lines.append(", ".join(cells))
    return "".join(f"{line}\n" for line in lines)


def _has_unit(name: str) -> bool:
    return not name.startswith(("clocks_event", "clocks_throttle", "power.management"))
