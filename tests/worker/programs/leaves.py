"""Ends with the code it is given, and leaves its process group as it is."""

import sys

import torch.distributed as dist

original = dist.destroy_process_group
dist.destroy_process_group = lambda: (print("left the group", flush=True), original())[1]
dist.init_process_group("gloo", store=dist.FileStore(sys.argv[1], 1), rank=0, world_size=1)
sys.exit(int(sys.argv[2]))
