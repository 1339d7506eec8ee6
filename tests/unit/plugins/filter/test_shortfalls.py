# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.shortfalls import FilterModule

shortfalls = FilterModule().filters()["shortfalls"]


def test_what_falls_short_is_a_list_of_mappings_worst_first() -> None:
    found = shortfalls({"busbw": {"gpu1": 410.0, "gpu2": 188.0, "gpu3": 455.0}}, {"busbw": {"warn": 420, "fail": 300}})

    assert [(item["name"], item["level"], item["limit"]) for item in found] == [
        ("gpu2", "fail", 300),
        ("gpu1", "warn", 420),
    ]
    assert found[0]["message"] == "188 is below 300"


def test_empty_is_a_pass() -> None:
    assert shortfalls({"busbw": 460}, {"busbw": {"fail": 450}}) == []


def test_thresholds_that_contradict_are_refused_by_name() -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai.gpucluster.shortfalls: busbw: warn .1. is below fail .2."):
        shortfalls({"busbw": 1}, {"busbw": {"warn": 1, "fail": 2}})
