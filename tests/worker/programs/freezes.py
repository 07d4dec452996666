"""Two ranks; rank 1 freezes before they have met: in torch's group, with `own` in all_reduce's, or at the `end`."""

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
if how == "own":
    all_reduce(1)
if how == "group":
    dist.init_process_group("gloo")
