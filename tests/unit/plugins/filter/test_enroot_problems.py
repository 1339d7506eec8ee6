# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

from ansible_collections.hpcai.gpucluster.plugins.filter import enroot_problems as plugin


def test_the_filter_gives_the_faults() -> None:
    judge = plugin.FilterModule().filters()["enroot_problems"]

    assert judge({"enroot_hooks": []}) == []
    assert len(judge({"enroot_hooks": ["none"]})) == 1
