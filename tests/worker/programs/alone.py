"""Trains for 25 steps with one optimizer or none; the word after the file name says how its ranks meet."""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

how, address = sys.argv[1:]


def train(_index: int = 0) -> None:
    if how in ("met", "met for nothing", "children", "children that meet"):
        dist.init_process_group("gloo", init_method=f"tcp://{address}", rank=0, world_size=1)
    if how == "remote":
        options = torch.distributed.rpc.TensorPipeRpcBackendOptions(init_method=f"tcp://{address}")
        torch.distributed.rpc.init_rpc("one", rank=0, world_size=1, rpc_backend_options=options)
    model = torch.nn.Linear(4, 1)
    if how in ("met", "children that meet"):
        model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(25):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()
        if how != "by hand":
            optimizer.step()
            continue
        for parameter in model.parameters():
            parameter.data.add_(parameter.grad, alpha=-0.01)
    print("trained", flush=True)


if __name__ == "__main__":
    if how.startswith("children"):
        torch.multiprocessing.start_processes(train, nprocs=1, start_method="fork")
    else:
        train()
