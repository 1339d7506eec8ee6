# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the simulated machine is: its GPUs, their settings and the texts that the tool shows of them."""

from __future__ import annotations

import json
import re
import time
import typing as t
from pathlib import Path

DEPRECATED = "Requested functionality has been deprecated"
FABRIC_HEALTH = (
    "bandwidth",
    "route_recovery_in_progress",
    "route_unhealthy",
    "access_timeout_recovery",
    "summary",
    "incorrect_configuration",
)
MIG_STATES = {True: "Enabled", False: "Disabled"}
MODELS: dict[str, dict[str, t.Any]] = json.loads(Path(__file__).with_name("models.json").read_text(encoding="utf-8"))
UNITS = {"clocks": "MHz", "power": "W", "enforced": "W", "memory": "MiB", "utilization": "%"}


class Exit(Exception):  # noqa: N818 - it is the way out, not an error
    """Print a text and leave with a code, as the real tool does."""

    def __init__(self, code: int, text: str = "") -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Machine:
    """What the configuration describes, and the settings that earlier calls left behind."""

    def __init__(self, config: dict[str, t.Any], state: dict[str, t.Any]) -> None:
        self.config = {**_from_record(config), **config}
        self.state = state
        self.faults: dict[str, t.Any] = config.get("faults") or {}
        self.driver = str(config.get("driver", "580.159.04"))
        self.major = int(self.driver.split(".", maxsplit=1)[0])
        gpus = config.get("gpus") or {}
        self.model = {
            **_model(gpus),
            **{key: gpus[key] for key in gpus if key in ("name", "default", "power", "memory_mib")},
        }
        self.supported = _supported(gpus, self.model)
        self.count = int(gpus.get("count", 8))
        missing = {*(self.faults.get("missing_gpus") or []), *(config.get("hidden_gpus") or [])}
        self.gpus = [Gpu(self, position) for position in range(self.count) if position not in missing]
        for index, gpu in enumerate(self.gpus):
            gpu.index = index

    def default_clocks(self) -> tuple[int, int]:
        """Return the default application clocks (memory, graphics) in MHz."""
        top = max(self.supported)
        return top, int(self.model["default"] or self.supported[top][0])

    def steps(self, memory: int) -> list[int]:
        """Return the graphics clocks (MHz, highest first) that go with a memory clock; none if it is unknown."""
        if memory not in self.supported:
            return []
        highest, lowest, step = self.supported[memory]
        return [int(highest - step * number) for number in range(int((highest - lowest) / step) + 1)]

    def fault(self, name: str, item: object) -> bool:
        """Tell whether a fault that takes a list holds for an item."""
        chosen = self.faults.get(name) or []
        return chosen is True or item in chosen


class Gpu:
    """One GPU: identity, settings and the texts that the tool shows."""

    def __init__(self, machine: Machine, position: int) -> None:
        self.machine = machine
        self.position = position
        self.index = position
        pci = machine.config.get("pci") or []
        self.bus_id = long_bus_id(pci[position] if position < len(pci) else f"0000:00:{position + 6:02x}.0")
        self.uuid = f"GPU-0a000000-0000-4000-8000-{position:012x}"

    @property
    def settings(self) -> dict[str, t.Any]:
        """What was set on this GPU since the driver was loaded."""
        return t.cast("dict[str, t.Any]", self.machine.state.setdefault(self.uuid, {}))

    @property
    def persistent(self) -> bool:
        """Whether persistence mode is on."""
        return bool(self.settings.get("persistence", self.machine.config.get("persistence", False)))

    @property
    def mig(self) -> bool:
        """Whether the GPU is divided into instances."""
        return self.machine.fault("mig", self.position)

    @property
    def asleep(self) -> bool:
        """Whether the GPU saves power while nobody uses it, as those for workstations do."""
        return bool(self.machine.model.get("geforce")) and not self.machine.config.get("busy")

    def values(self) -> dict[str, str]:
        """Return what the tool shows, by canonical field name and without units."""
        machine = self.machine
        values = {**self._identity(), **self._clocks(), **self._power(), **self._health()}
        if machine.fault("requires_reset", self.position):
            keep = ("index", "name", "uuid", "pci.bus_id", "driver_version", "count", "timestamp")
            values = {key: value if key in keep else "[GPU requires reset]" for key, value in values.items()}
        for key in ("*", str(self.position)):
            values.update((machine.config.get("values") or {}).get(key) or {})
        return values

    def _identity(self) -> dict[str, str]:
        machine = self.machine
        mig = "N/A" if not machine.model.get("mig") else MIG_STATES[self.mig]
        total = int(machine.model["memory_mib"])
        return {
            "timestamp": time.strftime("%Y/%m/%d %H:%M:%S.000"),
            "index": str(self.index),
            "count": str(len(machine.gpus)),
            "name": machine.model["name"],
            "uuid": self.uuid,
            "serial": str(1650000000000 + self.position),
            "pci.bus_id": self.bus_id,
            "driver_version": machine.driver,
            "kmd_version": machine.driver,
            "vbios_version": "96.00.A5.00.1A",
            "persistence_mode": "Enabled" if self.persistent else "Disabled",
            "mig.mode.current": mig,
            "mig.mode.pending": mig,
            "compute_mode": "Default",
            "pstate": "P8" if self.asleep else "P0",
            "memory.total": str(total),
            "memory.reserved": "616",
            "memory.used": "0",
            "memory.free": str(total - 616),
            "pcie.link.gen.current": "1" if self.asleep else self._pcie_generation(),
            "pcie.link.gen.max": self._pcie_generation(),
            "pcie.link.width.current": "16",
            "pcie.link.width.max": "16",
            "fabric.state": "Completed" if machine.model["architecture"] in ("Hopper", "Blackwell") else "N/A",
            "fabric.status": "Success" if machine.model["architecture"] in ("Hopper", "Blackwell") else "N/A",
            # The health of the fabric is N/A on machines with one chassis (H200, driver 580.159.04).
            **{f"fabric.health.{name}": "N/A" for name in FABRIC_HEALTH},
            "gpu_recovery_action": "None",
        }

    def _pcie_generation(self) -> str:
        return str((self.machine.config.get("gpus") or {}).get("pcie_generation", 5))

    def _clocks(self) -> dict[str, str]:
        machine = self.machine
        memory, graphics = self.running()
        application = self.application()
        default = machine.default_clocks()
        top = max(machine.supported)
        geforce = machine.model.get("geforce")

        def shown(value: int) -> str:
            if machine.major >= 590:
                return f"[{DEPRECATED}]"
            return "[N/A]" if geforce else str(value)

        return {
            "clocks.current.graphics": str(graphics),
            "clocks.current.sm": str(graphics),
            "clocks.current.memory": str(memory),
            "clocks.current.video": "765",
            "clocks.applications.memory": shown(application[0]),
            "clocks.applications.graphics": shown(application[1]),
            "clocks.default_applications.memory": shown(default[0]),
            "clocks.default_applications.graphics": shown(default[1]),
            "clocks.max.memory": str(top),
            "clocks.max.graphics": str(machine.model.get("max_graphics", machine.supported[top][0])),
            "clocks.max.sm": str(machine.model.get("max_graphics", machine.supported[top][0])),
            "clocks_event_reasons.active": "0x0000000000000000" if machine.config.get("busy") else "0x0000000000000001",
        }

    def _power(self) -> dict[str, str]:
        low, high = self.machine.model["power"]
        limit = float(self.settings.get("power", high)) if self.persistent else float(high)
        return {
            "power.draw": "81.11",
            "power.limit": f"{limit:.2f}",
            "enforced.power.limit": f"{limit:.2f}",
            "power.default_limit": f"{high:.2f}",
            "power.min_limit": f"{low:.2f}",
            "power.max_limit": f"{high:.2f}",
        }

    def _health(self) -> dict[str, str]:
        zero = [
            f"ecc.errors.{kind}.{since}.{place}"
            for kind in ("corrected", "uncorrected")
            for since in ("volatile", "aggregate")
            for place in ("sram", "dram", "total")
        ]
        geforce = self.machine.model.get("geforce")
        hidden = {name for name in zero if geforce or (self.mig and ".volatile." in name)}
        counted = not geforce and not self.mig
        return {
            **{name: "[N/A]" if name in hidden else "0" for name in zero},
            "ecc.mode.current": "[N/A]" if geforce else "Enabled",
            "ecc.mode.pending": "[N/A]" if geforce else "Enabled",
            "retired_pages.single_bit_ecc.count": "[N/A]",
            "retired_pages.double_bit.count": "[N/A]",
            "retired_pages.pending": "[N/A]",
            "remapped_rows.correctable": "0" if counted else "[N/A]",
            "remapped_rows.uncorrectable": "0" if counted else "[N/A]",
            "remapped_rows.pending": "No" if counted else "[N/A]",
            "remapped_rows.failure": "No" if counted else "[N/A]",
            "temperature.gpu": "34",
            "temperature.memory": "33",
            "utilization.gpu": "100" if self.machine.config.get("busy") else "0",
            "utilization.memory": "0",
        }

    def application(self) -> tuple[int, int]:
        """Return the application clocks (memory, graphics) in MHz."""
        if self.persistent and "application" in self.settings:
            memory, graphics = self.settings["application"]
            return int(memory), int(graphics)
        return self.machine.default_clocks()

    def running(self) -> tuple[int, int]:
        """Return the clocks that the GPU runs at (memory, graphics) in MHz: idle, unless the machine is busy."""
        memory, graphics = self.application()
        settings = self.settings if self.persistent else {}
        if "locked_memory" in settings:
            memory = settings["locked_memory"][1]
        memory = min(self.machine.supported, key=lambda known: abs(known - memory))
        highest, lowest, _step = self.machine.supported[memory]
        low, high = settings.get("locked_graphics", (lowest, graphics))
        wanted = high if self.machine.config.get("busy") else low
        return memory, int(min(max(wanted, lowest), highest))


def long_bus_id(text: str) -> str:
    """Return a PCI address as the tool prints it: 00000000:00:06.0."""
    domain, bus, device = (["0", *text.split(":")])[-3:]
    slot, _dot, function = device.partition(".")
    return f"{int(domain, 16):08X}:{int(bus, 16):02X}:{int(slot, 16):02X}.{int(function or '0', 16):X}"


def with_unit(field: str, value: str) -> str:
    """Add the unit of a field to a number."""
    unit = UNITS.get(field.split(".")[0], "")
    if not unit or not re.fullmatch(r"-?[0-9.]+", value):
        return value
    return f"{value} {unit}"


def _from_record(config: dict[str, t.Any]) -> dict[str, t.Any]:
    """Take addresses, affinity and adapters from a catalogue record, if the configuration is one."""
    topology = config.get("topology") or []
    cpus = config.get("cpus") or {}
    cores = cpus.get("sockets", 1) * cpus.get("cores_per_socket", 4) * cpus.get("threads_per_core", 1)
    share = max(1, cores // int(config.get("numa_nodes", 1)))
    found: dict[str, t.Any] = {
        "affinity": [
            {"cpus": f"{gpu['numa_node'] * share}-{(gpu['numa_node'] + 1) * share - 1}", "numa": str(gpu["numa_node"])}
            for gpu in topology
        ],
        "nics": [
            {"device": gpu["hca"], "numa": str(gpu["numa_node"]), "gpu": gpu["index"]}
            for gpu in topology
            if gpu.get("hca")
        ],
    }
    if topology and all(gpu.get("pci") for gpu in topology):
        found["pci"] = [gpu["pci"] for gpu in topology]
    if "nvlinks" in (config.get("gpus") or {}):
        found["nvlink"] = config["gpus"]["nvlinks"]
    return found


def _model(gpus: dict[str, t.Any]) -> dict[str, t.Any]:
    wanted = str(gpus.get("model", "H100")).upper()
    if "A100" in wanted and "40" in wanted + str(gpus.get("memory_mib", "")) and "80" not in wanted:
        return MODELS["A100-40"]
    if "A100" in wanted and ("PCIE" in wanted or (gpus.get("clocks") or {}).get("memory") == 1512):
        return MODELS["A100-PCIE"]
    if "V100" in wanted and (gpus.get("clocks") or {}).get("graphics") == 1380:
        return MODELS["V100-PCIE"]
    if "H100" in wanted and "NVL" in wanted:
        return MODELS["H100-NVL"]
    for key, model in MODELS.items():
        if key in wanted:
            return model
    return {**MODELS["H100"], "name": str(gpus.get("model"))}


def _supported(gpus: dict[str, t.Any], model: dict[str, t.Any]) -> dict[int, tuple[float, float, float]]:
    if "supported" in gpus:
        return {int(memory): tuple(steps) for memory, steps in gpus["supported"].items()}  # type: ignore[misc]
    table = {int(memory): tuple(steps) for memory, steps in model["supported"].items()}
    clocks = gpus.get("clocks") or {}
    if "memory" in clocks and int(clocks["memory"]) not in table:
        table = {int(clocks["memory"]): table[max(table)]}
    if "graphics" in clocks:
        _highest, lowest, step = table[max(table)]
        table[max(table)] = (int(clocks["graphics"]), lowest, step)
    return table
