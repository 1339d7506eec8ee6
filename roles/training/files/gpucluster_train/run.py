# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run from start or checkpoint to its last step, with log, checkpoints, signals and the result."""

from __future__ import annotations

import json
import os
import signal
import socket
import statistics
import time
import typing as t

import torch
import torch.distributed as dist

from . import sizes
from .checkpoint import CheckpointError, Checkpoints
from .log import Log
from .step import DivergedError, Trainer

if t.TYPE_CHECKING:
    import argparse

    from .parallel import World
    from .recipe import Recipe
    from .step import Done, Pending

EXIT_DIVERGED, EXIT_NO_CHECKPOINT, EXIT_AGAIN = 65, 74, 75


class Run:
    """A run from start or checkpoint to its last step, or to the signal that ends it."""

    def __init__(self, options: argparse.Namespace, recipe: Recipe, world: World) -> None:
        """Make log, trainer and checkpoints; SIGTERM and SIGUSR1 ask for an orderly end."""
        self.options, self.recipe, self.world = options, recipe, world
        self.stopping = False
        for number in (signal.SIGTERM, signal.SIGUSR1):
            signal.signal(number, self._stop)
        self.steps = options.steps or recipe.proof.steps
        self.first, self.last = span(options, recipe, self.steps)
        self.log: Log = Log(options.directory, world.first)
        self.checkpoints: Checkpoints | None = None
        if options.checkpoints and not options.bench:
            self.checkpoints = Checkpoints(options.checkpoints, world.rank)
        self.is_kept = True
        every = options.checkpoint_every
        self.every = recipe.proof.checkpoint_every if every is None else every
        self.trainer = self._trainer()
        self.measured: list[float] = []
        self.recent: list[float] = []

    def _stop(self, *_args: t.Any) -> None:
        self.stopping = True

    def _trainer(self) -> Trainer:
        gpu = self.world.device.type == "cuda"
        choose_attention(self.options.attention)
        if self.options.compile_mode != "default":
            from torch._inductor import config

            config.max_autotune = True
        precision = self.options.precision or ("bf16" if gpu else "fp32")
        compiled = self.options.compile or ("blocks" if gpu else "none")
        dtype = {"bf16": torch.bfloat16, "fp32": torch.float32}[precision]
        return Trainer(self.recipe, self.world, dtype, compiled)

    def train(self) -> int:
        """Run all steps that are left, and return the exit status."""
        start = self._resume()
        self._greet(start)
        try:
            status = self._steps(start)
        except DivergedError as error:
            found = self.checkpoints.latest() if self.checkpoints else None
            kept = f"; the last checkpoint is of step {found and found.step}" if self.checkpoints else ""
            self.log.event("diverged", f"STOPPED: {error}{kept}", reason=str(error))
            return EXIT_DIVERGED
        self._summary()
        return status

    def _resume(self) -> int:
        """Return the step after which training goes on."""
        found = self.checkpoints.latest() if self.checkpoints else None
        if found is None or self.checkpoints is None:
            return 0
        step = found.step
        for why in found.passed:
            self.log.event("checkpoint_damaged", f"CHECKPOINT NOT USED: {why}; the one before is used", reason=why)
        begin = time.monotonic()
        self.checkpoints.load(step, self.trainer.model, self.trainer.optimizer)
        took = round(time.monotonic() - begin, 3)
        self.log.event("resume", f"resumed from step {step} in {took} s", step=step, seconds=took)
        return step

    def _greet(self, start: int) -> None:
        """Write what runs where."""
        gpu = self.world.device.type == "cuda"
        name = torch.cuda.get_device_name(self.world.device) if gpu else "CPU"
        recipe, model = self.recipe, self.recipe.model
        self.peak = self.options.peak_tflops or sizes.peak_tflops(name)
        self.log.event(
            "start",
            f"{recipe.name}: {sizes.parameters(model):,} parameters, {self.world.size} x {name},"
            f" torch {torch.__version__},"
            f" {recipe.batch.total} sequences of {model.sequence} tokens a step in {self.trainer.parts} parts",
            recipe=recipe.name,
            first_step=start + 1,
            steps=self.steps,
            ranks=self.world.size,
            device=name,
            hosts=hosts(),
            torch=torch.__version__,
            cuda=torch.version.cuda,
            nccl=".".join(map(str, torch.cuda.nccl.version())) if gpu else None,
            parameters=sizes.parameters(model),
            flops_per_token=sizes.flops_per_token(model),
            peak_tflops=self.peak,
            micro_batch=recipe.batch.micro,
            global_batch=recipe.batch.total,
            sequence=model.sequence,
            job=os.environ.get("SLURM_JOB_ID"),
            restarts=int(os.environ.get("SLURM_RESTART_COUNT") or 0),
        )

    def _steps(self, start: int) -> int:
        """Give the device one step ahead of the one that is waited for."""
        before = None
        fault = Fault(None if start else self.options.fault, self.world.rank)
        for step in range(start + 1, self.steps + 1):
            fault.strike(step, self.trainer)
            pending = self.trainer.step(step, self.stopping)
            stop = bool(before and self._watch(before))
            before = pending
            due = bool(self.every and step % self.every == 0)
            if stop or due or step == self.steps:
                stop = self._watch(before) or stop
                before = None
                self._save(step)
                if stop and step < self.steps:
                    self.log.event("stop", f"stopped by a signal after step {step}", step=step)
                    return EXIT_AGAIN
        return 0 if self.is_kept else EXIT_NO_CHECKPOINT

    def _watch(self, pending: Pending) -> bool:
        """Wait for a step and log it; return whether a rank asked to stop."""
        done = self.trainer.finish(pending)
        speed = self.recipe.batch.total * self.recipe.model.sequence / (done.step_ms / 1000)
        if self.first <= done.step <= self.last:
            self.measured.append(done.step_ms)
        self.recent = [*self.recent[-9:], done.step_ms]
        self.log.event(
            "step",
            self._line(done, speed) if self._told(done.step) else "",
            step=done.step,
            loss=round(done.loss, 6),
            step_ms=round(done.step_ms, 3),
            compute_ms=round(done.compute_ms, 3),
            tokens_per_second=round(speed, 1),
            learning_rate=done.rate,
            gradient_norm=round(done.norm, 5),
        )
        self.log.scalars(
            done.step,
            train_step_timing=done.step_ms / 1000,
            reduced_train_loss=done.loss,
            lr=done.rate,
            grad_norm=done.norm,
            tokens_per_second=speed,
        )
        if times := self.trainer.rank_times():
            self.log.event("ranks", last_step=done.step - 1, compute_ms=[round(value, 3) for value in times])
        return done.stop

    def _told(self, step: int) -> bool:
        return step in (1, self.steps) or step % self.options.print_every == 0

    def _line(self, done: Done, speed: float) -> str:
        left = (self.steps - done.step) * statistics.median(self.recent) / 1000
        return (
            f"step {done.step}/{self.steps}  loss {done.loss:.4f}  {done.step_ms:.1f} ms  {speed:,.0f} tokens/s"
            f"  {int(left // 60)} min {int(left % 60)} s left"
        )

    def _save(self, step: int) -> None:
        """Write a checkpoint; training goes on without it if that fails."""
        if self.checkpoints is None:
            return
        self.trainer.pause()
        begin = time.monotonic()
        try:
            size = self.checkpoints.save(step, self.trainer.model, self.trainer.optimizer)
        except CheckpointError as error:
            self.is_kept = False
            text = f"NO CHECKPOINT of step {step}: {error}"
            self.log.event("checkpoint_failed", text, step=step, reason=str(error))
            return
        self.is_kept = True
        took = round(time.monotonic() - begin, 3)
        text = f"checkpoint of step {step}: {size / 1e9:.3f} GB in {took} s"
        self.log.event("checkpoint", text, step=step, bytes=size, seconds=took)

    def _summary(self) -> None:
        """Write the result: the mean of the measured steps, as the recipe wants it."""
        if not self.measured:
            return
        model, ranks = self.recipe.model, self.world.size
        mean = statistics.fmean(self.measured)
        speed = self.recipe.batch.total * model.sequence / (mean / 1000) / ranks
        use = sizes.mfu(model, speed, self.peak)
        result = {
            "recipe": self.recipe.name,
            "ranks": ranks,
            "micro_batch": self.recipe.batch.micro,
            "steps": f"{self.first}-{self.last}",
            "step_ms": round(mean, 3),
            "step_ms_deviation": round(statistics.pstdev(self.measured), 3),
            "tokens_per_second_per_gpu": round(speed, 1),
            "tflops_per_gpu": round(sizes.tflops(model, speed), 2),
            "mfu": None if use is None else round(use, 4),
            "memory_gib": memory(self.world.device),
        }
        self.log.event("result", f"RESULT {json.dumps(result)}" if self.options.bench else "", **result)


class Fault:
    """A fault that a test asks for."""

    def __init__(self, text: str | None, rank: int) -> None:
        """Read kind, number and rank."""
        self.kind, number, victim = ([*(text or "").split(":"), "", ""])[:3]
        self.number = int(number or 0)
        self.mine = int(victim or 0) == rank

    def strike(self, step: int, trainer: Trainer) -> None:
        """Do it, if it is its time and this is its rank."""
        if self.kind == "slow" and self.mine:
            time.sleep(self.number / 1000)
        if step != self.number or not self.mine:
            return
        if self.kind == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if self.kind == "nan":
            with torch.no_grad():
                trainer.weights()[0].fill_(float("nan"))


def span(options: argparse.Namespace, recipe: Recipe, steps: int) -> tuple[int, int]:
    """Return the first and the last measured step: those of the recipe, or the second half of a shorter run."""
    if options.measure:
        first, _dash, last = options.measure.partition("-")
        return int(first), int(last)
    if recipe.proof.last <= steps:
        return recipe.proof.first, recipe.proof.last
    return steps // 2 + 1, steps


def choose_attention(kind: str) -> None:
    """Allow one fused kernel of the attention, and the plain one where that cannot be used."""
    if kind == "auto":
        return
    backends = torch.backends.cuda
    backends.enable_flash_sdp(kind == "flash")
    backends.enable_mem_efficient_sdp(kind == "efficient")
    backends.enable_cudnn_sdp(kind == "cudnn")
    backends.enable_math_sdp(True)


def memory(device: torch.device) -> float | None:
    """Return the most memory that tensors had on a GPU, in GiB."""
    return round(torch.cuda.max_memory_allocated(device) / sizes.GIB, 2) if device.type == "cuda" else None


def hosts() -> list[str]:
    """Return the host of each rank; all ranks must call it."""
    found: list[t.Any] = [None] * dist.get_world_size()
    dist.all_gather_object(found, socket.gethostname())
    return found
