# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The edge of the filter; test_inputs.py has what it finds."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_input_problems import FilterModule, slurm_input_problems
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs


def test_good_inputs_have_no_problem() -> None:
    assert slurm_input_problems(inputs()) == []


@pytest.mark.parametrize("bad", [None, [], {"slurm_config": {}}])
def test_what_cannot_be_judged_is_an_error_and_not_a_pass(bad: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.slurm_input_problems: "):
        slurm_input_problems(bad)  # type: ignore[arg-type]


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_input_problems"]
