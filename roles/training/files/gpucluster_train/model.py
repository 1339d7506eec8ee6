# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The decoder of a recipe: GPT, with learned positions, layer norm and GELU."""

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
    """Layer norm, whose weights stay FP32."""

    def __init__(self, shape: Model) -> None:
        """Make the weights."""
        super().__init__()
        self.epsilon = shape.norm_epsilon
        self.weight = nn.Parameter(torch.ones(shape.hidden))
        self.bias = nn.Parameter(torch.zeros(shape.hidden))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise the last dimension."""
        weight, bias = self.weight.to(x.dtype), self.bias.to(x.dtype)
        return F.layer_norm(x, weight.shape, weight, bias, self.epsilon)


class Attention(nn.Module):
    """Causal attention through scaled_dot_product_attention, which chooses a fused kernel."""

    def __init__(self, shape: Model) -> None:
        """Make one matrix for queries, keys and values, and one for the output."""
        super().__init__()
        self.heads, self.size, self.dropout = shape.heads, shape.head_size, shape.attention_dropout
        self.qkv = Linear(shape.hidden, 3 * shape.hidden)
        self.out = Linear(shape.hidden, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Attend to what comes before."""
        batch, length, hidden = x.shape
        shape = (batch, length, self.heads, self.size)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).split(hidden, dim=-1))
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=True)
        return self.out.forward(y.transpose(1, 2).reshape(batch, length, -1))


class Feed(nn.Module):
    """The feed-forward part."""

    def __init__(self, shape: Model) -> None:
        """Make both matrices."""
        super().__init__()
        self.up, self.out = Linear(shape.hidden, shape.ffn), Linear(shape.ffn, shape.hidden)

    def forward(self, x: Tensor) -> Tensor:
        """Widen, bend, narrow."""
        return self.out.forward(F.gelu(self.up(x), approximate="tanh"))


class Block(nn.Module):
    """One layer: norm first, residual in the type of the computation."""

    def __init__(self, shape: Model) -> None:
        """Make both halves."""
        super().__init__()
        self.dropout = shape.hidden_dropout
        self.norm1, self.attention = Norm(shape), Attention(shape)
        self.norm2, self.feed = Norm(shape), Feed(shape)

    def forward(self, x: Tensor) -> Tensor:
        """Add attention, then the feed-forward part."""
        x = x + F.dropout(self.attention(self.norm1(x)), self.dropout, self.training)
        return x + F.dropout(self.feed(self.norm2(x)), self.dropout, self.training)


class Decoder(nn.Module):
    """Tokens in, mean loss of the next token out."""

    def __init__(self, shape: Model, dtype: torch.dtype) -> None:
        """Make all layers; the computation is done in dtype, the weights are FP32."""
        super().__init__()
        self.shape, self.dtype = shape, dtype
        self.embedding = nn.Embedding(shape.padded_vocabulary, shape.hidden)
        self.positions = nn.Embedding(shape.sequence, shape.hidden)
        self.blocks = nn.ModuleList(Block(shape) for _layer in range(shape.layers))
        self.norm = Norm(shape)
        self.head = None if shape.tied else Linear(shape.hidden, shape.padded_vocabulary, bias=False)

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

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the input of the first layer."""
        x = F.embedding(tokens, self.embedding.weight)
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
            x = block(x)
        return self.loss(x, tokens[:, 1:])


def groups(model: nn.Module, decay: float) -> list[dict[str, t.Any]]:
    """Return the groups of the optimizer: matrices decay, biases and norms do not."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in weights if weight.dim() > 1], "weight_decay": decay},
        {"params": [weight for weight in weights if weight.dim() <= 1], "weight_decay": 0.0},
    ]
