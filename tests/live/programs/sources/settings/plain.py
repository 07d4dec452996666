"""A loop with argparse, a handler of SIGTERM and a checkpoint file of its own."""

import argparse
import os
import signal
import sys
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--out", required=True)
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()

leaving = []
signal.signal(signal.SIGTERM, lambda *_: leaving.append(True))
path = os.path.join(options.out, "model.pt")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
begin = 0
if os.path.exists(path):
    saved = torch.load(path)
    model.load_state_dict(saved["model"])
    begin = saved["step"]
print("starts at", begin)
for step in range(begin + 1, options.steps + 1):
    if step == options.bad_batch:
        raise ValueError(f"bad batch {step}")
    time.sleep(0.02)
    optimizer.zero_grad()
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
    print("step", step)
    if leaving:
        torch.save({"model": model.state_dict(), "step": step}, path + ".new")
        os.replace(path + ".new", path)
        sys.exit(0)
