# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One step of a run: batches, loss, gradients, update, and what it took."""

from __future__ import annotations

import dataclasses
import math
import time
import typing as t

import torch
import torch.distributed as dist
from torch import Tensor

from . import model as models
from . import parallel, sizes
from .data import Tokens

if t.TYPE_CHECKING:
    from .parallel import World
    from .recipe import Recipe

# Steps whose times the ranks exchange at once.
WINDOW = 10


class DivergedError(Exception):
    """The loss or the gradient is no number any more."""


@dataclasses.dataclass
class Pending:
    """A step that the device may still work on."""

    step: int
    rate: float
    marks: list[t.Any]  # begin, before the last backward pass, end
    values: Tensor  # loss, stop, norm; on the host once the last mark is reached


@dataclasses.dataclass(frozen=True)
class Done:
    """What a step was: times in milliseconds, mean loss of all ranks, norm of the gradient."""

    step: int
    loss: float
    norm: float
    rate: float
    step_ms: float
    compute_ms: float
    stop: bool


class Clock:
    """Marks in the work of a device: CUDA events, or the time of the host."""

    def __init__(self, device: torch.device) -> None:
        """Choose the kind."""
        self.gpu = device.type == "cuda"

    def mark(self) -> t.Any:
        """Return a mark that the device reaches after all work that it was given."""
        if not self.gpu:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def wait(self, mark: t.Any) -> None:
        """Wait until the device has reached a mark."""
        if self.gpu:
            mark.synchronize()

    def between(self, first: t.Any, second: t.Any) -> float:
        """Return the milliseconds between two marks that are reached."""
        return float(first.elapsed_time(second)) if self.gpu else 1000 * (second - first)


class Trainer:
    """Model, optimizer and data of one rank."""

    def __init__(self, recipe: Recipe, world: World, dtype: torch.dtype, compiled: str) -> None:
        """Make everything; the same seed makes the same weights on all ranks."""
        self.recipe, self.world, self.clock = recipe, world, Clock(world.device)
        self.parts = recipe.micro_batches(world.size)
        self.tokens = Tokens(recipe, world.rank, world.size)
        torch.manual_seed(recipe.seed)
        with torch.device(world.device):
            decoder = models.Decoder(recipe.model, dtype)
            decoder.initialise()
        self.model = parallel.split(decoder, recipe.parallel.data, world, compiled, self.parts)
        settings = recipe.optimizer
        self.optimizer = torch.optim.AdamW(
            models.groups(self.model, settings.weight_decay),
            lr=settings.learning_rate,
            betas=(settings.beta1, settings.beta2),
            eps=settings.epsilon,
            fused=True,
        )
        self.waiting: Tensor | None = None
        self.before: Pending | None = None
        self.times: list[float] = []
        self.exchange: tuple[Tensor, t.Any] | None = None

    def weights(self) -> list[torch.nn.Parameter]:
        """Return all weights."""
        return list(self.model.parameters())

    def fetch(self, step: int) -> Tensor:
        """Return the tokens of a step on the device; the copy runs beside the computation."""
        tokens = self.tokens.batch(step)
        if self.clock.gpu:
            return tokens.pin_memory().to(self.world.device, non_blocking=True)
        return tokens

    def step(self, step: int, stop: bool) -> Pending:
        """Give the device the work of a step, and prepare the data of the next; stop asks all ranks to end."""
        tokens = self.fetch(step) if self.waiting is None else self.waiting
        rate = sizes.learning_rate(self.recipe, step)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        # Dropout depends on seed, step and rank alone, so a resumed run repeats it.
        torch.manual_seed((self.recipe.seed * 1_000_003 + step) * self.world.size + self.world.rank)
        begin = self.clock.mark()
        loss, ready = self._gradients(tokens)
        norm = self._update()
        values = torch.stack([loss, torch.full_like(loss, float(stop))])
        dist.all_reduce(values)
        values = torch.cat([values / self.world.size, norm.reshape(1).to(values)])
        pending = Pending(step, rate, [begin, ready], self._to_host(values))
        pending.marks.append(self.clock.mark())
        self.waiting = self.fetch(step + 1)
        return pending

    def _update(self) -> Tensor:
        """Change the weights, and return the norm of the gradient before it was clipped."""
        norm = torch.nn.utils.clip_grad_norm_(self.weights(), self.recipe.optimizer.gradient_clip or math.inf)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return parallel.whole(norm)

    def _gradients(self, tokens: Tensor) -> tuple[Tensor, t.Any]:
        """
        Add up the gradients of all micro-batches; return the loss and the mark before the last reduction.

        Ranks and passes may differ by one sequence. Each counts by its length, and the mean over the ranks follows.
        """
        total = torch.zeros((), device=self.world.device)
        ready = None
        for number, part in enumerate(torch.tensor_split(tokens, self.parts), 1):
            last = number == self.parts
            with parallel.last_only(self.model, last):
                loss = self.model(part) * (len(part) * self.world.size / self.recipe.batch.total)
                if last:
                    ready = self.clock.mark()
                loss.backward()
            total += loss.detach()
        return total, ready

    def _to_host(self, values: Tensor) -> Tensor:
        """Start to copy values to the host, without waiting for them."""
        if not self.clock.gpu:
            return values
        host = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
        return host.copy_(values, non_blocking=True)

    def finish(self, pending: Pending) -> Done:
        """Wait for a step; the time of a step runs from the end of the step before, if that followed at once."""
        begin, ready, end = pending.marks
        self.clock.wait(end)
        loss, stop, norm = pending.values.tolist()
        if not (math.isfinite(loss) and math.isfinite(norm)):
            raise DivergedError(f"loss is {loss} and the norm of the gradient {norm} in step {pending.step}")
        from_mark = self.before.marks[2] if self.before else begin
        self.before = pending
        done = Done(
            step=pending.step,
            loss=loss,
            norm=norm,
            rate=pending.rate,
            step_ms=self.clock.between(from_mark, end),
            compute_ms=self.clock.between(begin, ready),
            stop=stop > 0,
        )
        self.times.append(done.compute_ms)
        return done

    def pause(self) -> None:
        """Forget the end of the last step: other work follows."""
        self.before = None

    def rank_times(self) -> list[float] | None:
        """
        Return the mean time of each rank before the gradients meet, in milliseconds, once per window.

        The ranks exchange it behind the work of the device, so the answer comes with a later call.
        """
        found = None
        if self.exchange:
            self.clock.wait(self.exchange[1])
            found, self.exchange = self.exchange[0].tolist(), None
        if len(self.times) >= WINDOW:
            mine = torch.tensor([sum(self.times) / len(self.times)]).to(self.world.device, non_blocking=True)
            everyone = [torch.empty_like(mine) for _rank in range(self.world.size)]
            dist.all_gather(everyone, mine)
            self.exchange, self.times = (self._to_host(torch.cat(everyone)), self.clock.mark()), []
        return found
