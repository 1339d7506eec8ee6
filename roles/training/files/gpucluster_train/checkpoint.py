# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Checkpoints of all ranks, written by torch.distributed.checkpoint while the training goes on.

Training stands still while the state is copied to memory. A thread of each rank then writes it, to a local drive if the
job names one, and copies it to the directory that all nodes share. When the files of all ranks are there, the first
rank gives the checkpoint its name. One checkpoint at most is on its way; the next one waits for it.

PyTorch reads parts of a checkpoint as pickles, which are programs. So nothing is read that another user can write.
"""

from __future__ import annotations

import copy
import os
import shutil
import socket
import threading
import time
import typing as t

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from . import store, trust
from .store import CheckpointError

if t.TYPE_CHECKING:
    from pathlib import Path

    from torch import nn, optim

# Bytes for each weight: FP32 weight and two moments, and a fifth more for names and for the ends of blocks.
BYTES = 14.4
_Result = t.TypeVar("_Result")


def can_go_on() -> bool:
    """Return whether this PyTorch can write a checkpoint while the training goes on."""
    return hasattr(dcp, "async_save")


class Written(t.NamedTuple):
    """What became of a checkpoint; the fault is empty if all is well."""

    step: int
    bytes: int
    seconds: float
    fault: str


class Checkpoints:
    """The checkpoints of one run in a directory that all ranks share."""

    def __init__(self, directory: Path, rank: int, group: t.Any, local: Path | None = None, wait: bool = False) -> None:
        """
        Remove what an interrupted run left incomplete.

        Threads use the group, beside the collectives of the training. With O(wait), training stands still until all is
        written.
        """
        self.directory, self.rank = directory.absolute(), rank
        self.wait = wait or not can_go_on()
        # What a group may write is not read again.
        os.umask(os.umask(0o077) | 0o022)
        self.group = group
        self.ranks = dist.get_world_size()
        self._together(lambda: store.tidy(self.directory))
        self.local = self._each(lambda: store.local(local, self.directory, rank)) if local else None
        hosts = self._gather(socket.gethostname())
        self.neighbours = hosts.count(hosts[rank])
        self.writer = Writer(str(self.directory), sync_files=self.local is None)
        self.thread: threading.Thread | None = None
        self.found: Written | None = None

    def latest(self) -> store.Found | None:
        """Return the last checkpoint that is whole, as the first rank sees it."""
        return self._together(lambda: store.latest(self.directory))

    def save(self, step: int, model: nn.Module, optimizer: optim.Optimizer, about: dict[str, t.Any]) -> None:
        """Begin to write the state after a step. Call result() before and after."""
        began = time.monotonic()
        try:
            part = self._room(step, int(sum(weight.numel() for weight in model.parameters()) * BYTES))
        except CheckpointError as error:
            self.found = Written(step, 0, 0.0, str(error))
            return
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "about": about}
        where = self.local / store.name(step) if self.local else part
        given: t.Any = {"checkpoint_id": str(where), "storage_writer": self.writer, "process_group": self.group}
        if self.wait:
            self._complete(lambda: dcp.save(state, **given), where, part, step, began)
            return
        # PyTorch copies the state here, and writes it in a thread of its own.
        written: t.Any = dcp.async_save(state, **given)
        self.thread = threading.Thread(
            target=self._complete, args=(written.result, where, part, step, began), daemon=True
        )
        self.thread.start()

    def ready(self) -> bool:
        """Return whether a checkpoint is published, or has failed, and result() does not wait."""
        return self.found is not None

    def join(self) -> None:
        """Wait until no checkpoint is on its way."""
        if self.thread:
            self.thread.join()

    def result(self) -> Written | None:
        """Wait for the checkpoint on its way, and return once what became of it; nothing if there is none."""
        self.join()
        found, self.thread, self.found = self.found, None, None
        return found

    def _complete(self, write: t.Callable[[], t.Any], where: Path, part: Path, step: int, began: float) -> None:
        """Write, copy and publish; all ranks do it in the same order."""
        fault, sizes, size = "", store.Sizes(), 0
        try:
            write()
            if self.local:
                sizes = store.copy(where, part)
        except Exception as error:  # each storage and each rank has its own
            fault = reason(error)
        try:
            reports = self._gather((fault, sizes))
            fault = ""
            size = self._together(lambda: self._publish(part, step, reports))
            if self.local:
                store.prune(self.local, step)
        except Exception as error:  # such as a rank that is gone
            fault = str(error) if isinstance(error, CheckpointError) else reason(error)
            if self.local:
                shutil.rmtree(where, ignore_errors=True)
        self.found = Written(step, size, round(time.monotonic() - began, 3), fault)

    def _room(self, step: int, needed: int) -> Path:
        """
        Return the directory of a new checkpoint, if the shared storage and all local drives have room for it.

        Some versions of PyTorch cannot tell the other ranks that a rank has no space, so it is looked for before.
        """
        part = self._together(lambda: self._begin(step, needed))
        if self.local:
            drive, on_node = self.local, needed * self.neighbours // self.ranks
            try:
                self._each(lambda: store.room(drive, on_node, f"step {step}"))
            except CheckpointError:
                self._together(lambda: shutil.rmtree(part))
                raise
        return part

    def _begin(self, step: int, needed: int) -> Path:
        store.room(self.directory, needed, f"step {step}")
        return store.begin(self.directory, step)

    def _publish(self, part: Path, step: int, reports: list[tuple[str, store.Sizes]]) -> int:
        try:
            for fault, _sizes in reports:
                if fault:
                    raise CheckpointError(fault)
            return store.publish(self.directory, part, step, [sizes for _fault, sizes in reports])
        except (CheckpointError, OSError):
            shutil.rmtree(part, ignore_errors=True)
            raise

    def _gather(self, mine: _Result) -> list[_Result]:
        found: list[t.Any] = [None] * self.ranks
        dist.all_gather_object(found, mine, group=self.group)
        return found

    def _each(self, work: t.Callable[[], _Result]) -> _Result:
        """Let each rank work; an error of one is that of all."""
        result, error = _attempt(work)
        for one in self._gather(error):
            if one:
                raise one
        return t.cast("_Result", result)

    def _together(self, work: t.Callable[[], _Result]) -> _Result:
        """Let the first rank work; all ranks get its result or its error."""
        found: list[t.Any] = [_attempt(work) if self.rank == 0 else None]
        dist.broadcast_object_list(found, src=0, group=self.group)
        result, error = found[0]
        if error:
            raise error
        return t.cast("_Result", result)

    def load(self, step: int, model: nn.Module, optimizer: optim.Optimizer) -> dict[str, t.Any]:
        """Set model and optimizer to a checkpoint, and return what was written about it."""
        weights, moments = get_state_dict(model, optimizer)
        state: dict[str, t.Any] = {"model": weights, "optimizer": moments, "about": {"step": 0, "sequences": 0}}
        dcp.load(state, checkpoint_id=str(self.directory / store.name(step)))
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        about: dict[str, t.Any] = state["about"]
        return about


class Writer(dcp.FileSystemWriter):
    """
    PyTorch's writer, with a copy of the state in memory of its own.

    That of PyTorch 2.6 is no copy for tensors of the CPU. The memory is kept, and pinned for GPUs: a new one is slower.
    """

    staged: t.Any = None

    def stage(self, state_dict: dict[str, t.Any]) -> dict[str, t.Any]:
        """Return a copy that training does not change."""
        self.per_thread_copy_ahead = 0
        self.staged = staged(state_dict, self.staged)
        if torch.cuda.is_available():
            torch.cuda.current_stream().synchronize()
        return t.cast("dict[str, t.Any]", self.staged)


def staged(value: t.Any, kept: t.Any) -> t.Any:
    """Copy a value to the host, into the memory of an earlier copy if there is one."""
    if isinstance(value, dict):
        before = kept if isinstance(kept, dict) else {}
        return {key: staged(one, before.get(key)) for key, one in value.items()}
    if not isinstance(value, torch.Tensor):
        return copy.deepcopy(value)
    value = value.detach()
    if not isinstance(kept, torch.Tensor) or kept.shape != value.shape or kept.dtype != value.dtype:
        if not value.is_cuda or hasattr(value, "to_local"):
            return value.to("cpu", copy=True)
        kept = torch.empty_like(value, device="cpu", pin_memory=True)
    _own(kept).copy_(_own(value), non_blocking=True)
    return kept


def _own(value: t.Any) -> t.Any:
    """Return what this rank has of a tensor that may be split over ranks."""
    return value.to_local() if hasattr(value, "to_local") else value


def _attempt(work: t.Callable[[], _Result]) -> tuple[_Result | None, Exception | None]:
    """Return what the work returns, or its error."""
    try:
        return work(), None
    except (CheckpointError, trust.TrustError) as error:
        return None, error
    except OSError as error:
        return None, CheckpointError(str(error))


def reason(error: BaseException) -> str:
    """Return the first cause of an error that ranks report together, in one line."""
    for cause in getattr(error, "failures", {}).values():
        return reason(cause[0])
    if error.__context__ and not isinstance(error, OSError):
        return reason(error.__context__)
    return f"{type(error).__name__}: {error}".splitlines()[0]
