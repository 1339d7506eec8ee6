# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.cluster_nodes import cluster_nodes


def test_equal_hosts_are_one_group() -> None:
    lab = {"gpucluster_vm_size": "lab"}

    assert [group["hosts"] for group in cluster_nodes(["gpu1", "gpu2"], {"gpu1": lab, "gpu2": lab})] == ["gpu[1-2]"]


def test_the_error_names_the_filter_and_the_host() -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.cluster_nodes: .*gpu1"):
        cluster_nodes(["gpu1"], {"gpu1": {}})


def test_hosts_that_say_nothing_are_skipped_only_on_demand() -> None:
    assert cluster_nodes(["gpu1"], {"gpu1": {}}, unsized="skip") == []
    with pytest.raises(AnsibleFilterError, match="unsized is 'maybe', it must be fail or skip"):
        cluster_nodes(["gpu1"], {"gpu1": {}}, unsized="maybe")
