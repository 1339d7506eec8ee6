# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.isolation import FilterModule

isolation = FilterModule().filters()["isolation"]
NODES = ["gpu1", "gpu2", "gpu3", "gpu4"]
PAIRS = [
    {"nodes": ["gpu1", "gpu2"], "collective": "all_reduce", "busbw": 95.0},
    {"nodes": ["gpu3", "gpu4"], "collective": "all_reduce", "busbw": 190.0},
]


def test_both_of_a_slow_pair_are_measured_next_with_good_partners() -> None:
    found = isolation({"nodes": NODES, "pair": PAIRS, "thresholds": {"pair": 180}})

    assert found["next"] == [["gpu1", "gpu3"], ["gpu2", "gpu4"]]
    assert found["verdict"]["undecided"] == [["gpu1", "gpu2"]]


def test_wrong_thresholds_are_refused() -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai.gpucluster.isolation: pair: 'high' must be a number"):
        isolation({"nodes": NODES, "pair": PAIRS, "thresholds": {"pair": "high"}})
