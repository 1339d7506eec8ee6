# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan refuses what cannot work before a job is submitted."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import plan

H100 = {"model": "H100", "memory_mib": 81559}


def test_a_recipe_of_the_collection_fits() -> None:
    made = plan.plan("gpt3_126m", nodes=2, tasks_per_node=8, gpu=H100)

    assert (made.ranks, made.recipe.micro_batches(made.ranks)) == (16, 4)


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        plan.PlanError, match=r"found opt_175b; allowed: gpt3_126m, mine, tiny. .*training-containers.md"
    ):
        plan.plan("opt_175b", nodes=1, tasks_per_node=8, own={"mine": {}})


def test_a_recipe_of_the_site_comes_first() -> None:
    own = {"tiny": {**plan.find("tiny"), "batch": {"micro": 4, "global": 16}}}

    assert plan.plan("tiny", nodes=2, tasks_per_node=1, own=own).recipe.batch.total == 16


def test_a_wrong_recipe_of_the_site_is_refused_by_name() -> None:
    with pytest.raises(plan.PlanError, match=r"recipe mine: .*batch.micro is missing"):
        plan.plan("mine", nodes=1, tasks_per_node=1, own={"mine": {"model": {}}})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["batch.global=7"], "batch.global 7 cannot be divided among 8 ranks"),
        (["model.layers=96", "model.hidden=12288", "model.heads=96"], "GiB of H100 can be used; reduce batch.micro"),
        (["batch.global=1024", "batch.micro=128"], "GiB per GPU are needed"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_cure(changes: list[str], message: str) -> None:
    with pytest.raises(plan.PlanError) as caught:
        plan.plan("gpt3_126m", nodes=1, tasks_per_node=8, changes=changes, gpu=H100)

    assert message in str(caught.value)


def test_memory_is_not_judged_without_a_record() -> None:
    plan.plan("gpt3_126m", nodes=1, tasks_per_node=8, changes=["batch.global=1024", "batch.micro=128"])
