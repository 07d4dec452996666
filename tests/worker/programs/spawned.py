"""Trains in a process of its own making that has another RANK; then rank 1 leaves the other waiting."""

import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train(index: int, rank: int) -> None:
    os.environ["RANK"] = str(7 + rank)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="env://", rank=rank, world_size=2)
    model = DistributedDataParallel(torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(8, 16)).pow(2).mean().backward()
        optimizer.step()
        time.sleep(0.05)
    if rank == 1:
        time.sleep(1000)
    dist.barrier()


if __name__ == "__main__":
    torch.multiprocessing.spawn(train, args=(int(os.environ["RANK"]),), nprocs=1)
