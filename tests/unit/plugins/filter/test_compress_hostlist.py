# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.compress_hostlist import FilterModule, compress_hostlist


def test_one_string_is_one_name() -> None:
    assert compress_hostlist("gpu1") == "gpu1"


@pytest.mark.parametrize("bad", [None, 3, {"gpu1": 1}, ["gpu[1-2]"]])
def test_refusal_names_the_filter(bad: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.compress_hostlist: "):
        compress_hostlist(bad)  # type: ignore[arg-type]


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["compress_hostlist"]
