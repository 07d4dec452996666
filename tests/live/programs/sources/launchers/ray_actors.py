"""Ray in one program: two actors compute gradients, the driver averages them, steps and saves."""

import argparse
import os

import ray
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--out")
parser.add_argument("--bad-batch", type=int, default=-1)
options = parser.parse_args()


@ray.remote(num_cpus=0)
class Worker:
    def gradient(self, weights: torch.Tensor, step: int) -> torch.Tensor:
        if step == options.bad_batch:
            raise ValueError(f"bad batch {step}")
        inputs = torch.ones(8, 4) * step
        weights.requires_grad_()
        (inputs @ weights).square().mean().backward()
        return weights.grad


ray.init(num_cpus=2, include_dashboard=False)
path = os.path.join(options.out, "weights.pt")
begin, weights = torch.load(path) if os.path.exists(path) else (0, torch.ones(4))
workers = [Worker.remote() for _ in range(2)]
print("starts at", begin)
for step in range(begin + 1, options.steps + 1):
    gradients = ray.get([worker.gradient.remote(weights, step) for worker in workers])
    weights = weights - 1e-6 * torch.stack(gradients).mean(0)
    torch.save((step, weights), path + ".new")
    os.replace(path + ".new", path)
    print("step", step)
