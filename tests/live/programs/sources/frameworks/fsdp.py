"""FSDP2 over two ranks with a distributed checkpoint."""

import argparse
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out", type=Path)
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()

dist.init_process_group("gloo")
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 2))
fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
saved = sorted(options.out.glob("step-*[0-9]"))
begin = 0
if saved:
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=saved[-1])
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    begin = int(saved[-1].name.removeprefix("step-"))
print("starts at", begin)
for step in range(begin + 1, options.steps + 1):
    if step == options.bad_batch:
        raise ValueError(f"bad batch {step}")
    time.sleep(0.02)
    optimizer.zero_grad()
    model(torch.randn(2, 8)).square().mean().backward()
    optimizer.step()
    if step % 2 == 0:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=options.out / "writing")
        dist.barrier()
        if dist.get_rank() == 0:
            (options.out / "writing").rename(options.out / f"step-{step:06d}")
        dist.barrier()
    print("step", step)
dist.destroy_process_group()
