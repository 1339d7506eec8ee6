# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter nccl_conf as templates call it."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.nccl_conf import FilterModule

nccl_conf = FilterModule().filters()["nccl_conf"]


def test_null_takes_a_setting_away() -> None:
    assert nccl_conf({"NCCL_A": None, "NCCL_B": 2}) == "NCCL_B=2\n"


@pytest.mark.parametrize("settings", [{"NCCL_A": True}, {"A": 1}, "NCCL_A=1", None])
def test_bad_settings_are_an_error_of_ansible(settings: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"^hpcai\.gpucluster\.nccl_conf: "):
        nccl_conf(settings)
