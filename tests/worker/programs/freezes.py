"""Two ranks; rank 1 freezes before it has met the other."""

import os
import signal

import torch.distributed as dist

if os.environ["RANK"] == "1":
    os.kill(os.getpid(), signal.SIGSTOP)
dist.init_process_group("gloo")
