# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.azure_template import FilterModule, azure_template
from ansible_collections.hpcai.gpucluster.tests.unit.support.azure_clusters import cluster


def test_the_result_is_what_azure_stack_takes() -> None:
    result = azure_template(cluster())

    assert result["resource_group"] == "hpc"
    assert result["template"]["resources"]
    assert result["tags"] == {"gpucluster_cluster": "hpc"}


def test_refusal_names_the_filter_and_the_variable() -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.azure_template: azure_cluster\.location"):
        azure_template(cluster(location="East US"))


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["azure_template"]
