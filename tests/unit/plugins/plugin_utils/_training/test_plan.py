# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A plan refuses what cannot work before a job is submitted."""

from __future__ import annotations

import pytest

from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._training import plan

H100 = {"model": "H100", "memory_mib": 81559}


def test_a_recipe_of_the_collection_fits() -> None:
    made = plan.plan("gpt3_126m", backend="torch", nodes=2, tasks_per_node=8, gpu=H100)

    assert (made.ranks, made.recipe.micro_batches(made.ranks)) == (16, 4)


def test_an_unknown_recipe_is_refused_with_the_known_ones() -> None:
    with pytest.raises(plan.PlanError, match=r"found gpt4; allowed: gpt3_126m, .*, mine, opt_175b"):
        plan.plan("gpt4", backend="torch", nodes=1, tasks_per_node=8, own={"mine": {}})


def test_a_recipe_of_the_site_comes_first() -> None:
    own = {"tiny": {**plan.find("tiny"), "batch": {"micro": 4, "global": 16}}}

    assert plan.plan("tiny", backend="torch", nodes=2, tasks_per_node=1, own=own).recipe.batch.total == 16


def test_a_wrong_recipe_of_the_site_is_refused_by_name() -> None:
    with pytest.raises(plan.PlanError, match=r"recipe mine: .*batch.micro is missing"):
        plan.plan("mine", backend="torch", nodes=1, tasks_per_node=1, own={"mine": {"model": {}}})


@pytest.mark.parametrize(
    ("name", "nodes", "changes", "message"),
    [
        ("gpt3_126m", 1, ["batch.micro=7"], "batch.global 256 is not a multiple of batch.micro 7 times 8 data ranks"),
        ("gpt3_175b", 16, [], "for the backends megatron, not for torch"),
        ("gpt3_5b", 1, ["parallel.data=ddp"], "GiB of H100 can be used; reduce batch.micro"),
        ("gpt3_126m", 1, ["batch.global=1024", "batch.micro=128"], "GiB per GPU are needed"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_cure(name: str, nodes: int, changes: list[str], message: str) -> None:
    with pytest.raises(plan.PlanError) as caught:
        plan.plan(name, backend="torch", nodes=nodes, tasks_per_node=8, changes=changes, gpu=H100)

    assert message in str(caught.value)


def test_memory_is_not_judged_without_a_record() -> None:
    plan.plan("gpt3_5b", backend="torch", nodes=1, tasks_per_node=8, changes=["parallel.data=ddp"])


def test_a_checkpoint_of_175b_needs_a_parallel_file_system() -> None:
    row = next(row for row in plan.table() if row["recipe"] == "gpt3_175b")

    assert row["checkpoint_gb"] == pytest.approx(2095, abs=1)
    assert row["gbps_for_a_minute"] == pytest.approx(34.9, abs=0.1)
