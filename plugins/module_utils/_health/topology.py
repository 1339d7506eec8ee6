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
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import compare
from ansible_collections.hpcai.gpucluster.plugins.module_utils._nccl import judge as nccl_judge

from .verdict import Finding, UnknownError, healthy, listing, unhealthy

if t.TYPE_CHECKING:
    from .case import Case


def check(case: Case) -> Finding:
    """Check the file against the PCI addresses, NUMA nodes and CPUs of the record."""
    path = case.text("path")
    devices = {str(bus).lower(): int(node) for bus, node in dict(case.value("devices")).items()}
    cpus = {int(node): record.parse_ranges(str(ranges)) for node, ranges in dict(case.value("cpus")).items()}
    try:
        text = case.machine.read(path)
    except FileNotFoundError:
        return unhealthy(f"the topology file {path}", "no such file")
    except OSError as exc:
        raise UnknownError(f"{path} cannot be read: {exc.strerror}") from exc
    return judge(path, text, devices, cpus)


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
