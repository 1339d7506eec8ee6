# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter nccl_topology as templates call it."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.nccl_topology import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue import records

nccl_topology = FilterModule().filters()["nccl_topology"]


def test_filter_returns_the_file() -> None:
    text = nccl_topology(records.find("Standard_NC24ads_A100_v4"))

    assert text == (
        '<system version="1">\n'
        '  <cpu numaid="0" affinity="00ffffff" arch="x86_64" vendor="AuthenticAMD" familyid="175" modelid="1">\n'
        '    <pci busid="0001:00:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16"/>\n'
        "  </cpu>\n"
        "</system>\n"
    )


@pytest.mark.parametrize("record", [records.find("lab"), "lab", {}])
def test_what_gives_no_file_is_an_error_of_ansible(record: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.nccl_topology: "):
        nccl_topology(record)
