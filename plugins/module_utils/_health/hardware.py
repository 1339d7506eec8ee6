# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Checks of memory, processors, disks and their arrays."""

from __future__ import annotations

import re
import typing as t

from .verdict import Finding, NotApplicableError, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case
    from .machine import Machine

_NVME = "/sys/class/nvme"
_MDSTAT_ARRAY = re.compile(r"^(md\S*) : (\S+)(.*)$")
_MDSTAT_MEMBER = re.compile(r"\S+\[\d+\](\(\w\))?")
_MDSTAT_STATE = re.compile(r"\[([U_]+)\]")


def memory(case: Case) -> Finding:
    """Check the size of the memory."""
    return judge_memory(
        case.number("memory_mib"), case.number("tolerance_percent"), _read(case.machine, "/proc/meminfo")
    )


def judge_memory(expected_mib: float, tolerance: float, meminfo: str) -> Finding:
    """Compare the total with a tolerance downwards; more memory than in the record is no fault."""
    total = re.search(r"^MemTotal:\s+(\d+) kB$", meminfo, re.MULTILINE)
    if not total:
        raise UnknownError("/proc/meminfo holds no MemTotal")
    found = int(total[1]) // 1024
    expected = f"{expected_mib:.10g} MiB (-{tolerance:.10g} %)"
    return (
        healthy(f"{found} MiB", found)
        if found >= expected_mib * (1 - tolerance / 100)
        else unhealthy(expected, f"{found} MiB")
    )


def cpus(case: Case) -> Finding:
    """Check the number of online CPUs, and of NUMA nodes with CPUs; GPUs of Grace machines are NUMA nodes, too."""
    wanted = {"cpu": case.number("count"), "node": case.number("numa_nodes")}
    paths = {"cpu": "/sys/devices/system/cpu/online", "node": "/sys/devices/system/node/has_cpu"}
    found = {name: cpu_list(_read(case.machine, path)) for name, path in paths.items()}
    return judge_cpus(wanted, found)


def judge_cpus(wanted: dict[str, float], found: dict[str, int]) -> Finding:
    """Compare the counts."""
    words = [f"{numbers['cpu']:.10g} CPUs on {numbers['node']:.10g} NUMA nodes" for numbers in (wanted, found)]
    return healthy(words[1], found) if wanted == found else unhealthy(words[0], words[1])


def cpu_list(text: str) -> int:
    """Return the number of CPUs in a list such as 0-47,96-143."""
    if not re.fullmatch(r"\d+(-\d+)?(,\d+(-\d+)?)*", text.strip()):
        raise UnknownError(f"{text.strip()[:60]!r} is no list of CPUs")
    ends = [part.split("-") for part in text.strip().split(",")]
    return sum(int(end[-1]) - int(end[0]) + 1 for end in ends)


def nvme(case: Case) -> Finding:
    """Check the number of local NVMe drives that are live."""
    ignored = [str(model).lower() for model in case.items("ignored_models")]
    states = {}
    for name in case.machine.names(_NVME):
        model = _read(case.machine, f"{_NVME}/{name}/model").strip().lower()
        if not any(model.startswith(start) for start in ignored):
            states[name] = _read(case.machine, f"{_NVME}/{name}/state").strip()
    return judge_nvme(int(case.number("count")), states)


def judge_nvme(count: int, states: dict[str, str]) -> Finding:
    """Compare the number of drives, and name those that are not live."""
    dead = [f"{name} {state}" for name, state in states.items() if state != "live"]
    if dead or len(states) != count:
        return unhealthy(f"{count} NVMe drives live", listing(dead) if dead else f"{len(states)}")
    return healthy(f"{count} NVMe drives live")


def raid(case: Case) -> Finding:
    """Check that no software array is degraded, and that the named arrays have the expected members."""
    return judge_raid(
        {str(name): int(count) for name, count in dict(case.value("members")).items()}, _mdstat(case.machine)
    )


def judge_raid(members: dict[str, int], mdstat: str) -> Finding:
    """Compare the arrays of /proc/mdstat with the expected number of members."""
    arrays = parse_mdstat(mdstat)
    faults = [f"{name} {fault}" for name, (_count, fault) in arrays.items() if fault]
    for name, expected in members.items():
        found = arrays[name][0] if name in arrays else 0
        faults += [f"{name} with {found} members"] if found != expected else []
    words = ", ".join(f"{name} with {count} members" for name, count in members.items())
    if faults:
        return unhealthy(words or "arrays without a fault", listing(faults))
    if not arrays:
        raise NotApplicableError("no software array is expected, and there is none")
    return healthy(words or f"{len(arrays)} arrays without a fault")


def parse_mdstat(text: str) -> dict[str, tuple[int, str]]:
    """Return the number of members and the fault of each array."""
    arrays: dict[str, tuple[int, str]] = {}
    name = ""
    for line in text.splitlines():
        head, state = _MDSTAT_ARRAY.match(line), _MDSTAT_STATE.search(line)
        if head:
            name = head[1]
            flags = [match[1] or "" for match in _MDSTAT_MEMBER.finditer(head[3])]
            fault = "has a failed member" if "(F)" in flags else ("" if head[2].startswith("active") else head[2])
            arrays[name] = (len(flags) - flags.count("(F)") - flags.count("(S)"), fault)
        elif name and state and "_" in state[1]:
            arrays[name] = (arrays[name][0], f"is degraded [{state[1]}]")
    return arrays


def _mdstat(machine: Machine) -> str:
    try:
        return machine.read("/proc/mdstat")
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise UnknownError(f"/proc/mdstat cannot be read: {exc.strerror}") from exc


def _read(machine: Machine, path: str) -> str:
    try:
        return machine.read(path)
    except OSError as exc:
        raise UnknownError(f"{path} cannot be read: {exc.strerror}") from exc
