# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""
Checkpoints of all ranks, by torch.distributed.checkpoint. Training stands still while one is written.

A checkpoint is a directory C(step-00000120). It has another name until the files of all ranks are on the disk. So a job
that dies while it writes, or a full disk, leaves the checkpoint before.

PyTorch reads parts of a checkpoint as pickles, which are programs. So nothing is read that another user can write.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
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
_NAME = re.compile("step-[0-9]{8}")
_Result = t.TypeVar("_Result")


class CheckpointError(Exception):
    """A checkpoint cannot be written or read; the message names the cause."""


class Found(t.NamedTuple):
    """The checkpoint to go on from, and why newer ones are not used."""

    step: int
    passed: list[str]


class Checkpoints:
    """The checkpoints of one run in a directory that all ranks share."""

    def __init__(self, directory: Path, rank: int) -> None:
        """Remove what an interrupted run left incomplete."""
        self.directory, self.rank = directory.absolute(), rank
        # What a group may write is not read again.
        os.umask(os.umask(0o077) | 0o022)
        self._together(lambda: tidy(self.directory))

    def latest(self) -> Found | None:
        """Return the last checkpoint that is whole, as the first rank sees it."""
        return self._together(lambda: latest(self.directory))

    def save(self, step: int, model: nn.Module, optimizer: optim.Optimizer) -> int:
        """Write the state after a step, and return its bytes."""
        needed = int(sum(weight.numel() for weight in model.parameters()) * BYTES)
        part = self._together(lambda: begin(self.directory, step, needed))
        weights, moments = get_state_dict(model, optimizer)
        try:
            # The first rank writes .metadata when the files of all ranks are on the disk.
            dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=str(part))
        # Each storage has its own error. PyTorch raises it on all ranks as one that is no Exception.
        except (Exception, dcp.CheckpointException) as error:
            # Of a full disk, PyTorch says no more than that a position in a file is wrong.
            free = self._together(lambda: drop(part))
            raise CheckpointError(f"{reason(error)}; {free} bytes were free in {self.directory}") from error
        return self._together(lambda: publish(self.directory, part, step))

    def load(self, step: int, model: nn.Module, optimizer: optim.Optimizer) -> None:
        """Set model and optimizer to a checkpoint, which another number of ranks may have written."""
        weights, moments = get_state_dict(model, optimizer)
        dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=str(self.directory / name(step)))
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)

    def _together(self, work: t.Callable[[], _Result]) -> _Result:
        """Let the first rank work; all ranks get its result or its error."""
        found: list[t.Any] = [_attempt(work) if self.rank == 0 else None]
        dist.broadcast_object_list(found, src=0)
        result, error = found[0]
        if error:
            raise error
        return t.cast("_Result", result)


def name(step: int) -> str:
    """Return the name of a complete checkpoint."""
    return f"step-{step:08d}"


def tidy(directory: Path) -> None:
    """Make the directory, refuse one that others can write, and remove what an interrupted run left incomplete."""
    trust.check_above(str(directory), trust.trusted_above())
    directory.mkdir(parents=True, exist_ok=True)
    trust.check(str(directory), trust.trusted(), trust.trusted_above())
    for part in directory.glob("step-*.part"):
        shutil.rmtree(part, ignore_errors=True)


def begin(directory: Path, step: int, needed: int) -> Path:
    """
    Make the directory of a checkpoint that is not complete, if there is room for it.

    No two starts of a run use the same one: a rank of an earlier start may come back with its node, and write on.
    """
    free = shutil.disk_usage(directory).free
    if free < needed:
        text = f"step {step} needs {needed} bytes, {free} are free in {directory}"
        raise CheckpointError(f"No space left on device: {text}")
    part = directory / f"{name(step)}.{secrets.token_hex(4)}.part"
    part.mkdir()
    return part


def drop(part: Path) -> int:
    """Remove what could not be written, and return the bytes that were free."""
    free = shutil.disk_usage(part).free
    shutil.rmtree(part, ignore_errors=True)
    return free


def publish(directory: Path, part: Path, step: int) -> int:
    """Give a checkpoint its name, remove older ones, and return its bytes."""
    if fault := damage(part):
        raise CheckpointError(fault)
    whole = directory / name(step)
    _sync(part)
    shutil.rmtree(whole, ignore_errors=True)
    part.rename(whole)
    _sync(directory)
    # Those of later steps are of a past that this run did not go on from.
    names = complete(directory)
    kept = [one for one in names if one <= whole.name][-KEEP:]
    for one in set(names) - set(kept):
        shutil.rmtree(directory / one, ignore_errors=True)
    return sum(file.stat().st_size for file in whole.iterdir())


def complete(directory: Path) -> list[str]:
    """Return the names of the complete checkpoints, the last one at the end."""
    return sorted(path.name for path in directory.iterdir() if _NAME.fullmatch(path.name))


def latest(directory: Path) -> Found | None:
    """Return the last complete checkpoint that is whole; nothing if none was ever complete."""
    passed = list[str]()
    for one in reversed(complete(directory)):
        fault = damage(directory / one)
        if not fault:
            return Found(int(one.rpartition("-")[2]), passed)
        passed.append(f"{one} is damaged: {fault}")
    if passed:
        raise CheckpointError(f"no checkpoint in {directory} is whole: {'; '.join(passed)}")
    return None


def damage(whole: Path) -> str:
    """Return what is missing of a checkpoint, by what PyTorch says of its files."""
    trust.check(str(whole), trust.trusted(), trust.trusted_above())
    trust.check_content(str(whole), trust.trusted())
    sizes: dict[str, int] = {}
    try:
        for block in dcp.FileSystemReader(str(whole)).read_metadata().storage_data.values():
            sizes[block.relative_path] = max(sizes.get(block.relative_path, 0), block.offset + block.length)
    except FileNotFoundError:
        return ".metadata is missing"
    except Exception as error:  # a pickle that is cut can raise anything
        return f".metadata cannot be read: {reason(error)}"
    for file, size in sorted(sizes.items()):
        path = whole / file
        found = path.stat().st_size if path.exists() else 0
        if found < size:
            return f"{file} has {found} bytes of {size}"
    return ""


def _sync(directory: Path) -> None:
    """Write the names in a directory to the disk."""
    number = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


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
