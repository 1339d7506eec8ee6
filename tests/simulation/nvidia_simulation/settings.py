# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers to the options that set something: their texts and exit codes are those of the real tool."""

from __future__ import annotations

import re
import typing as t

from .machine import Exit, Gpu, Machine

MOVE_ON = "Treating as warning and moving on.\n"
NO_PERSISTENCE = (
    "Warning: persistence mode is disabled on device {}. See the Known Issues section of the nvidia-smi(1) man page "
    "for more information. Run with [--help | -h] switch to get more information on how to enable persistence mode.\n"
)


def put(gpu: Gpu, key: str, value: object) -> str:
    """Keep a setting, unless it is lost at once for want of persistence or because the fault "ignored" names it."""
    if gpu.machine.fault("ignored", key):
        return ""
    if key != "persistence" and not gpu.persistent:
        return NO_PERSISTENCE.format(gpu.bus_id)
    if value is None:
        gpu.settings.pop(key, None)
    else:
        gpu.settings[key] = value
    return ""


def numbers(text: str) -> list[int]:
    """Read MEM,SM or MIN,MAX or one number."""
    if not re.fullmatch(r"\d+(,\d+)?", text):
        raise Exit(2, f'Unable to parse "{text}" as clocks.\n')
    return [int(part) for part in text.split(",")]


def set_application(gpu: Gpu, text: str | None) -> str:
    """Answer -ac (or -rac without a value)."""
    machine = gpu.machine
    if machine.major >= 590:
        return "The requested functionality has been deprecated.\n"
    if machine.fault("not_supported", "application") or machine.model.get("geforce"):
        return f"Setting applications clocks is not supported for GPU {gpu.bus_id}.\n{MOVE_ON}"
    if text is None:
        return put(gpu, "application", None) + f"All applications clocks have been reset for GPU {gpu.bus_id}\n"
    memory, graphics = (numbers(text) * 2)[:2]
    if graphics not in machine.steps(memory):
        return (
            f'Specified clock combination "(MEM {memory}, SM {graphics})" is not supported for GPU {gpu.bus_id}. '
            f"Run 'nvidia-smi -q -d SUPPORTED_CLOCKS' to see list of supported clock combinations\n{MOVE_ON}"
        )
    warning = put(gpu, "application", [memory, graphics])
    return f'Applications clocks set to "(MEM {memory}, SM {graphics})" for GPU {gpu.bus_id}\n{warning}'


def set_locked_graphics(gpu: Gpu, text: str | None) -> str:
    """Answer -lgc (or -rgc without a value); the real tool clamps and rounds without a word."""
    if gpu.machine.fault("not_supported", "locked_graphics"):
        return f"Setting locked GPU clocks is not supported for GPU {gpu.bus_id}.\n{MOVE_ON}"
    if text is None:
        return put(gpu, "locked_graphics", None) + f"All done resetting GPU clocks for GPU {gpu.bus_id}\n"
    low, high = (numbers(text) * 2)[:2]
    warning = put(gpu, "locked_graphics", [low, high])
    return f'GPU clocks set to "(gpuClkMin {low}, gpuClkMax {high})" for GPU {gpu.bus_id}\n{warning}'


def set_locked_memory(gpu: Gpu, text: str | None) -> str:
    """Answer -lmc (or -rmc without a value)."""
    old = gpu.machine.model["architecture"] in ("Volta", "Turing", "Pascal")
    if old or gpu.machine.fault("not_supported", "locked_memory"):
        return f"Setting locked Memory clocks is not supported for GPU {gpu.bus_id}.\n{MOVE_ON}"
    if text is None:
        return put(gpu, "locked_memory", None) + f"All done resetting memory clocks for GPU {gpu.bus_id}\n"
    low, high = (numbers(text) * 2)[:2]
    warning = put(gpu, "locked_memory", [low, high])
    return f'Memory clocks set to "(memClkMin {low}, memClkMax {high})" for GPU {gpu.bus_id}\n{warning}'


def set_persistence(gpu: Gpu, text: str | None) -> str:
    """Answer -pm."""
    wanted = {"1": True, "0": False, "ENABLED": True, "DISABLED": False}.get(str(text).upper())
    if wanted is None:
        raise Exit(2, f'Unable to parse "{text}" as persistence mode.\n')
    word = "Enabled" if wanted else "Disabled"
    if gpu.persistent is wanted:
        return f"Persistence mode is already {word} for GPU {gpu.bus_id}.\n"
    put(gpu, "persistence", wanted)
    if not wanted:  # the last client is gone, and with it everything that was set
        for key in ("application", "locked_graphics", "locked_memory", "power"):
            gpu.settings.pop(key, None)
    return f"{word} persistence mode for GPU {gpu.bus_id}.\n"


def set_power(gpu: Gpu, text: str | None) -> str:
    """Answer -pl."""
    machine = gpu.machine
    if machine.fault("not_supported", "power"):
        return f"Changing power management limit is not supported for GPU: {gpu.bus_id}.\n{MOVE_ON}"
    low, high = machine.model["power"]
    watts = float(text or 0)
    if not low <= watts <= high:
        raise Exit(
            2,
            f"Provided power limit {watts:.2f} W is not a valid power limit which should be between {low:.2f} W and "
            f"{high:.2f} W for GPU {gpu.bus_id}\nTerminating early due to previous errors.\n",
        )
    before = gpu.values()["power.limit"]
    warning = put(gpu, "power", watts)
    return f"Power limit for GPU {gpu.bus_id} was set to {watts:.2f} W from {before} W.\n{warning}"


SETTERS: dict[str, tuple[t.Callable[[Gpu, str | None], str], str]] = {
    "-ac": (set_application, "change clocks"),
    "-rac": (set_application, "change clocks"),
    "-lgc": (set_locked_graphics, "change clocks"),
    "-rgc": (set_locked_graphics, "change clocks"),
    "-lmc": (set_locked_memory, "change clocks"),
    "-rmc": (set_locked_memory, "change clocks"),
    "-pm": (set_persistence, "change persistence mode"),
    "-pl": (set_power, "change power management limit"),
}


def apply(machine: Machine, gpus: list[Gpu], option: str, text: str | None) -> str:
    """Answer one of the options that set something, GPU after GPU."""
    setter, what = SETTERS[option]
    out = []
    for gpu in gpus:
        if machine.faults.get("no_permission"):
            raise Exit(
                4,
                f"The current user does not have permission to {what} for GPU {gpu.bus_id}.\n"
                "Terminating early due to previous errors.\n",
            )
        try:
            out.append(setter(gpu, text))
        except Exit as stop:
            raise Exit(stop.code, "".join(out) + stop.text) from stop
    return "".join(out) + "All done.\n"
