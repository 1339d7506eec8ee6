# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NeMo trains the recipe of the seed with the seed's own parameters."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.filter.nemo_arguments import FilterModule
from ansible_collections.hpcai.gpucluster.plugins.filter.training_recipe import training_recipe

nemo_arguments = FilterModule().filters()["nemo_arguments"]


def test_the_seed() -> None:
    found = nemo_arguments(training_recipe("gpt3_126m"))

    shape = {name: found[f"model.{name}"] for name in ("num_layers", "hidden_size", "ffn_hidden_size")}
    assert shape == {"num_layers": "12", "hidden_size": "768", "ffn_hidden_size": "3072"}
    assert [found[f"model.{name}"] for name in ("micro_batch_size", "global_batch_size")] == ["4", "256"]
    assert (found["model.optim.lr"], found["model.optim.sched.min_lr"]) == ("0.0006", "6e-05")
    assert found["model.virtual_pipeline_model_parallel_size"] == "null"
    assert (found["trainer.max_steps"], found["model.data.data_impl"]) == ("200", "mock")


def test_a_model_that_is_split() -> None:
    found = nemo_arguments(training_recipe("gpt3_175b"))

    names = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size")
    assert [found[f"model.{name}"] for name in names] == ["4", "8", "12"]
    assert found["model.activations_checkpoint_granularity"] == "selective"


def test_shards_with_weights() -> None:
    recipe = training_recipe("gpt3_126m")
    recipe["data"] = {"kind": "tokens", "paths": ["/d/my-gpt3_00_text_document.bin", "/d/b"], "weights": [0.5, 0.5]}

    assert nemo_arguments(recipe)["model.data.data_prefix"] == "[0.5,/d/my-gpt3_00_text_document,0.5,/d/b]"


def test_a_wrong_recipe_is_refused() -> None:
    with pytest.raises(AnsibleFilterError, match=r"model\.layers is missing"):
        nemo_arguments({"name": "x"})
