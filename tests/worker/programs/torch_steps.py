"""DDP without end: says every twentieth step, and when it trains again after a restart."""

import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from cotenant_worker import context, report

torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(1, 1_000_000):
    optimizer.zero_grad()
    model(torch.randn(8, 16)).pow(2).mean().backward()
    optimizer.step()
    report(step=step)
    if step == 1 and context().restart:
        print(f"again {time.time()}", flush=True)
    if step % 20 == 0 and step < 200:
        print(f"step {step}", flush=True)
    time.sleep(0.01)
