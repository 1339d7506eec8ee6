# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import typing as t

from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain


def test_containers_of_templating_become_plain_ones() -> None:
    seen: list[t.Any] = []
    variables = {"entry": {"a": [1, {"b": trust_as_template("{{ 1 + 1 }}")}]}, "seen": seen}
    templar = Templar(loader=DataLoader(), variables=variables)
    lazy = templar.template(trust_as_template("{{ entry }}"))

    result = plain(lazy)

    assert result == {"a": [1, {"b": 2}]}
    assert [value.__class__ for value in (result, result["a"], result["a"][1])] == [dict, list, dict]


def test_the_original_is_left_alone() -> None:
    original = {"a": [1, (2, 3)]}
    copied = plain(original)
    copied["a"].append(4)

    assert original == {"a": [1, (2, 3)]}
    assert copied == {"a": [1, [2, 3], 4]}
