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


@pytest.mark.parametrize("nothing", [None, "", {}])
def test_a_missing_record_of_a_role_names_its_input_and_what_is_allowed(nothing: object) -> None:
    with pytest.raises(
        AnsibleFilterError, match=r"gpu_hardware: found nothing; allowed: a hardware record.*DGX_A100.*_vm_size_record"
    ):
        vm_size(nothing, variable="gpu_hardware")


@pytest.mark.parametrize("wrong", ["lab", ["x"], {"name": "x"}])
def test_a_broken_record_of_a_role_names_its_input(wrong: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"gpu_hardware: (a hardware record must be|missing required)"):
        vm_size(wrong, variable="gpu_hardware")


def test_a_record_of_a_role_is_returned_whole_and_can_be_changed() -> None:
    vm_size(vm_size("lab"), variable="gpu_hardware")["gpus"]["count"] = 9

    assert vm_size(vm_size("lab"), variable="gpu_hardware") == vm_size("lab")
