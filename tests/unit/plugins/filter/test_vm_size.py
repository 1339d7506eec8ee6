# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter vm_size as templates call it."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.vm_size import FilterModule

vm_size = FilterModule().filters()["vm_size"]


def test_filter_returns_the_record() -> None:
    assert vm_size("standard_nd96isr_h200_v5")["gpus"]["memory_mib"] == 143771


@pytest.mark.parametrize("empty", [None, {}])
def test_empty_record_of_the_site_counts_as_none(empty: object) -> None:
    assert vm_size("lab", empty)["gpus"] == {"count": 0, "pcie_width": 16}


@pytest.mark.parametrize("name", ["Standard_X", None, 7, ""])
def test_unknown_size_is_an_error_of_ansible(name: object) -> None:
    with pytest.raises(
        AnsibleFilterError, match=r"^hpcai\.gpucluster\.vm_size: unknown VM size .*known sizes: DGX_A100"
    ):
        vm_size(name)


def test_bad_record_is_an_error_of_ansible() -> None:
    with pytest.raises(
        AnsibleFilterError, match="gpucluster_vm_size_record: a hardware record must be a mapping, not list"
    ):
        vm_size("lab", ["x"])
