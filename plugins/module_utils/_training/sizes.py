# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This file is PRIVATE to the collection. It may change or vanish at any time.
"""
Figures that follow from a recipe: parameters, floating-point operations, memory, learning rate.

The trainer uses the same file, so a report and a log of the trainer agree.
"""

from __future__ import annotations

import math
import typing as t

if t.TYPE_CHECKING:
    from .recipe import Model, Recipe

GIB = 1 << 30
# Bytes per parameter: FP32 weight, FP32 gradient, two FP32 moments of Adam.
STATE_BYTES = 16
# Dense BF16 peak of one GPU in TFLOP/s, without sparsity, from the data sheets; FP16 on V100, which has no BF16.
# A name is matched as a part of the name that the driver reports; the first match counts.
PEAK_TFLOPS = (
    ("GB300", 2500.0),
    ("GB200", 2500.0),
    ("B300", 2250.0),
    ("B200", 2250.0),
    ("H200", 989.4),
    ("H100 PCIe", 756.0),
    ("H100 NVL", 835.0),
    ("H100", 989.4),
    ("H800", 989.4),
    ("A100", 312.0),
    ("A800", 312.0),
    ("L40S", 362.0),
    ("V100", 125.0),
)


def peak_tflops(gpu: str | None) -> float | None:
    """Return the dense BF16 peak of a GPU such as C(NVIDIA H200) in TFLOP/s, or nothing if it is unknown."""
    return next((peak for name, peak in PEAK_TFLOPS if gpu and name.lower() in gpu.lower()), None)


def parameters(model: Model) -> int:
    """Return the number of weights, with embeddings, biases and norms; tied weights count once."""
    layer = 4 * model.hidden**2 + 2 * model.hidden * model.ffn + 9 * model.hidden + model.ffn
    embeddings = model.padded_vocabulary * model.hidden * (1 if model.tied else 2)
    return model.layers * layer + (2 + model.sequence) * model.hidden + embeddings


def flops_per_token(model: Model) -> int:
    """
    Return the operations of one token, forward and backward, without recomputation.

    These are the matrix products of Narayanan et al. 2021 (appendix): for GPT 72 l h^2 (1 + s/6h + V/12lh). Attention
    counts in full, although a causal kernel skips half of it. PaLM's 6N + 12lhs is the same without norms and biases.
    """
    projections = 4 * model.hidden**2 + 2 * model.hidden * model.ffn
    scores = 2 * model.sequence * model.hidden
    return 3 * 2 * (model.layers * (projections + scores) + model.hidden * model.padded_vocabulary)


def tflops(model: Model, tokens_per_second: float) -> float:
    """Return the rate of one GPU in TFLOP/s from its tokens per second."""
    return flops_per_token(model) * tokens_per_second / 1e12


def mfu(model: Model, tokens_per_second: float, peak: float | None) -> float | None:
    """Return the model FLOPs utilisation of one GPU, 0 to 1, or nothing without a known peak."""
    return tflops(model, tokens_per_second) / peak if peak else None


def memory_bytes(recipe: Recipe, ranks: int) -> int:
    """
    Return an estimate of the memory of one GPU in bytes, without allocator and CUDA context.

    Activations: 34 bytes per token and hidden unit (Korthikanti et al. 2022, with an attention that stores no scores),
    and the logits.
    """
    model, weights = recipe.model, parameters(recipe.model)
    states = weights * STATE_BYTES
    if recipe.parallel.data == "fsdp":
        states = weights * STATE_BYTES // ranks + 4 * weights // model.layers
    tokens = recipe.batch.micro * model.sequence
    return states + tokens * (model.hidden * 34 * model.layers + model.padded_vocabulary * 6)


def learning_rate(recipe: Recipe, step: int) -> float:
    """Return the learning rate of a step, from 1: a line up, half a cosine down, and a constant end."""
    optimizer, schedule = recipe.optimizer, recipe.schedule
    if step <= schedule.warmup:
        return optimizer.learning_rate * step / schedule.warmup
    way = max(1, schedule.steps - schedule.constant - schedule.warmup)
    part = min(1.0, (step - schedule.warmup) / way)
    span = optimizer.learning_rate - optimizer.minimum_learning_rate
    return optimizer.minimum_learning_rate + span * (1 + math.cos(math.pi * part)) / 2
