# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The edge of the filter; test_settings.py has the reasons."""

from __future__ import annotations

import typing as t

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_metrics import FilterModule, slurm_metrics


@pytest.mark.parametrize(
    ("variables", "serves"),
    [
        ({}, True),
        ({"slurm_version": "24.11.5"}, False),
        ({"slurm_config": {"PrivateData": "jobs"}}, False),
        ({"slurm_config": {"MetricsType": None}}, False),
        ({"slurm_version": "newest"}, False),
        ({"slurm_config": "PrivateData=jobs"}, False),
    ],
)
def test_a_release_serves_its_figures_unless_the_site_says_otherwise(variables: dict[str, t.Any], serves: bool) -> None:
    assert slurm_metrics(variables, "26.05.4") is serves


def test_what_is_no_mapping_is_an_error() -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.slurm_metrics: "):
        slurm_metrics([], "26.05.4")  # type: ignore[arg-type]


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_metrics"]
