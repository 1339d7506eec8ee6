# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_upgrade_problems import (
    FilterModule,
    slurm_upgrade_problems,
)


def test_a_supported_step_has_no_problem() -> None:
    assert slurm_upgrade_problems("24.11.5", "26.05.4") == []


def test_a_version_that_is_none_is_an_error_and_not_a_pass() -> None:
    with pytest.raises(AnsibleFilterError, match="'newest' is no version of Slurm"):
        slurm_upgrade_problems("24.11.5", "newest")


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_upgrade_problems"]
