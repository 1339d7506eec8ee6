# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The edge of the filter; test_settings.py has what it returns."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.slurm_settings import FilterModule, slurm_settings
from ansible_collections.hpcai.gpucluster.tests.unit.support.slurm_inputs import inputs


def test_machines_get_what_they_have_to_know() -> None:
    found = slurm_settings(inputs(slurm_database="db1", slurm_database_password="p#a"))

    assert found["servers"] == "head1:6817"
    assert "StoragePass=p\\#a\n" in found["slurmdbd_conf"]
    assert (found["accounts_given"], found["on_both"]) == (False, [])


@pytest.mark.parametrize("bad", [None, [], {"slurm_config": {}}])
def test_what_is_missing_is_an_error(bad: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.slurm_settings: "):
        slurm_settings(bad)  # type: ignore[arg-type]


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["slurm_settings"]
