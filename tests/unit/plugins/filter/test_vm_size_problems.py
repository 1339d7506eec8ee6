# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is wrong with the hardware of an inventory."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.filter.vm_size_problems import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

vm_size_problems = FilterModule().filters()["vm_size_problems"]


@pytest.mark.parametrize("name", records.names())
def test_known_size_has_no_problem(name: str) -> None:
    assert vm_size_problems(name) == []
    assert vm_size_problems("anything", records.find(name)) == []


@pytest.mark.parametrize("name", ["Standard_X", None, 5, [], {}])
def test_unknown_size_is_told_with_the_known_ones(name: object) -> None:
    assert "known sizes: DGX_A100" in vm_size_problems(name)[0]


def test_every_fault_of_a_record_names_the_variable() -> None:
    record = {**records.find("Standard_ND96asr_v4"), "numa_nodes": 5, "infiniband": {"rate_gbps": 200}}

    problems = vm_size_problems("Standard_ND96asr_v4", record)

    assert len(problems) >= 2
    assert all(problem.startswith("gpucluster_vm_size_record: ") for problem in problems)
