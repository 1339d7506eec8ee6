# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Return the arguments of NeMo for a training recipe."""

from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.hpcai.gpucluster.plugins.module_utils._training import recipe as recipes
from ansible_collections.hpcai.gpucluster.plugins.plugin_utils._catalogue.plain import plain

DOCUMENTATION = r"""
name: nemo_arguments
author: HPC AI Infrastructure Team (@hpcai)
version_added: 0.3.0
short_description: Return the arguments of NeMo for a training recipe
description:
  - Returns the overrides of C(megatron_gpt_pretraining.py) of NeMo that train the same model in the same way.
  - The names are those of C(megatron_gpt_config.yaml) in the images 24.01 to 24.07 of NeMo.
  - Data of the kind C(synthetic) becomes NeMo's own mock data.
options:
  _input:
    description: A recipe, as P(hpcai.gpucluster.training_recipe#filter) returns it.
    type: dict
    required: true
seealso:
  - plugin: hpcai.gpucluster.training_recipe
    plugin_type: filter
"""

EXAMPLES = r"""
- name: Show how NeMo is started
  ansible.builtin.debug:
    msg: "{{ 'gpt3_126m' | hpcai.gpucluster.training_recipe | hpcai.gpucluster.nemo_arguments }}"
"""

RETURN = r"""
_value:
  description: Values by the name of the argument.
  type: dict
  sample: {model.num_layers: "12", model.micro_batch_size: "4"}
"""


def nemo_arguments(raw: t.Any) -> dict[str, str]:
    """Return the arguments of NeMo."""
    try:
        recipe = recipes.read(plain(raw))
    except recipes.RecipeError as exc:
        raise AnsibleFilterError(f"hpcai.gpucluster.nemo_arguments: {exc}") from exc
    return {
        **_trainer(recipe),
        **{f"model.{name}": text for name, text in {**_shape(recipe), **_split(recipe)}.items()},
        **{f"model.optim.{name}": text for name, text in _optimizer(recipe).items()},
        **{f"model.data.{name}": text for name, text in _data(recipe).items()},
    }


def _trainer(recipe: recipes.Recipe) -> dict[str, str]:
    return {
        "trainer.precision": "bf16",
        "trainer.max_steps": str(recipe.proof.steps),
        "trainer.log_every_n_steps": "1",
        "trainer.gradient_clip_val": str(recipe.optimizer.gradient_clip),
        "exp_manager.resume_if_exists": "True",
        "exp_manager.resume_ignore_no_checkpoint": "True",
        "+exp_manager.log_step_timing": "True",
    }


def _shape(recipe: recipes.Recipe) -> dict[str, str]:
    model = recipe.model
    return {
        "encoder_seq_length": str(model.sequence),
        "max_position_embeddings": str(model.sequence),
        "num_layers": str(model.layers),
        "hidden_size": str(model.hidden),
        "ffn_hidden_size": str(model.ffn),
        "num_attention_heads": str(model.heads),
        "init_method_std": str(model.init_std),
        "hidden_dropout": str(model.hidden_dropout),
        "attention_dropout": str(model.attention_dropout),
        "layernorm_epsilon": str(model.norm_epsilon),
        "make_vocab_size_divisible_by": str(model.vocabulary_multiple),
        "megatron_amp_O2": "True",
        "seed": str(recipe.seed),
    }


def _split(recipe: recipes.Recipe) -> dict[str, str]:
    parallel = recipe.parallel
    virtual = parallel.virtual_pipeline
    return {
        "micro_batch_size": str(recipe.batch.micro),
        "global_batch_size": str(recipe.batch.total),
        "tensor_model_parallel_size": str(parallel.tensor),
        "pipeline_model_parallel_size": str(parallel.pipeline),
        "virtual_pipeline_model_parallel_size": str(virtual) if virtual > 1 else "null",
        "sequence_parallel": str(parallel.sequence),
        "activations_checkpoint_granularity": "null" if recipe.recompute == "none" else recipe.recompute,
    }


def _optimizer(recipe: recipes.Recipe) -> dict[str, str]:
    settings, schedule = recipe.optimizer, recipe.schedule
    return {
        "name": "distributed_fused_adam",
        "lr": str(settings.learning_rate),
        "weight_decay": str(settings.weight_decay),
        "betas": f"[{settings.beta1},{settings.beta2}]",
        "sched.name": "CosineAnnealing",
        "sched.warmup_steps": str(schedule.warmup),
        "sched.constant_steps": str(schedule.constant),
        "sched.min_lr": str(settings.minimum_learning_rate),
    }


def _data(recipe: recipes.Recipe) -> dict[str, str]:
    """Return mock data, or the weights and the prefixes of the files, without their suffix."""
    if recipe.data.kind != "tokens":
        return {"data_impl": "mock", "data_prefix": "[]"}
    weights = recipe.data.weights or (1.0,) * len(recipe.data.paths)
    prefixes = ",".join(f"{weight},{_prefix(path)}" for weight, path in zip(weights, recipe.data.paths))
    return {"data_impl": "mmap", "data_prefix": f"[{prefixes}]", "splits_string": "'99990,8,2'"}


def _prefix(path: str) -> str:
    return path[: -len(".bin")] if path.endswith(".bin") else path


class FilterModule:
    """Offer the filter to Ansible."""

    def filters(self) -> dict[str, t.Any]:
        """Return the filters by name."""
        return {"nemo_arguments": nemo_arguments}
