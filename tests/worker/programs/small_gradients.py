"""Half precision in a program that knows nothing of it: what became of gradients too small and too large for it."""

import json
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1], "RANK": "0", "WORLD_SIZE": "1"}
dist.init_process_group("gloo")
torch.set_num_threads(1)
net = nn.Linear(4, 1, bias=False)
outside = nn.Parameter(torch.ones(1))
model = DistributedDataParallel(net)
optimizer = torch.optim.SGD([*model.parameters(), outside], lr=0.5, momentum=0.9)
images = torch.tensor([[1.0, 2.0, 3.0, 4.0]])


def gradients(loss: torch.Tensor) -> list[float]:
    optimizer.zero_grad()
    loss.backward()
    return [*net.weight.grad.flatten().tolist(), *outside.grad.tolist()]


# 1e-9 is nothing in half precision. `outside` and the weights' own penalty never see half precision.
small = gradients((model(images).sum() + outside.sum()) * 1e-9 + 1e-9 * net.weight.sum())
before = net.weight.detach().clone()
# 1000 times the first factor is too large for half precision: the step changes nothing, and the next ones try less.
gradients(model(images).sum() * 1e3 + 0 * outside.sum())
optimizer.step()
untouched = bool((net.weight == before).all())
steps = 1
while bool((net.weight == before).all()) and steps < 40:
    large = gradients(model(images).sum() * 1e3 + 0 * outside.sum())
    optimizer.step()
    steps += 1
print("FOUND", json.dumps({"small": small, "untouched": untouched, "steps": steps, "large": large}))
dist.destroy_process_group()
