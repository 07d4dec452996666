"""Two ranks; rank 1 freezes before it has met the other in torch's group, or with `ring` in ours, or at the `end`."""

import os
import signal
import sys

import torch.distributed as dist

from cotenant_worker import all_reduce

how = sys.argv[1]
if how == "end":
    all_reduce(1)
if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSTOP)
if how == "ring":
    all_reduce(1)
if how == "group":
    dist.init_process_group("gloo")
