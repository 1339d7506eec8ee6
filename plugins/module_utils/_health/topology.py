# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Check the NCCL topology file: it exists, NCCL can use it, and it describes this kind of machine.

The module nccl_topology uses the same judge. The role installs its files next to this program under the same names.
"""

from __future__ import annotations

import typing as t

from ansible_collections.hpcai.gpucluster.plugins.module_utils._hardware import record
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import compare, conf
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import judge as nccl_judge

from .verdict import HEALTHY, Finding, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case
    from .machine import Machine

_CONF = "/etc/nccl.conf"
_PCI = "/sys/bus/pci/devices"


def check(case: Case) -> Finding:
    """
    Check the file against the PCI addresses, NUMA nodes and CPUs of the record.

    A file that /etc/nccl.conf names is the one that jobs use, so it is judged instead of the expected one. Without a
    record of the devices, it must have the GPUs that the machine shows.
    """
    named = _named(case.machine)
    path = named or case.text("path")
    if named and case.given("devices") is None:
        return _read(case, path, lambda text: _own(path, text, _gpus(case.machine)))
    devices = {str(bus).lower(): int(node) for bus, node in dict(case.value("devices")).items()}
    cpus = {int(node): record.parse_ranges(str(ranges)) for node, ranges in dict(case.value("cpus")).items()}
    return _read(case, path, lambda text: judge(path, text, devices, cpus))


def _read(case: Case, path: str, judged: t.Callable[[str], Finding]) -> Finding:
    try:
        text = case.machine.read(path)
    except FileNotFoundError:
        return unhealthy(f"the topology file {path}", "no such file")
    except OSError as exc:
        raise UnknownError(f"{path} cannot be read: {exc.strerror}") from exc
    return judged(text)


def _named(machine: Machine) -> str:
    """Return the file that /etc/nccl.conf names; empty without one."""
    try:
        return conf.read(machine.read(_CONF)).get("NCCL_TOPO_FILE", "")
    except FileNotFoundError:
        return ""
    except OSError as exc:
        raise UnknownError(f"{_CONF} cannot be read: {exc.strerror}") from exc


def _gpus(machine: Machine) -> list[str]:
    """Return the PCI addresses of the NVIDIA GPUs that the machine shows."""
    return [
        bus.lower()
        for bus in machine.names(_PCI)
        if machine.read(f"{_PCI}/{bus}/vendor").strip() == "0x10de"
        and machine.read(f"{_PCI}/{bus}/class").startswith("0x03")
    ]


def _own(path: str, text: str, gpus: t.Sequence[str]) -> Finding:
    """Judge a file that no record describes: NCCL can use it, and it has the GPUs of the machine."""
    finding = judge(path, text, {}, {})
    system = nccl_judge.judge(text).system
    absent = [f"GPU {bus} is not in the file" for bus in gpus if system and bus not in nccl_judge.devices(system)]
    if finding.status != HEALTHY:
        return finding
    return unhealthy(f"{path} of this machine", listing(absent)) if absent else healthy(f"{path} names its GPUs")


def judge(path: str, text: str, devices: dict[str, int], cpus: dict[int, list[int]]) -> Finding:
    """Judge the content of the file as NCCL does, then compare it with the devices and CPUs of each NUMA node."""
    verdict = nccl_judge.judge(text)
    wrong = verdict.of(nccl_judge.FATAL, nccl_judge.IGNORED, nccl_judge.FAULT)
    if wrong or verdict.system is None:
        return unhealthy(f"{path} in the form that NCCL uses", listing(wrong))
    deviations = compare.deviations(verdict.system, devices, cpus)
    if deviations:
        return unhealthy(f"{path} with every device and CPU on its NUMA node", listing(deviations))
    return healthy(f"{path} names {len(devices)} devices")
