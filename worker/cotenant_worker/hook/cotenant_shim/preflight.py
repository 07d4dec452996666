"""The check before step 0: is the all-reduce right, how fast is it, how fast is each rank by itself."""

from __future__ import annotations

import os
import time

from .heartbeat import pulse
from .main_process import is_main_process, ranks

_FACTOR = 3.0
_MORE_S = 0.02
"""Less is never called slow (`board`)."""
_AGAIN = 4
_PAUSE_S = 0.15
"""Longer than the 100 ms in which the kernel hands out CPU time to a container."""


def preflight(c10d, *, cuda):
    """Before step 0: is the all-reduce right, how fast is it, how fast is this rank by itself? Some milliseconds.

    Skipped for worlds that are not the job's (in one of a rank's several processes this would run, and wait for the
    others), and for ranks with several GPUs. One that sees the GPUs of its whole pod
    uses the one that torchrun's rule gives it.
    """
    env = os.environ
    if env.get("COTENANT_PREFLIGHT", "1") == "0" or c10d.get_world_size() != ranks():
        return
    import torch

    if cuda and (not is_main_process() or torch.cuda.device_count() != int(env.get("LOCAL_WORLD_SIZE", "1"))):
        return
    kind = "cuda" if cuda else "cpu"
    device = f"cuda:{env.get('LOCAL_RANK', '0')}" if cuda else "cpu"
    wait = (lambda: torch.cuda.synchronize(device)) if cuda else (lambda: None)
    words = torch.ones(1 << (22 if cuda else 18), dtype=torch.float32, device=device)
    c10d.all_reduce(words)  # the first one also makes the connections
    wait()
    pulse.send({"op": "mark", "what": f"first all-reduce of rank {pulse.rank}"})
    best = None
    for _ in range(3):
        words.fill_(1.0)
        wait()
        begin = time.perf_counter()
        c10d.all_reduce(words)
        wait()
        took = time.perf_counter() - begin
        best = took if best is None else min(best, took)
    low, high, size = float(words.min()), float(words.max()), c10d.get_world_size()
    if (low, high) != (size, size):
        raise RuntimeError(f"cotenant: the all-reduce is wrong: ones over {size} ranks gave {low} to {high}")
    own = _own_speed(torch, device, wait)
    quickest = torch.full((1,), own, dtype=torch.float64, device=device)
    c10d.all_reduce(quickest, op=c10d.ReduceOp.MIN)
    own = _once_more(own, float(quickest), lambda: _own_speed(torch, device, wait))
    pulse.send({"op": "preflight", "ms": best * 1e3, "bytes": words.numel() * 4, "own_ms": own * 1e3, "device": kind})


def _own_speed(torch, device, wait):
    """Seconds of the same small work on every rank: the best of five, so that one interruption does not count."""
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


def _once_more(own, quickest, measure):
    """Seconds; measured again, a little later, where it looks far slower: a busy machine is not a slow GPU."""
    for _ in range(_AGAIN):
        if own <= _FACTOR * quickest or own - quickest <= _MORE_S:
            break
        time.sleep(_PAUSE_S)
        own = min(own, measure())
    return own
