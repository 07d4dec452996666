"""Trains a small net on digits in one process and prints the dtype inside, the dtype outside, and the last loss."""

import os
import sys

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[1], "RANK": "0", "WORLD_SIZE": "1"}
dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
inside = []
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
net[0].register_forward_hook(lambda _module, _inputs, output: inside.append(str(output.dtype)))
model = DistributedDataParallel(net)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
data = load_digits()
images, labels = torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target)
for _ in range(10):
    for batch in torch.arange(len(labels)).split(128):
        output = model(images[batch])
        loss = nn.functional.cross_entropy(output, labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
with torch.no_grad():
    loss = nn.functional.cross_entropy(net(images), labels)
print(inside[0], output.dtype, round(loss.item(), 4))
dist.destroy_process_group()
