# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a rank runs: its number, its device, and how the model is split over all ranks."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import os
import typing as t

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from .network import interface

if t.TYPE_CHECKING:
    from collections.abc import Iterator

    from .model import Decoder
    from .place import Rank

# Minutes that a collective may wait for a rank. Slurm ends the step earlier when a rank dies.
PATIENCE = 30
# Process groups that have ended, or will. They are kept, because their destructor can wait for ever (see ending.py).
_ENDED: list[t.Any] = []


@dataclasses.dataclass(frozen=True)
class World:
    """One rank of all."""

    rank: int
    size: int
    local: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Return whether this rank writes the log."""
        return self.rank == 0


def place(rank: Rank, device: str) -> World:
    """Return a rank with its device; Slurm may show a task its own GPU only."""
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    index = rank.local % torch.cuda.device_count() if device == "cuda" else None
    return World(*rank, torch.device(device, index))


@contextlib.contextmanager
def joined(world: World) -> Iterator[None]:
    """Join the process group: NCCL between GPUs, gloo between CPUs."""
    gpu = world.device.type == "cuda"
    if gpu:
        torch.cuda.set_device(world.device)
    else:
        os.environ.setdefault("USE_LIBUV", "0")  # Debian's torch is built without libuv
    for name, value in (("RANK", world.rank), ("WORLD_SIZE", world.size)):
        os.environ[name] = str(value)
    if world.size == 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=os.environ.get("MASTER_PORT", "0"))
    elif "GLOO_SOCKET_IFNAME" not in os.environ:
        # Gloo tells the other ranks what the machine's own name resolves to, which may be 127.0.1.1.
        hosts = os.environ.get("GPUCLUSTER_HOSTS") or os.environ.get("MASTER_ADDR", "")
        if found := interface(hosts.split()):
            os.environ["GLOO_SOCKET_IFNAME"] = found
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if gpu else "gloo",
        timeout=datetime.timedelta(minutes=PATIENCE),
        device_id=world.device if gpu else None,
    )
    try:
        yield
    finally:
        _ENDED.append(dist.group.WORLD)
        dist.destroy_process_group()


def split(model: Decoder, kind: str, world: World, compiled: str, micro_batches: int) -> nn.Module:
    """Compile the model and split it: a copy on each rank (ddp), or shards of the weights (fsdp)."""
    if compiled == "blocks":
        for block in model.blocks:
            block.compile()
        model.embed = torch.compile(model.embed)  # type: ignore[method-assign]
        model.loss = torch.compile(model.loss)  # type: ignore[method-assign]
    if kind == "fsdp":
        return _sharded(model, world)
    wrapped: nn.Module = model
    if world.size > 1:
        gpu = world.device.type == "cuda"
        wrapped = nn.parallel.DistributedDataParallel(
            model,
            device_ids=[world.device] if gpu else None,
            gradient_as_bucket_view=True,
            # Gradients that are added up over micro-batches are no static graph for DDP.
            static_graph=micro_batches == 1 and compiled == "none",
        )
    return torch.compile(wrapped) if compiled == "model" else wrapped  # type: ignore[return-value]


def _sharded(model: Decoder, world: World) -> nn.Module:
    """Shard each layer, and what is left as one more unit; gradients are summed in FP32."""
    mesh = init_device_mesh(world.device.type, (world.size,))
    policy = MixedPrecisionPolicy(param_dtype=model.dtype, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)  # type: ignore[return-value]


@contextlib.contextmanager
def last_only(model: nn.Module, last: bool) -> Iterator[None]:
    """Reduce gradients over the ranks after the last micro-batch only."""
    inner: t.Any = getattr(model, "_orig_mod", model)
    if hasattr(inner, "set_requires_gradient_sync"):
        inner.set_requires_gradient_sync(last)
        yield
    elif hasattr(inner, "no_sync") and not last:
        with inner.no_sync():
            yield
    else:
        yield


def whole(value: Tensor) -> Tensor:
    """Return a value that may be split over ranks as one tensor."""
    return value.full_tensor() if hasattr(value, "full_tensor") else value
