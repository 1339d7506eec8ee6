# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.validation_report import FilterModule

validation_report = FilterModule().filters()["validation_report"]


def test_nothing_measured_is_a_failure() -> None:
    assert validation_report([], {"stages": ["nccl"]})["verdict"] == "fail"


def test_a_baseline_that_is_none_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match=r"validation_report: the baseline is not a report.json"):
        validation_report([], {}, {"format": 7})
