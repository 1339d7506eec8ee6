# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Checkpoints of all ranks, written by torch.distributed.checkpoint.

A checkpoint is a directory C(step-00000120). It has another name until it is complete, and the file C(latest) names the
last complete one. So a job that dies while it writes, or a full disk, leaves the checkpoint before.

PyTorch reads parts of a checkpoint as pickles, which are programs. So nothing is read that another user can write.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import typing as t

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from . import trust

if t.TYPE_CHECKING:
    from pathlib import Path

    from torch import nn, optim

KEEP = 2
# Bytes for each weight: FP32 weight and two moments, and a fifth more for names and for the ends of blocks.
BYTES = 14.4
_PART = ".part"
_NAME = re.compile("step-[0-9]{8}")
_Result = t.TypeVar("_Result")


class CheckpointError(Exception):
    """A checkpoint cannot be written or read; the message names the cause."""


class Checkpoints:
    """The checkpoints of one run in a directory that all ranks share."""

    def __init__(self, directory: Path, rank: int) -> None:
        """Remove what an interrupted run left incomplete."""
        self.directory, self.rank = directory.absolute(), rank
        # What a group may write is not read again.
        os.umask(os.umask(0o077) | 0o022)
        self._together(self._tidy)

    def _tidy(self) -> None:
        trust.check_above(str(self.directory), trust.trusted_above())
        self.directory.mkdir(parents=True, exist_ok=True)
        trust.check(str(self.directory), trust.trusted(), trust.trusted_above())
        for part in self.directory.glob(f"step-*{_PART}"):
            shutil.rmtree(part, ignore_errors=True)

    def latest(self) -> int | None:
        """Return the step of the last complete checkpoint, as the first rank sees it."""
        return self._together(self._latest)

    def _latest(self) -> int | None:
        try:
            name = (self.directory / "latest").read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            return None
        if not (_NAME.fullmatch(name) and (self.directory / name / ".metadata").is_file()):
            raise CheckpointError(f"{self.directory / 'latest'} names {name}, but that is no complete checkpoint")
        trust.check(str(self.directory / name), trust.trusted(), trust.trusted_above())
        trust.check_content(str(self.directory / name), trust.trusted())
        return int(name.rpartition("-")[2])

    def save(
        self, step: int, model: nn.Module, optimizer: optim.Optimizer, about: dict[str, t.Any]
    ) -> dict[str, t.Any]:
        """Write the state after a step; return its bytes and seconds. The message of an error names the cause."""
        begin = time.monotonic()
        name = f"step-{step:08d}"
        part = self.directory / f"{name}{_PART}"
        # Some versions of PyTorch cannot tell the other ranks that a rank has no space, so it is looked for before.
        self._together(lambda: self._room(step, sum(weight.numel() for weight in model.parameters())))
        weights, moments = get_state_dict(model, optimizer)
        fault = None
        try:
            dcp.save({"model": weights, "optimizer": moments, "about": about}, checkpoint_id=str(part))
        except Exception as error:  # each storage and each rank has its own
            fault = reason(error)
        size = self._together(lambda: self._publish(part, name, fault))
        return {"step": step, "bytes": size, "seconds": round(time.monotonic() - begin, 3)}

    def _room(self, step: int, weights: int) -> int:
        """Refuse a checkpoint that does not fit on the file system."""
        space, needed = shutil.disk_usage(self.directory).free, int(weights * BYTES)
        if space < needed:
            raise CheckpointError(f"No space left on device: step {step} needs {needed} bytes, {space} are free")
        return space

    def _together(self, work: t.Callable[[], _Result]) -> _Result:
        """Let the first rank work; all ranks get its result or its error."""
        found: list[t.Any] = [None]
        if self.rank == 0:
            try:
                found = [work()]
            except (CheckpointError, trust.TrustError) as error:
                found = [error]
            except OSError as error:
                found = [CheckpointError(str(error))]
        dist.broadcast_object_list(found, src=0)
        result: _Result | Exception = found[0]
        if isinstance(result, Exception):
            raise result
        return result

    def _publish(self, part: Path, name: str, fault: str | None) -> int:
        """Give a complete checkpoint its name, point to it, and remove old ones; return its bytes."""
        if fault:
            shutil.rmtree(part, ignore_errors=True)
            raise CheckpointError(fault)
        whole = self.directory / name
        size = sum(file.stat().st_size for file in part.rglob("*") if file.is_file())
        shutil.rmtree(whole, ignore_errors=True)
        part.rename(whole)
        pointer = self.directory / "latest.part"
        with pointer.open("w", encoding="utf-8") as file:
            file.write(f"{name}\n")
            file.flush()
            os.fsync(file.fileno())
        pointer.rename(self.directory / "latest")
        for old in sorted(self.directory.glob("step-????????"))[:-KEEP]:
            shutil.rmtree(old, ignore_errors=True)
        return size

    def load(self, step: int, model: nn.Module, optimizer: optim.Optimizer) -> dict[str, t.Any]:
        """Set model and optimizer to a checkpoint, and return what was written about it."""
        weights, moments = get_state_dict(model, optimizer)
        state: dict[str, t.Any] = {"model": weights, "optimizer": moments, "about": {"step": 0, "sequences": 0}}
        dcp.load(state, checkpoint_id=str(self.directory / f"step-{step:08d}"))
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        about: dict[str, t.Any] = state["about"]
        return about


def reason(error: BaseException) -> str:
    """Return the first cause of an error that ranks report together, in one line."""
    for cause in getattr(error, "failures", {}).values():
        return reason(cause[0])
    if error.__context__ and not isinstance(error, OSError):
        return reason(error.__context__)
    return f"{type(error).__name__}: {error}".splitlines()[0]
