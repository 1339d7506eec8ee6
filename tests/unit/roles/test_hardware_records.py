# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Roles find the hardware record of a machine by each of the variables that may name it."""

from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.tests.unit.support.role_values import role_values

if t.TYPE_CHECKING:
    from pathlib import Path

OWN = {"name": "own", "cpus": {"sockets": 1, "cores_per_socket": 2, "threads_per_core": 1}, "numa_nodes": 1}
MACHINES: dict[str, dict[str, t.Any]] = {
    "DGX_H100": {"gpucluster_vm_size": "DGX_H100"},
    "DGX_A100": {"azure_vm_size": "DGX_A100"},
    "own": {"gpucluster_vm_size_record": {**OWN, "memory_mib": 1024, "gpus": {"count": 0}}},
}


@pytest.mark.parametrize(("role", "name"), [("nccl", "nccl_hardware.name")], ids=["nccl"])
def test_a_machine_is_known_by_its_size_or_its_record(tmp_path: Path, role: str, name: str) -> None:
    assert role_values(tmp_path, role, name, MACHINES) == {machine: machine for machine in MACHINES}


def test_the_role_gpu_alone_knows_the_gpus_of_a_size(tmp_path: Path) -> None:
    machines = {**MACHINES, "nothing": {}, "playbook": {"gpucluster_hardware": {"gpus": {"count": 4}}}}

    found = role_values(tmp_path, "gpu", "gpu_count", machines)

    assert found == {"DGX_H100": 8, "DGX_A100": 8, "own": 0, "nothing": 0, "playbook": 4}
