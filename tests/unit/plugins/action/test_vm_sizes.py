# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action vm_sizes: sizes of the machines that fit, and one sentence for each kind that does not."""

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.action import vm_sizes

DGX = {
    "gpus": {"2330": 8},
    "cpus": 224,
    "numa_nodes": 2,
    "memory_mib": 2063425,
    "nvme": 10,
    "hcas": 12,
    "architecture": "x86_64",
    "product": "DGXH100",
}


def test_machines_that_fit_get_their_size() -> None:
    assert vm_sizes.judged({"gpu1": {"machine": DGX}}) == ({"gpu1": "DGX_H100"}, [])


def test_equal_reasons_are_said_once() -> None:
    broken = {"machine": {**DGX, "gpus": {"2330": 7}}}
    sizes, problems = vm_sizes.judged(
        {"gpu1": {"machine": DGX}, "gpu2": broken, "gpu3": broken, "gpu4": {"unreachable": True, "msg": "no route"}}
    )

    assert sizes == {"gpu1": "DGX_H100"}
    assert problems == [
        "gpucluster_vm_size: auto: gpu[2-3]: no size fits; the nearest is DGX_H100, but it has 7 GPUs instead of 8",
        "gpucluster_vm_size: auto: gpu4: the machine could not be read: no route",
    ]
