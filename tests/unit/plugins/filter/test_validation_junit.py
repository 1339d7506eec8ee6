# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter.validation_junit import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report

validation_junit = FilterModule().filters()["validation_junit"]


def test_a_stage_that_did_not_run_is_an_error() -> None:
    text = validation_junit(report.build([], {"stages": ["nccl"]}))

    assert text.count("<testsuite ") == 5
    assert text.count("<error message=") == 1
