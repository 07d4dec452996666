"""Starts like detectron2's launch(): mp.spawn makes one process per GPU, and they meet at a port of their own."""

import argparse
import os
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def train(rank: int, world: int, options: argparse.Namespace) -> None:
    leaving = []
    signal.signal(signal.SIGTERM, lambda *_: leaving.append(True))
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{options.port}", rank=rank, world_size=world)
    path = os.path.join(options.out, "model.pt")
    model = torch.nn.Linear(4, 1)
    begin = 0
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        begin = saved["step"]
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if rank == 0:
        print("starts at", begin, "of", world, flush=True)
    for step in range(begin + 1, options.steps + 1):
        if step == options.bad_batch and rank == 1:
            raise ValueError(f"bad batch {step}")
        time.sleep(0.02)
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().mean().backward()
        optimizer.step()
        if rank == 0:
            print("step", step, flush=True)
        wanted = torch.tensor([len(leaving)])
        dist.all_reduce(wanted)
        if wanted.item():
            if rank == 0:
                torch.save({"model": model.module.state_dict(), "step": step}, path)
            dist.barrier()
            sys.exit(0)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out")
    parser.add_argument("--port", type=int)
    parser.add_argument("--bad-batch", type=int, default=-1)
    options = parser.parse_args()
    world = len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))
    mp.spawn(train, args=(world, options), nprocs=world)
