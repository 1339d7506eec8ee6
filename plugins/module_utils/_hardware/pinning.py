# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""Compare the CPU placement of the processes of a running job with the best placement."""

from __future__ import annotations

import re
import typing as t
from pathlib import Path

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import CommandMissing, CommandTimeout

if t.TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware.machine import Machine
    from ansible_collections.hpcai.gpucluster.plugins.module_utils._system.bounded_run import Runner

_APPLICATION = re.compile(r"\s*([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])\s*,\s*(\d+)\s*", re.IGNORECASE)


class Process(t.NamedTuple):
    """One process as the kernel shows it. O(running) counts threads that currently run or wait for a CPU."""

    pid: int
    name: str
    cpus: list[int]
    threads: int
    running: int
    last_cpus: list[int]
    gpus: list[str]


class Place(t.NamedTuple):
    """The CPUs on which a process may run, and those on which it should run."""

    process: Process
    numa_nodes: list[int]
    best_numa_nodes: list[int]
    best_cpus: list[int]


def gpu_processes(run: Runner, executable: str) -> tuple[dict[int, list[str]], list[str]]:
    """Return the GPUs of every compute process, and notes, in one start of nvidia-smi."""
    try:
        code, out, err = run([executable, "--query-compute-apps=gpu_bus_id,pid", "--format=csv,noheader"])
    except (CommandMissing, CommandTimeout) as exc:
        return {}, [f"nothing is known about GPUs: {exc}"]
    found: dict[int, list[str]] = {}
    notes = [f"nothing is known about GPUs: nvidia-smi exited {code}: {(out + err).strip()[:200]}"] if code else []
    for line in out.splitlines():
        match = _APPLICATION.fullmatch(line)
        if match:
            address = f"{match[1][-4:]}:{match[2]}".lower()
            gpus = found.setdefault(int(match[3]), [])
            if address not in gpus:
                gpus.append(address)
    return found, notes


def processes(procfs: str, gpus: dict[int, list[str]], pattern: str | None = None) -> list[Process]:
    """Return the compute processes of GPUs, or the processes whose name matches. Skip a process that ends meanwhile."""
    wanted = re.compile(pattern) if pattern else None
    found = []
    for pid in _pids(procfs):
        if wanted is None and pid not in gpus:
            continue
        process = _process(Path(procfs) / str(pid), pid, gpus.get(pid, []))
        if process and (wanted is None or wanted.search(process.name)):
            found.append(process)
    return found


def place(found: Sequence[Process], machine: Machine, numa_of_gpu: dict[str, int]) -> list[Place]:
    """Return the CPUs on which each process may run, and the NUMA nodes of its GPUs."""
    result = []
    for process in found:
        nodes = [node for node, cpus in machine.numa.items() if set(cpus) & set(process.cpus)]
        best = sorted({numa_of_gpu[gpu] for gpu in process.gpus if gpu in numa_of_gpu})
        result.append(Place(process, nodes, best, [cpu for node in best for cpu in machine.numa.get(node, [])]))
    return result


def numa_nodes_of_gpus(machine: Machine, topology: Sequence[dict[str, t.Any]]) -> dict[str, int]:
    """Return the NUMA node of every GPU, from the given topology or else from the machine, which may hide it."""
    known = {str(gpu.get("pci")): int(gpu["numa_node"]) for gpu in topology if gpu.get("pci")}
    shown = {gpu.address: gpu.numa_node for gpu in machine.gpus if gpu.numa_node >= 0}
    single = {gpu.address: next(iter(machine.numa)) for gpu in machine.gpus if len(machine.numa) == 1}
    return {**single, **shown, **known}


def warnings(places: Sequence[Place], machine: Machine) -> list[str]:
    """Return the faults in the placement of all processes together."""
    return [text for rule in (_each, _shared, _spread) for text in rule(places, machine)]


def process_warnings(found: Place, machine: Machine) -> list[str]:
    """Return the faults in the placement of one process."""
    process, texts = found.process, []
    if machine.online and set(process.cpus) >= set(machine.online) and len(machine.numa) > 1:
        texts.append("it is not pinned, every CPU of the machine is allowed")
    elif len(found.numa_nodes) > 1:
        texts.append(f"its CPUs {record.ranges(process.cpus)} are on the NUMA nodes {found.numa_nodes}")
    far = [node for node in found.numa_nodes if node not in found.best_numa_nodes]
    if found.best_numa_nodes and len(found.numa_nodes) == 1 and far:
        texts.append(
            f"it runs on NUMA node {far[0]}, its GPU {', '.join(process.gpus)} is at node "
            f"{', '.join(map(str, found.best_numa_nodes))}: CPUs {record.ranges(found.best_cpus)} are best"
        )
    if process.running > len(process.cpus) > 0:
        texts.append(f"{process.running} busy threads share {len(process.cpus)} CPUs")
    return texts


def _each(places: Sequence[Place], machine: Machine) -> Iterator[str]:
    for found in places:
        for text in process_warnings(found, machine):
            yield f"{found.process.name} ({found.process.pid}): {text}"


def _shared(places: Sequence[Place], _machine: Machine) -> Iterator[str]:
    """Warn about groups of processes on the same CPUs that have more busy threads than CPUs."""
    groups: dict[tuple[int, ...], list[Process]] = {}
    for found in places:
        groups.setdefault(tuple(found.process.cpus), []).append(found.process)
    for cpus, group in groups.items():
        busy = sum(process.running for process in group)
        if len(group) > 1 and busy > len(cpus):
            pids = ", ".join(str(process.pid) for process in group)
            yield f"the processes {pids} have {busy} busy threads on the same {len(cpus)} CPUs {record.ranges(cpus)}"


def _spread(places: Sequence[Place], machine: Machine) -> Iterator[str]:
    pinned = [found.numa_nodes[0] for found in places if len(found.numa_nodes) == 1]
    counts = {node: pinned.count(node) for node in machine.numa}
    if len(pinned) == len(places) >= len(machine.numa) > 1 and len(set(counts.values())) > 1:
        text = ", ".join(f"node {node}: {count}" for node, count in counts.items())
        yield f"the processes are spread unevenly over the NUMA nodes ({text})"


def _pids(procfs: str) -> list[int]:
    try:
        return sorted(int(entry.name) for entry in Path(procfs).iterdir() if entry.name.isdigit())
    except OSError:
        return []


def _process(path: Path, pid: int, gpus: list[str]) -> Process | None:
    status = _status(path / "status")
    try:
        cpus = record.parse_ranges(status["Cpus_allowed_list"])
        name, threads = status["Name"], int(status.get("Threads", "1"))
    except (KeyError, ValueError):
        return None
    states = [_state(task / "stat") for task in _entries(path / "task")]
    known = [state for state in states if state]
    running = sum(1 for state, _cpu in known if state == "R")
    return Process(pid, name, cpus, threads, running, sorted({cpu for _state, cpu in known if cpu >= 0}), gpus)


def _status(path: Path) -> dict[str, str]:
    pairs = (line.partition(":") for line in _text(path).splitlines())
    return {key: value.strip() for key, _colon, value in pairs}


def _state(path: Path) -> tuple[str, int] | None:
    """Return state and last CPU of a thread. Its name may contain any character and is in brackets."""
    fields = _text(path).rpartition(")")[2].split()
    if len(fields) < 37 or not fields[36].isdigit():
        return None
    return fields[0], int(fields[36])


def _entries(path: Path) -> list[Path]:
    try:
        return sorted(path.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
