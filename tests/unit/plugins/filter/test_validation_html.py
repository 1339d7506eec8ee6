# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter.validation_html import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._validation import report

validation_html = FilterModule().filters()["validation_html"]


def test_a_report_becomes_a_page() -> None:
    page = validation_html(report.build([], {"run": "now"}), plots=False)

    assert page.startswith("<!DOCTYPE html>")
    assert "<b>FAIL</b>" in page
