# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest

from ansible_collections.hpcai.gpucluster.plugins.filter.cluster_places import FilterModule, cluster_places


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        ({}, ""),
        ({"gpucluster_switch": "", "gpucluster_rack": "r1"}, "r1"),
        ({"gpucluster_rack": "r1", "gpucluster_switch": "spine1/leaf1"}, "spine1/leaf1"),
        ({"azure_slurm_switch": "set1", "gpucluster_rack": "r1"}, "r1"),
        ({"azure_slurm_switch": "set1"}, "set1"),
    ],
)
def test_the_first_variable_that_is_set_counts(variables: dict[str, t.Any], place: str) -> None:
    assert cluster_places(["gpu1"], {"gpu1": variables, "gpu2": {"gpucluster_rack": "r9"}}) == {"gpu1": place}


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["cluster_places"]
