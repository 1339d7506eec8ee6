# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.validation_stage import FilterModule

validation_stage = FilterModule().filters()["validation_stage"]


def test_a_stage_knows_its_name_and_nodes() -> None:
    stage = validation_stage(
        {"nodes": ["gpu1"], "job": [{"nodes": ["gpu1"], "rc": 0, "stdout": "", "stderr": ""}]}, "scheduler"
    )

    assert (stage["stage"], stage["nodes"], stage["checks"][0]["status"]) == ("scheduler", ["gpu1"], "pass")


def test_an_unknown_stage_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match="unknown stage 'fabric'; there are preflight, scheduler, node, nccl"):
        validation_stage({}, "fabric")
