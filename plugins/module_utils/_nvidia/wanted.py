# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Check the wanted clocks against the clocks that the GPUs support, without any change."""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia import values

if t.TYPE_CHECKING:
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._nvidia.report import Gpu, Report


CLOCKS = "clocks"


class Refused(Exception):  # noqa: N818 - it is an answer to the user
    """The wanted settings are not possible. Each line contains the found value and the allowed values."""

    def __init__(self, lines: list[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = lines


class Unsupported(Refused):
    """A GPU does not support a setting. Its other settings are not affected."""

    def __init__(self, gpu: Gpu, setting: str, subject: str, detail: str = "") -> None:
        self.setting = setting
        self.text = f"not supported by this GPU{detail}"
        super().__init__([f"{label(gpu)}: {subject} {self.text}"])


class Wanted(t.NamedTuple):
    """The options of the module nvidia_clocks, with clocks in MHz."""

    state: str = "max"
    method: str = "auto"
    memory: int | None = None
    graphics: int | None = None
    graphics_min: int | None = None
    power_limit: str | None = None
    persistence: bool | None = None
    gpus: t.Sequence[str] | None = None
    force: bool = False


class Clocks(t.NamedTuple):
    """A pair of clocks in MHz."""

    memory: int
    graphics: int

    def __str__(self) -> str:
        return f"memory {self.memory} MHz, graphics {self.graphics} MHz"


def label(gpu: Gpu) -> str:
    """Return a name of a GPU for messages."""
    index = "" if gpu["index"] is None else f" {gpu['index']}"
    return f"GPU{index} ({gpu['pci_bus_id'] or gpu['uuid']})"


def select(report: Report, names: t.Sequence[str] | None) -> list[Gpu]:
    """Return the GPUs with the given names. nvidia-smi itself silently ignores unknown names."""
    if names is None:
        return report.gpus
    chosen: list[Gpu] = []
    unknown = []
    for word in names:
        found = [gpu for gpu in report.gpus if _is(gpu, str(word).strip())]
        if not found:
            unknown.append(_unknown(report, word))
        chosen += [gpu for gpu in found if gpu not in chosen]
    if unknown:
        raise Refused(unknown)
    return chosen


def _is(gpu: Gpu, word: str) -> bool:
    if word.isdigit():
        return gpu["index"] is not None and int(word) == gpu["index"]
    return word.lower() == str(gpu["uuid"]).lower() or (
        gpu["pci_bus_id"] is not None and values.bus_id(word) == gpu["pci_bus_id"]
    )


def _unknown(report: Report, word: str) -> str:
    for entry in report.lost:
        if values.bus_id(str(word)) == entry["pci_bus_id"] and entry["pci_bus_id"]:
            return f"gpus: {word!r} is lost ({entry['reason']})"
    known = ", ".join(f"{label(gpu)} {gpu['uuid']}" for gpu in report.gpus)
    return f"gpus: {word!r} does not exist; this machine has {known}"


def method(gpu: Gpu, wanted: Wanted, driver: str | None) -> str:
    """Return the method that sets clocks on this GPU: application or locked."""
    if wanted.method == "locked":
        return "locked"
    offered = gpu["application_clocks"]
    if offered == "available":
        return "application"
    if wanted.method == "auto":
        return "locked"
    if offered == "deprecated":
        raise Refused(
            [
                f"{label(gpu)}: application clocks have no effect with driver {driver or 'unknown'} (they ended with "
                "driver 590); set method to auto or locked"
            ]
        )
    raise Unsupported(gpu, CLOCKS, "application clocks are", "; set method to auto or locked")


def clocks(gpu: Gpu, wanted: Wanted) -> Clocks | None:
    """Return the pair to set: the best one, or the requested one. Return None if no clocks are requested."""
    if wanted.state == "max":
        return _best(gpu)
    if wanted.memory is None and wanted.graphics is None:
        return None
    supported = {memory: steps for memory, steps in gpu["supported_clocks_mhz"].items() if steps}
    if not supported:
        raise Unsupported(gpu, CLOCKS, "setting clocks is", " (it lists no supported clocks)")
    memory = wanted.memory if wanted.memory is not None else _memory_for(supported, wanted.graphics)
    if memory not in supported:
        raise Refused([f"{label(gpu)}: memory {memory} MHz is not supported; nearest: {_nearest(supported, memory)}"])
    graphics = wanted.graphics if wanted.graphics is not None else max(supported[memory])
    for name, value in (("graphics", graphics), ("graphics_min", wanted.graphics_min)):
        if value is not None and value not in supported[memory]:
            near = _nearest(supported[memory], value)
            raise Refused(
                [f"{label(gpu)}: {name} {value} MHz is not supported with memory {memory} MHz; nearest: {near}"]
            )
    return Clocks(memory, graphics)


def _best(gpu: Gpu) -> Clocks:
    best = gpu["best_clocks_mhz"]
    if not best:
        raise Unsupported(gpu, CLOCKS, "setting clocks is", " (it lists no supported clocks)")
    return Clocks(best["memory"], best["graphics"])


def _memory_for(supported: dict[int, list[int]], graphics: int | None) -> int:
    """Return the highest memory clock that supports a graphics clock, or the highest of all."""
    return max((memory for memory, steps in supported.items() if graphics in steps), default=max(supported))


def _nearest(offered: t.Iterable[int], value: int, count: int = 2) -> str:
    near = sorted(sorted(offered, key=lambda clock: (abs(clock - value), clock))[:count])
    return " and ".join(f"{clock} MHz" for clock in near)


def power(gpu: Gpu, wanted: Wanted) -> float | None:
    """Return the power limit to set in W, if any."""
    if wanted.power_limit is None:
        return None
    low, high = gpu["power_w"]["min_limit"], gpu["power_w"]["max_limit"]
    if low is None or high is None or gpu["power_w"]["limit"] is None:
        raise Unsupported(gpu, "power_limit_w", "setting a power limit is", " (it reports none)")
    named = {"default": gpu["power_w"]["default_limit"], "max": high}
    watts = named.get(wanted.power_limit, values.number(wanted.power_limit, "W"))
    if watts is None or not low <= watts <= high:
        raise Refused(
            [f"{label(gpu)}: power_limit {wanted.power_limit} is not between {low:g} and {high:g} W, default or max"]
        )
    return float(watts)


def check(wanted: Wanted) -> None:
    """Refuse options that contradict each other, before any GPU is read."""
    lines = []
    numbers = {"memory": wanted.memory, "graphics": wanted.graphics, "graphics_min": wanted.graphics_min}
    given = {name: value for name, value in numbers.items() if value is not None}
    if given and wanted.state != "set":
        lines.append(f"{', '.join(given)}: only allowed with state=set, found state={wanted.state}")
    lines += [f"{name}: must be a positive number of MHz, found {value}" for name, value in given.items() if value <= 0]
    if wanted.state == "set" and not given and wanted.power_limit is None and wanted.persistence is None:
        lines.append("state=set needs at least one of memory, graphics, power_limit and persistence")
    if wanted.graphics_min is not None and wanted.graphics_min > (wanted.graphics or 0):
        lines.append(f"graphics_min: {wanted.graphics_min} MHz must not be above graphics ({wanted.graphics})")
    if lines:
        raise Refused(lines)
