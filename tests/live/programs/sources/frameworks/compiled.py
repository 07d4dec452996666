"""torch.compile on the CPU, whose code a C++ compiler makes."""

import argparse
import os
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out")
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()


@torch.compile
def loss_of(weights: torch.Tensor) -> torch.Tensor:
    return (weights.sin() + 1).square().sum()


path = os.path.join(options.out, "weights.pt")
begin, values = torch.load(path) if os.path.exists(path) else (0, torch.ones(8))
weights = values.requires_grad_()
print("starts at", begin)
for step in range(begin + 1, options.steps + 1):
    if step == options.bad_batch:
        raise ValueError(f"bad batch {step}")
    time.sleep(0.02)
    loss_of(weights).backward()
    weights.data -= 0.01 * weights.grad
    weights.grad = None
    torch.save((step, weights.detach()), path + ".new")
    os.replace(path + ".new", path)
    print("step", step)
