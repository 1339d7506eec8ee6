# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter returns a recipe, or says what is wrong with it."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.training_recipe import FilterModule

training_recipe = FilterModule().filters()["training_recipe"]


def test_a_recipe_with_changes() -> None:
    assert training_recipe("tiny", {}, ["batch.micro=4"])["batch"] == {"micro": 4, "global": 32}


@pytest.mark.parametrize(
    ("name", "own", "changes", "message"),
    [
        ("none", {}, [], "found none; allowed: gpt3_126m"),
        ("tiny", {}, ["batch.micro=0"], "recipe tiny: batch.micro is 0"),
        ("mine", {"mine": {"colour": "red"}}, [], "recipe mine: colour is unknown"),
    ],
)
def test_a_wrong_recipe_fails_with_its_name(
    name: str, own: dict[str, object], changes: list[str], message: str
) -> None:
    with pytest.raises(AnsibleFilterError) as caught:
        training_recipe(name, own, changes)
    assert message in str(caught.value)
