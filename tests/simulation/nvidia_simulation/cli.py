# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command line of the simulated nvidia-smi."""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
import typing as t
from pathlib import Path

from .csv_answers import query_gpu
from .machine import Exit, Gpu, Machine, long_bus_id
from .settings import SETTERS, apply
from .text_answers import listing, nvlink, query_text, topology, version
from .visible import hidden_gpus
from .xml_answers import query_xml

CONFIG = os.environ.get("NVIDIA_SIMULATION_CONFIG", "/etc/nvidia-simulation.json")
STATE = os.environ.get("NVIDIA_SIMULATION_STATE", "/run/nvidia-simulation.json")
NOT_FOUND = "No devices were found"
VALUED = {
    "-i": "--id",
    "-d": "--display",
    "-pm": "--persistence-mode",
    "-pl": "--power-limit",
    "-sc": "--scope",
    "-ac": "--applications-clocks",
    "-lgc": "--lock-gpu-clocks",
    "-lmc": "--lock-memory-clocks",
    "-m": "--mode",
}
PLAIN = {
    "-q": "--query",
    "-x": "--xml-format",
    "-L": "--list-gpus",
    "-rac": "--reset-applications-clocks",
    "-rgc": "--reset-gpu-clocks",
    "-rmc": "--reset-memory-clocks",
    "-h": "--help",
}
QUERIES = ("--query-gpu", "--query-compute-apps", "--format")
LONG = {name: short for short, name in [*VALUED.items(), *PLAIN.items()]}


def parse(argv: list[str]) -> dict[str, str]:
    """Return the options by their short names."""
    options: dict[str, str] = {}
    rest = list(argv)
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        name = LONG.get(name, name)
        if name in QUERIES and equals:
            options[name] = value
        elif name in VALUED:
            if not equals and not rest:
                raise Exit(255, f"ERROR: Option {word} is missing its value.  Please run 'nvidia-smi -h'.\n\n")
            options[name] = value if equals else rest.pop(0)
        elif name in PLAIN or name in ("--version", "topo", "nvlink", "-s", "-e"):
            options[name] = ""
        else:
            raise Exit(255, f"ERROR: Option {word} is not recognized. Please run 'nvidia-smi -h'.\n\n")
    return options


def chosen(machine: Machine, text: str | None) -> list[Gpu]:
    """Return the GPUs that -i names; ids that do not exist are passed over in silence, as the real tool does."""
    if text is None:
        return machine.gpus
    found: list[Gpu] = []
    for word in text.split(","):
        found += [gpu for gpu in machine.gpus if _is(gpu, word) and gpu not in found]
    if not found:
        raise Exit(6, f"{NOT_FOUND}\n")
    return found


def _is(gpu: Gpu, word: str) -> bool:
    if word in (str(gpu.index), gpu.uuid):
        return True
    try:
        return ":" in word and long_bus_id(word) == gpu.bus_id
    except ValueError:
        return False


def troubles(machine: Machine) -> None:
    """Answer as a machine does whose driver or library does not work."""
    faults = machine.faults
    if faults.get("hang"):
        time.sleep(float(faults["hang"]))  # fault: hangs
    if faults.get("no_library"):
        raise Exit(
            12,
            "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA "
            "Display Driver is properly installed and present in your system.\n"
            "Please also try adding directory that contains libnvidia-ml.so to your system PATH.\n",
        )
    if faults.get("no_driver"):
        raise Exit(
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest "
            "NVIDIA driver is installed and running.\n\n",
        )
    if faults.get("version_mismatch"):
        raise Exit(18, "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.159\n")
    if faults.get("blocked"):
        raise Exit(17, "Failed to initialize NVML: GPU access blocked by the operating system\n")
    if not machine.gpus:
        raise Exit(6, f"{NOT_FOUND}\n")


def lost(machine: Machine) -> str:
    """Drop the lost GPUs; an old driver stops at the first of them, a new one names it and goes on."""
    text = ""
    for gpu in [gpu for gpu in machine.gpus if machine.fault("lost_gpus", gpu.position)]:
        address = gpu.bus_id[4:]
        if machine.major < 560:
            raise Exit(
                15,
                f"Unable to determine the device handle for GPU {address}: GPU is lost.  Reboot the system to "
                "recover this GPU\n\n",
            )
        text += f"Unable to determine the device handle for GPU{gpu.index}: {address}: Unknown Error\n"
        machine.gpus.remove(gpu)
    return text


def answer(machine: Machine, options: dict[str, str]) -> str:
    """Return what one call prints."""
    before = lost(machine)
    gpus = chosen(machine, options.get("-i"))
    for option in SETTERS:
        if option in options:
            return before + apply(machine, gpus, option, options[option] or None)
    return before + read(machine, gpus, options)


def read(machine: Machine, gpus: list[Gpu], options: dict[str, str]) -> str:
    """Answer the options that only read."""
    style = options.get("--format", "").split(",")
    if "--query-gpu" in options:
        if "csv" not in style:
            raise Exit(2, '"--format=" switch is missing. Correct values are "csv".\n\n')
        return query_gpu(machine, gpus, options["--query-gpu"].split(","), style)
    if "--query-compute-apps" in options:
        return "" if "noheader" in style else ", ".join(options["--query-compute-apps"].split(",")) + "\n"
    if "-q" in options:
        return query_xml(machine, gpus) if "-x" in options else query_text(machine, gpus, _sections(options))
    if "topo" in options:
        return topology(machine)
    if "nvlink" in options:
        return "".join(nvlink(machine, gpu, "-e" in options) for gpu in gpus)
    return version(machine) if "--version" in options else listing(machine, gpus)


def _sections(options: dict[str, str]) -> list[str]:
    return [word for word in options.get("-d", "").split(",") if word]


def run(argv: list[str], config: dict[str, t.Any], state: dict[str, t.Any]) -> tuple[int, str]:
    """Answer one call: exit code and text; settings are kept in state."""
    try:
        machine = Machine(config, state)
        hang_on = machine.faults.get("hang_on")
        if hang_on and any(str(hang_on) in word for word in argv):
            time.sleep(3600)  # work: runs until it is ended
        options = parse([word for word in argv if word != "-m" or "topo" not in argv])
        troubles(machine)
        text = answer(machine, options)
    except Exit as stop:
        return stop.code, stop.text
    warnings = [str(line) for line in machine.faults.get("warnings") or []]
    if warnings:
        return 14, text + "".join(f"WARNING: {line}\n" for line in warnings)
    return 0, text


def main() -> int:
    """Read the configuration, answer, keep the settings."""
    config = json.loads(Path(CONFIG).read_text(encoding="utf-8"))
    config["hidden_gpus"] = hidden_gpus(config, os.environ)
    argv = sys.argv[1:]
    _note(config, argv)
    if _reads_only(argv) or not os.access(Path(STATE).parent, os.W_OK):
        config = config if _reads_only(argv) else _without_rights(config)
        text = Path(STATE).read_text(encoding="utf-8") if Path(STATE).exists() else ""
        code, out = run(argv, config, json.loads(text or "{}"))
    else:
        code, out = _set(argv, config)
    sys.stdout.write(out)
    return code


def _set(argv: list[str], config: dict[str, t.Any]) -> tuple[int, str]:
    with Path(STATE).open("a+", encoding="utf-8") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        handle.seek(0)
        state = json.loads(handle.read() or "{}")
        code, out = run(argv, config, state)
        handle.seek(0)
        handle.truncate()
        json.dump(state, handle)
    return code, out


def _without_rights(config: dict[str, t.Any]) -> dict[str, t.Any]:
    return {**config, "faults": {**(config.get("faults") or {}), "no_permission": True}}


def _note(config: dict[str, t.Any], argv: list[str]) -> None:
    if config.get("log"):
        with Path(config["log"]).open("a", encoding="utf-8") as log:
            log.write(" ".join(argv) + "\n")


def _reads_only(argv: list[str]) -> bool:
    return not any(word in SETTERS or LONG.get(word.partition("=")[0]) in SETTERS for word in argv)
