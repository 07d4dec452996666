"""Two ranks train; rank 1 does not come to the tenth collective and waits for something else for ever."""

import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(1_000_000):
    if step == 10 and dist.get_rank() == 1:
        time.sleep(3600)  # the line that the verdict names
    dist.all_reduce(torch.ones(1))
