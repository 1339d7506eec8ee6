# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_topology import FilterModule, slurm_topology


def test_a_tree_is_the_default() -> None:
    assert slurm_topology({"gpu[1-2]": "leaf1"}) == "SwitchName=leaf1 Nodes=gpu[1-2]\n"


@pytest.mark.parametrize(("places", "options"), [(["gpu1"], {}), ({"gpu1": "a"}, {"wrong": 1}), ({"gpu1": ""}, {})])
def test_refusal_names_the_filter(places: t.Any, options: t.Any) -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.slurm_topology: "):
        slurm_topology(places, **options)


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_topology"]
