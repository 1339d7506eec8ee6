# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.address_in import FilterModule

address_in = FilterModule().filters()["address_in"]


def test_the_address_in_the_network_is_picked() -> None:
    assert address_in(["172.17.0.1", "10.0.0.7"], "10.0.0.0/24") == "10.0.0.7"


@pytest.mark.parametrize("addresses", [[], ["172.17.0.1"], ["10.0.0.7", "10.0.0.8"]])
def test_none_or_several_are_refused_with_all_addresses(addresses: list[str]) -> None:
    with pytest.raises(AnsibleFilterError, match=", ".join(addresses) or "none"):
        address_in(addresses, "10.0.0.0/24")


def test_a_network_that_does_not_parse_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match=r"10\.0\.0\.0/99"):
        address_in(["10.0.0.7"], "10.0.0.0/99")
