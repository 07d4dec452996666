"""torch's elastic agent by its Python API: the program is the launcher, with a rendezvous of its own."""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.distributed.launcher.api import LaunchConfig, elastic_launch
from torch.nn.parallel import DistributedDataParallel


def train(options: argparse.Namespace) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    path = os.path.join(options.out, "snapshot.pt")
    model = torch.nn.Linear(4, 1)
    begin = 0
    if os.path.exists(path):
        saved = torch.load(path)
        model.load_state_dict(saved["model"])
        begin = saved["step"]
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if rank == 0:
        print("starts at", begin, "of", dist.get_world_size(), flush=True)
    for step in range(begin + 1, options.steps + 1):
        if step == options.bad_batch and rank == 1:
            raise ValueError(f"bad batch {step}")
        time.sleep(0.02)
        optimizer.zero_grad()
        model(torch.randn(2, 4)).square().mean().backward()
        optimizer.step()
        if rank == 0:
            torch.save({"model": model.module.state_dict(), "step": step}, path + ".new")
            os.replace(path + ".new", path)
            print("step", step, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int)
    parser.add_argument("--out")
    parser.add_argument("--bad-batch", type=int, default=-1)
    options = parser.parse_args()
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=2,
        run_id="own",
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,  # After a restart, gloo may find the addresses of the last attempt in the agent's store.
    )
    elastic_launch(config, train)(options)
