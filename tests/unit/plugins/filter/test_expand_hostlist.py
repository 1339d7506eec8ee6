# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.expand_hostlist import FilterModule, expand_hostlist


def test_an_expression_becomes_names() -> None:
    assert expand_hostlist("gpu[08-10]") == ["gpu08", "gpu09", "gpu10"]


@pytest.mark.parametrize("bad", [None, ["gpu1"], "gpu[1-"])
def test_refusal_names_the_filter(bad: object) -> None:
    with pytest.raises(AnsibleFilterError, match=r"hpcai\.gpucluster\.expand_hostlist: "):
        expand_hostlist(bad)  # type: ignore[arg-type]


def test_the_filter_has_its_name() -> None:
    assert list(FilterModule().filters()) == ["expand_hostlist"]
