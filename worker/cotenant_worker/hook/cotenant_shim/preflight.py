"""The check before step 0: that the all-reduce is right, how fast it is, and how fast each rank is alone."""

from __future__ import annotations

import os
import time

from .launcher_client import launcher
from .main_process import is_main_process, rank, world_size

_SLOW_FACTOR = 3.0
_SLOW_S = 0.02
"""A shorter time is never called slow (`progress_board`)."""
_REPEATS = 4
_PAUSE_S = 0.15
"""Longer than the 100 ms period in which the kernel gives CPU time to a container."""


def preflight(c10d, *, cuda):
    """Check and time one all-reduce and this rank's own work, in some milliseconds. Raises RuntimeError if sums are
    wrong.

    It is skipped for worlds other than the job's, because one of a rank's processes would wait for others that do not
    call it, and for ranks with several GPUs. A rank that sees all GPUs of its pod uses the one that torchrun's rule
    gives it.
    """
    env = os.environ
    if env.get("COTENANT_PREFLIGHT", "1") == "0" or c10d.get_world_size() != world_size():
        return
    import torch

    if cuda and (not is_main_process() or torch.cuda.device_count() != int(env.get("LOCAL_WORLD_SIZE", "1"))):
        return
    kind = "cuda" if cuda else "cpu"
    device = f"cuda:{env.get('LOCAL_RANK', '0')}" if cuda else "cpu"
    wait = (lambda: torch.cuda.synchronize(device)) if cuda else (lambda: None)
    ones = torch.ones(1 << (22 if cuda else 18), dtype=torch.float32, device=device)
    c10d.all_reduce(ones)  # the first one also makes the connections
    wait()
    launcher.send({"op": "phase", "phase": f"first all-reduce of rank {rank()}"})
    best = None
    for _ in range(3):
        ones.fill_(1.0)
        wait()
        begin = time.perf_counter()
        c10d.all_reduce(ones)
        wait()
        took = time.perf_counter() - begin
        best = took if best is None else min(best, took)
    low, high, size = float(ones.min()), float(ones.max()), c10d.get_world_size()
    if (low, high) != (size, size):
        raise RuntimeError(f"cotenant: the all-reduce is wrong: ones over {size} ranks gave {low} to {high}")
    own = _own_speed(torch, device, wait)
    quickest = torch.full((1,), own, dtype=torch.float64, device=device)
    c10d.all_reduce(quickest, op=c10d.ReduceOp.MIN)
    own = _remeasured(own, float(quickest), lambda: _own_speed(torch, device, wait))
    launcher.send(
        {
            "op": "preflight",
            "all_reduce_ms": best * 1e3,
            "all_reduce_bytes": ones.numel() * 4,
            "own_ms": own * 1e3,
            "device": kind,
        }
    )


def _own_speed(torch, device, wait):
    """Seconds that a small piece of work takes on this rank: the best of five, because one interruption must
    not count.
    """
    side = 1024 if device != "cpu" else 192
    matrix = torch.ones(side, side, device=device)
    times = []
    for _ in range(5):
        wait()
        begin = time.perf_counter()
        for _ in range(8):
            matrix = (matrix @ matrix).clamp_(-1.0, 1.0)
        wait()
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def _remeasured(own, quickest, measure):
    """Seconds. If they look far too long, they are measured again a little later: a busy machine is not a slow GPU."""
    for _ in range(_REPEATS):
        if own <= _SLOW_FACTOR * quickest or own - quickest <= _SLOW_S:
            break
        time.sleep(_PAUSE_S)
        own = min(own, measure())
    return own
