"""Accelerate: prepare, a loop, save_state; started by `accelerate launch`."""

import argparse
import time
from pathlib import Path

import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out", type=Path)
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()

accelerator = Accelerator(cpu=True)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
model, optimizer = accelerator.prepare(model, optimizer)
saved = sorted(options.out.glob("state-*[0-9]"))
begin = 0
if saved:
    accelerator.load_state(saved[-1])
    begin = int(saved[-1].name.split("-")[1])
print("starts at", begin, "with", accelerator.num_processes, "in", accelerator.mixed_precision)
for step in range(begin + 1, options.steps + 1):
    if step == options.bad_batch:
        raise ValueError(f"bad batch {step}")
    time.sleep(0.02)
    loss = model(torch.randn(2, 4)).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    if step % 2 == 0:
        accelerator.save_state(options.out / "writing")
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            (options.out / "writing").rename(options.out / f"state-{step:06d}")
        accelerator.wait_for_everyone()
    accelerator.print("step", step)
accelerator.end_training()
