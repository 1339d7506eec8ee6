# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.pyxis_problems import FilterModule, pyxis_problems


def test_the_filter_finds_what_pyxis_refuses() -> None:
    found = FilterModule().filters()["pyxis_problems"]({"container_scope": "node"}, "0.24.0")

    assert found == ["container_scope is 'node', and has to be job or global"]


def test_right_options_have_no_problems() -> None:
    assert pyxis_problems({"container_scope": "job"}, "0.24.0") == []


def test_options_are_a_mapping() -> None:
    with pytest.raises(AnsibleFilterError, match="expected a mapping"):
        pyxis_problems("container_scope=job", "0.24.0")
