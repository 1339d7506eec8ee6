# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU masks of tasks."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.cpu_masks import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

cpu_masks = FilterModule().filters()["cpu_masks"]


@pytest.mark.parametrize("name", ["Standard_ND96asr_v4", "Standard_ND96amsr_A100_v4"])
def test_masks_of_nd_a100_v4_are_those_that_its_users_know(name: str) -> None:
    assert cpu_masks(records.find(name)) == [
        *["0xffffff000000"] * 2,
        *["0xffffff"] * 2,
        *["0xffffff000000000000000000"] * 2,
        *["0xffffff000000000000"] * 2,
    ]


@pytest.mark.parametrize("name", records.names())
def test_every_record_has_a_mask_per_task(name: str) -> None:
    record = records.find(name)

    masks = cpu_masks(record)

    assert len(masks) == (record["gpus"]["count"] or record["numa_nodes"])
    assert all(int(mask, 16) for mask in masks)


def test_threads_give_every_task_cores_of_its_own() -> None:
    masks = [int(mask, 16) for mask in cpu_masks(records.find("Standard_ND96isr_H100_v5"), 8, 12)]

    assert sum(masks) == 2**96 - 1
    assert all(mask.bit_count() == 12 for mask in masks)


@pytest.mark.parametrize(("tasks", "threads"), [(0, None), (8, 13), ("many", None), (8, [])])
def test_what_does_not_fit_is_an_error_of_ansible(tasks: object, threads: object) -> None:
    with pytest.raises(AnsibleFilterError, match="cpu_masks: "):
        cpu_masks(records.find("Standard_ND96asr_v4"), tasks, threads)
