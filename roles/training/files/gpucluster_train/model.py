# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
The decoder of a recipe.

GPT has learned positions, layer norm and GELU; Llama has RoPE, RMS norm, SwiGLU and grouped heads.
"""

from __future__ import annotations

import math
import typing as t

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

if t.TYPE_CHECKING:
    from .recipe import Model


# Logits of one product: with more, kernels index them with 64 bits, which is slower.
INDEXED = 2**31 - 1


class Linear(nn.Linear):
    """A matrix product in the type of its input: weights stay FP32, so that no update is lost."""

    def forward(self, x: Tensor) -> Tensor:
        """Multiply."""
        return F.linear(x, self.weight.to(x.dtype), None if self.bias is None else self.bias.to(x.dtype))


class Norm(nn.Module):
    """Layer norm, or RMS norm without bias; statistics are FP32."""

    def __init__(self, shape: Model) -> None:
        """Make the weights."""
        super().__init__()
        self.epsilon = shape.norm_epsilon
        self.weight = nn.Parameter(torch.ones(shape.hidden))
        self.bias = None if shape.gated else nn.Parameter(torch.zeros(shape.hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        weight = self.weight.to(x.dtype)
        if self.bias is not None:
            return F.layer_norm(x, weight.shape, weight, self.bias.to(x.dtype), self.epsilon)
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.epsilon)).to(x.dtype) * weight


class Attention(nn.Module):
    """Causal attention through scaled_dot_product_attention, which chooses a fused kernel."""

    def __init__(self, shape: Model) -> None:
        """Make one matrix for queries, keys and values, and one for the output."""
        super().__init__()
        self.heads, self.kv_heads, self.size = shape.heads, shape.kv_heads, shape.head_size
        self.dropout = shape.attention_dropout
        width = (shape.heads + 2 * shape.kv_heads) * shape.head_size
        self.qkv = Linear(shape.hidden, width, bias=not shape.gated)
        self.out = Linear(shape.heads * shape.head_size, shape.hidden, bias=not shape.gated)

    def forward(self, x: Tensor, turn: Tensor | None) -> Tensor:
        """Attend to what comes before; turn holds the rotation of RoPE."""
        batch, length, _hidden = x.shape
        sizes = [self.heads * self.size, self.kv_heads * self.size, self.kv_heads * self.size]
        q, k, v = (part.view(batch, length, -1, self.size) for part in self.qkv(x).split(sizes, dim=-1))
        if turn is not None:
            q, k = rotate(q, turn), rotate(k, turn)
        q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        dropout = self.dropout if self.training else 0.0
        grouped = self.kv_heads != self.heads
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True, enable_gqa=grouped)
        return self.out.forward(y.transpose(1, 2).reshape(batch, length, -1))


class Feed(nn.Module):
    """The feed-forward part: GELU, or SwiGLU with gate and value in one matrix."""

    def __init__(self, shape: Model) -> None:
        """Make both matrices."""
        super().__init__()
        self.gated = shape.gated
        self.up = Linear(shape.hidden, shape.ffn * (2 if shape.gated else 1), bias=not shape.gated)
        self.out = Linear(shape.ffn, shape.hidden, bias=not shape.gated)

    def forward(self, x: Tensor) -> Tensor:
        """Widen, bend, narrow."""
        x = self.up(x)
        if not self.gated:
            return self.out.forward(F.gelu(x, approximate="tanh"))
        gate, value = x.chunk(2, dim=-1)
        return self.out.forward(F.silu(gate) * value)


class Block(nn.Module):
    """One layer: norm first, residual in the type of the computation."""

    def __init__(self, shape: Model) -> None:
        """Make both halves."""
        super().__init__()
        self.dropout = shape.hidden_dropout
        self.norm1, self.attention = Norm(shape), Attention(shape)
        self.norm2, self.feed = Norm(shape), Feed(shape)

    def forward(self, x: Tensor, turn: Tensor | None) -> Tensor:
        """Add attention, then the feed-forward part."""
        x = x + F.dropout(self.attention(self.norm1(x), turn), self.dropout, self.training)
        return x + F.dropout(self.feed(self.norm2(x)), self.dropout, self.training)


class Decoder(nn.Module):
    """Tokens in, mean loss of the next token out."""

    def __init__(self, shape: Model, dtype: torch.dtype, recompute: bool = False) -> None:
        """Make all layers; the computation is done in dtype, the weights are FP32."""
        super().__init__()
        self.shape, self.dtype, self.recompute = shape, dtype, recompute
        self.embedding = nn.Embedding(shape.padded_vocabulary, shape.hidden)
        self.positions = None if shape.gated else nn.Embedding(shape.sequence, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _layer in range(shape.layers))
        self.norm = Norm(shape)
        self.head = None if shape.tied else Linear(shape.hidden, shape.padded_vocabulary, bias=False)
        self.register_buffer("turn", None, persistent=False)

    def initialise(self) -> None:
        """Set all weights: normal with the recipe's width; what ends in a residual is narrower by the depth."""
        std, narrow = self.shape.init_std, self.shape.init_std / math.sqrt(2 * self.shape.layers)
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=narrow if name.endswith(".out") else std)
            if isinstance(module, Norm):
                nn.init.ones_(module.weight)
            if getattr(module, "bias", None) is not None:
                nn.init.zeros_(module.bias)
        if self.shape.gated:
            self.turn = rotation(self.shape, self.embedding.weight.device)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the input of the first layer."""
        x = F.embedding(tokens, self.embedding.weight)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
            x = F.dropout(x, self.shape.hidden_dropout, self.training)
        return x.to(self.dtype)

    def loss(self, x: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss: the logits stay in the type of the computation, their sums are FP32."""
        weight = (self.embedding.weight if self.head is None else self.head.weight).to(x.dtype)
        rows, wanted = self.norm(x).flatten(0, 1), targets.flatten()
        parts = -(-rows.shape[0] * weight.shape[0] // INDEXED)
        sums = [
            F.cross_entropy(F.linear(some, weight).float(), those, reduction="sum")
            for some, those in zip(rows.chunk(parts), wanted.chunk(parts))
        ]
        return torch.stack(sums).sum() / wanted.numel()

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the mean loss of tokens of shape [batch, sequence + 1]."""
        tokens = tokens.long()
        x = self.embed(tokens[:, :-1])
        for block in self.blocks:
            if self.recompute:
                x = torch.utils.checkpoint.checkpoint(block, x, self.turn, use_reentrant=False)
            else:
                x = block(x, self.turn)
        return self.loss(x, tokens[:, 1:])


def rotation(shape: Model, device: torch.device) -> Tensor:
    """Return cosine and sine of RoPE by position and half of a head: [2, sequence, head_size / 2], FP32."""
    half = torch.arange(0, shape.head_size, 2, device=device, dtype=torch.float32) / shape.head_size
    angles = torch.outer(torch.arange(shape.sequence, device=device, dtype=torch.float32), shape.rope_base**-half)
    return torch.stack([angles.cos(), angles.sin()])


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Turn the pairs of each head of x [batch, length, heads, size] by their position."""
    cos, sin = turn[:, : x.shape[1], None].unbind()
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


def groups(model: nn.Module, decay: float) -> list[dict[str, t.Any]]:
    """Return the groups of the optimizer: matrices decay, biases and norms do not."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
