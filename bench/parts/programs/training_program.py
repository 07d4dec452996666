"""A program whose steps are timed: a small convolutional net on random images, DDP over gloo or NCCL.

Ordinary torchrun style. Rank 0 prints `REDUCED <unix time>` after its first all-reduce, `FIRST <unix time>` after its
first step, `STEPS <JSON list of [unix time, ms a step]>`, a block of steps each, at the end.
"""

from __future__ import annotations

import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

BLOCK = 20

turns = int(sys.argv[1])
torch.set_num_threads(1)
dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
device = torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
dist.all_reduce(torch.ones(1, device=device))
if dist.get_rank() == 0:
    print(f"REDUCED {time.time()}", flush=True)
torch.manual_seed(dist.get_rank())
images = torch.rand(1797, 1, 8, 8, device=device)
labels = torch.randint(10, (1797,), device=device)
net = nn.Sequential(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1024, 10))
model = DistributedDataParallel(net.to(device))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
blocks: list[tuple[float, float]] = []
for _ in range(turns):
    begin = time.perf_counter()
    for _step in range(BLOCK):
        pick = torch.randint(len(labels), (64,), device=device)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[pick]), labels[pick]).backward()
        optimizer.step()
        if not blocks and dist.get_rank() == 0:
            print(f"FIRST {time.time()}", flush=True)
            blocks.append((0.0, 0.0))
    blocks.append((time.time(), (time.perf_counter() - begin) / BLOCK * 1e3))
if dist.get_rank() == 0:
    print(f"STEPS {json.dumps(blocks[2:])}", flush=True)
dist.destroy_process_group()
