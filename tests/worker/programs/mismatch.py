"""Two ranks train in a group of their own; then one reduces in the job's while the other broadcasts, for ever."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
group = dist.new_group([0, 1])
until = time.monotonic() + 8  # longer than the job's patience: what goes on in a group of some ranks counts too
while True:
    over = torch.tensor(float(time.monotonic() > until))
    dist.all_reduce(over, group=group)
    if over:
        break
if dist.get_rank() == 0:
    dist.all_reduce(torch.ones(1))
else:
    dist.broadcast(torch.ones(1), 0)
dist.barrier()
