# Copyright: Contributors to the hpcai.gpucluster project
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A training as a user writes it, with a checkpoint: plain.py CHECKPOINT STEPS EVERY PAUSE."""

import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

path, steps, every, pause = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
torch.manual_seed(1)
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
model = torch.nn.Sequential(torch.nn.Linear(64, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 8)).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
start = 0
if path.exists():
    state = torch.load(path, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    start = state["step"]
model = DistributedDataParallel(model)
for step in range(start + 1, steps + 1):
    batch = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(512, 64, generator=batch).to(device)
    loss = torch.nn.functional.mse_loss(model(inputs), inputs[:, :8].sin())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    if rank == 0:
        print(f"step {step} loss {mean.item() / dist.get_world_size():.6f}", flush=True)
        if step % every == 0:
            part = path.with_suffix(".part")
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, part)
            part.replace(path)
    time.sleep(pause)  # work: a step of a large model
dist.destroy_process_group()
