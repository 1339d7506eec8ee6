# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
The same recipe with the layers, the optimizer and the schedules of megatron-core (0.19 or newer).

It needs neither Transformer Engine nor Apex: the layers are those that megatron-core has itself. Its own attention
keeps all scores; C(--attention=math) takes it, and any other kind takes PyTorch's fused attention in its place.
"""

from __future__ import annotations

import typing as t

import torch
from megatron.core import parallel_state, tensor_parallel
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.transformer.dot_product_attention import DotProductAttention
from megatron.core.transformer.transformer_config import TransformerConfig
from torch import Tensor, nn

from .data import Tokens
from .step import Clock, Trainer

if t.TYPE_CHECKING:
    from .parallel import World
    from .recipe import Recipe


class FusedAttention(DotProductAttention):  # type: ignore[misc]
    """The attention of megatron-core with PyTorch's fused kernels: [length, batch, heads, size] in and out."""

    def forward(self, query: Tensor, key: Tensor, value: Tensor, *_args: t.Any, **_more: t.Any) -> Tensor:
        """Attend to what comes before."""
        q, k, v = (part.permute(1, 2, 0, 3) for part in (query, key, value))
        dropout = self.config.attention_dropout if self.training else 0.0
        grouped = q.shape[1] != k.shape[1]
        y = nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, enable_gqa=grouped)
        return y.permute(2, 0, 1, 3).reshape(query.shape[0], query.shape[1], -1)


class MegatronTrainer(Trainer):
    """Model, optimizer and data of one rank; tensor and pipeline ranks of one group see the same data."""

    def __init__(self, recipe: Recipe, world: World, attention: str) -> None:
        """Make everything with megatron-core."""
        self.recipe, self.world, self.clock = recipe, world, Clock(world.device)
        self.parts = recipe.micro_batches(world.size)
        layout = recipe.parallel
        parallel_state.initialize_model_parallel(
            tensor_model_parallel_size=layout.tensor, pipeline_model_parallel_size=layout.pipeline
        )
        tensor_parallel.model_parallel_cuda_manual_seed(recipe.seed)
        self.config = config(recipe)
        data_rank, data_ranks = parallel_state.get_data_parallel_rank(), parallel_state.get_data_parallel_world_size()
        self.tokens = Tokens(recipe, data_rank, data_ranks)
        settings = DistributedDataParallelConfig(
            grad_reduce_in_fp32=True, overlap_grad_reduce=True, use_distributed_optimizer=world.size > 1
        )
        decoder = model(recipe, self.config, attention).to(world.device, torch.bfloat16)
        self.model = DistributedDataParallel(self.config, settings, decoder)
        self.decoder = decoder
        self.config.no_sync_func = self.model.no_sync
        self.config.finalize_model_grads_func = finalize_model_grads
        self.optimizer = get_megatron_optimizer(optimizer_config(recipe, world.size > 1), [self.model])
        self.config.grad_scale_func = self.optimizer.scale_loss
        self.pass_ = get_forward_backward_func()
        # The last stage of each pipeline knows the loss; ranks of a tensor group know the same one.
        self._begin(losses=world.size // layout.pipeline)

    def _update(self) -> Tensor:
        """Change the weights, and return the norm of the gradient before it was clipped."""
        _done, norm, _zeros = self.optimizer.step()
        return torch.as_tensor(0.0 if norm is None else norm, device=self.world.device)

    def _gradients(self, tokens: Tensor) -> tuple[Tensor, t.Any]:
        """Run all micro-batches through the pipeline; the mark is at the end of the last forward pass."""
        self.model.zero_grad_buffer()
        self.optimizer.zero_grad()
        marks: list[t.Any] = []
        passed = self.pass_(
            forward_step_func=lambda parts, model: self._forward(next(parts), model, marks),
            data_iterator=iter(torch.split(tokens, self.recipe.batch.micro)),
            model=[self.model],
            num_microbatches=self.parts,
            seq_length=self.recipe.model.sequence,
            micro_batch_size=self.recipe.batch.micro,
            forward_only=False,
        )
        losses = [part["loss"] for part in passed] or [torch.zeros((), device=self.world.device)]
        return torch.stack(losses).mean(), marks[-1]

    def _forward(self, tokens: Tensor, model: nn.Module, marks: list[t.Any]) -> tuple[Tensor, t.Any]:
        """Return the output of this stage, and the function that makes a loss of it."""
        tokens = tokens.long()
        positions = torch.arange(tokens.shape[1] - 1, device=tokens.device).expand(tokens.shape[0], -1)
        output = model(tokens[:, :-1].contiguous(), positions, None, labels=tokens[:, 1:].contiguous())
        marks.append(self.clock.mark())

        def loss(output: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
            mean = output.float().mean()
            # The schedule divides the mean in place.
            return mean, {"loss": mean.detach().clone()}

        return output, loss


def config(recipe: Recipe) -> TransformerConfig:
    """Return the configuration of the layers."""
    shape, layout = recipe.model, recipe.parallel
    narrow = shape.init_std / (2 * shape.layers) ** 0.5
    return TransformerConfig(
        num_layers=shape.layers,
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        num_query_groups=shape.kv_heads,
        ffn_hidden_size=shape.ffn,
        hidden_dropout=shape.hidden_dropout,
        attention_dropout=shape.attention_dropout,
        layernorm_epsilon=shape.norm_epsilon,
        init_method=lambda weight: nn.init.normal_(weight, std=shape.init_std),
        output_layer_init_method=lambda weight: nn.init.normal_(weight, std=narrow),
        tensor_model_parallel_size=layout.tensor,
        pipeline_model_parallel_size=layout.pipeline,
        sequence_parallel=layout.sequence and layout.tensor > 1,
        bf16=True,
        params_dtype=torch.bfloat16,
        pipeline_dtype=torch.bfloat16,
        bias_activation_fusion=True,
        bias_dropout_fusion=True,
        # These two need kernels of Apex or Transformer Engine.
        masked_softmax_fusion=False,
        gradient_accumulation_fusion=False,
    )


def model(recipe: Recipe, settings: TransformerConfig, attention: str) -> GPTModel:
    """Return the stage of this rank."""
    layer = get_gpt_layer_local_spec()
    if attention != "math":
        layer.submodules.self_attention.submodules.core_attention = FusedAttention
    return GPTModel(
        settings,
        layer,
        vocab_size=recipe.model.padded_vocabulary,
        max_sequence_length=recipe.model.sequence,
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
        share_embeddings_and_output_weights=recipe.model.tied,
        position_embedding_type="learned_absolute",
    )


def optimizer_config(recipe: Recipe, distributed: bool) -> OptimizerConfig:
    """Return the configuration of the optimizer, whose states the data ranks share."""
    settings = recipe.optimizer
    return OptimizerConfig(
        optimizer="adam",
        lr=settings.learning_rate,
        weight_decay=settings.weight_decay,
        adam_beta1=settings.beta1,
        adam_beta2=settings.beta2,
        adam_eps=settings.epsilon,
        clip_grad=settings.gradient_clip,
        bf16=True,
        params_dtype=torch.bfloat16,
        use_distributed_optimizer=distributed,
    )
