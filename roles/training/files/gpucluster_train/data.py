# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Tokens: made from a seed, the bytes of text files, or memory-mapped files of 16-bit numbers.

Which windows a step sees depends on the seed and the step alone. So a resumed run sees what the first run would have
seen, and the number of ranks does not change the data.
"""

from __future__ import annotations

import typing as t
from pathlib import Path

import torch
from torch import Tensor

if t.TYPE_CHECKING:
    from .recipe import Recipe

# Tokens of the made corpus, and how many chains of it grow together.
CORPUS, CHAINS = 1 << 24, 1 << 12
# Weight of the word of rank k is k ** -ZIPF; a token is followed by its successor with this probability.
ZIPF, FOLLOW = 1.2, 0.5


class Tokens:
    """A corpus of one or several sources, and the windows of each step."""

    def __init__(self, recipe: Recipe, rank: int, ranks: int) -> None:
        """Open or make the corpus for one of the data ranks."""
        self.rank, self.ranks, self.seed = rank, ranks, recipe.seed
        self.total, self.length = recipe.batch.total, recipe.model.sequence + 1
        self.sources = sources(recipe)
        weights = recipe.data.weights or tuple(float(len(source)) for source in self.sources)
        self.weights = torch.tensor(weights, dtype=torch.float64)
        for source in self.sources:
            if len(source) <= self.length:
                raise ValueError(f"a source of data has {len(source)} tokens; a sequence needs {self.length}")

    def windows(self, step: int) -> tuple[Tensor, Tensor]:
        """Return source and first token of each sequence of this rank in a step."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        source = torch.multinomial(self.weights, self.total, replacement=True, generator=generator)
        room = torch.tensor([len(data) - self.length for data in self.sources])[source]
        start = (torch.rand(self.total, generator=generator, dtype=torch.float64) * room).long()
        mine = slice(self.rank * self.total // self.ranks, (self.rank + 1) * self.total // self.ranks)
        return source[mine], start[mine]

    def batch(self, step: int) -> Tensor:
        """Return the tokens of this rank in a step: [sequences, sequence + 1], 32-bit."""
        source, start = self.windows(step)
        index = start[:, None] + torch.arange(self.length)
        found = torch.empty(index.shape, dtype=torch.int32)
        for number, data in enumerate(self.sources):
            rows = source == number
            found[rows] = data[index[rows]].to(torch.int32) & 0xFFFF
        return found


def sources(recipe: Recipe) -> list[Tensor]:
    """Return the tokens of each source as 16-bit numbers, whose sign means nothing."""
    data = recipe.data
    if data.kind == "synthetic":
        return [synthetic(min(recipe.model.vocabulary, 1 << 16), recipe.seed)]
    if data.kind == "bytes":
        texts = (bytearray(Path(path).read_bytes()) for path in data.paths)
        return [torch.frombuffer(text, dtype=torch.uint8).to(torch.int16) for text in texts]
    return [mapped(Path(path)) for path in data.paths]


def mapped(path: Path) -> Tensor:
    """Return a file of 16-bit tokens as it lies on the disk, such as the .bin of Megatron and NeMo."""
    return torch.from_file(str(path), shared=False, size=path.stat().st_size // 2, dtype=torch.int16)


def synthetic(vocabulary: int, seed: int) -> Tensor:
    """
    Return a corpus that a model can learn: Zipf's law for words, and a fixed successor for each word.

    A model learns the frequencies first, and then which word follows which, so the loss falls in two phases.
    """
    threads = torch.get_num_threads()
    # Each of some 20,000 operations is small. Threads only wait for each other, and longer if ranks share the CPUs.
    torch.set_num_threads(1)
    try:
        return _grown(vocabulary, torch.Generator().manual_seed(seed))
    finally:
        torch.set_num_threads(threads)


def _grown(vocabulary: int, generator: torch.Generator) -> Tensor:
    """Return chains of words, one after the other."""
    weights = torch.arange(1, vocabulary + 1, dtype=torch.float64) ** -ZIPF
    bounds = weights.cumsum(0) / weights.sum()
    after = successors(vocabulary, generator)
    steps = CORPUS // CHAINS
    corpus = torch.empty((steps, CHAINS), dtype=torch.int16)
    word = torch.zeros(CHAINS, dtype=torch.int64)
    for step in range(steps):
        chance = torch.rand((2, CHAINS), generator=generator, dtype=torch.float64)
        fresh = torch.searchsorted(bounds, chance[0]).clamp_(max=vocabulary - 1)
        word = torch.where(chance[1] < FOLLOW, after[word], fresh)
        corpus[step] = word.to(torch.int16)
    return corpus.t().reshape(-1)


def successors(vocabulary: int, generator: torch.Generator) -> Tensor:
    """Return the successor of each word: one of about the same frequency, so that Zipf's law stays."""
    order = torch.arange(vocabulary)
    low = 0
    while low < vocabulary:
        high = min(vocabulary, 2 * low + 2)
        order[low:high] = low + torch.randperm(high - low, generator=generator)
        low = high
    return order
