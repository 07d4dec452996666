"""One process of a job on the GPU: `gpu_child.py ACTION [NUMBER…]`. Answers in lines of JSON.

Actions that hold memory or take turns wait for a line on stdin before they go on.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import time
from typing import Any

MIB = 1 << 20
PATTERN = 0x5EC2E75EC2E75EC2


def answer(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def usable() -> None:
    """Answer why this torch cannot use this GPU and driver, as a wheel for a newer CUDA; empty when it can."""
    import torch

    try:
        torch.ones(1, device="cuda").sum().item()
        answer(torch=torch.__version__, cuda=str(torch.version.cuda), gpu=torch.cuda.get_device_name(), why="")
    except (RuntimeError, AssertionError) as error:
        answer(torch=torch.__version__, why=str(error).splitlines()[0][:300])


def fill(step_mib: int) -> tuple[int, str, list[Any]]:
    """Allocate until torch refuses: (bytes held, its error, the tensors)."""
    import torch

    held: list[Any] = []
    while True:
        try:
            held.append(torch.empty(step_mib * MIB, dtype=torch.uint8, device="cuda"))
        except torch.OutOfMemoryError as error:
            return len(held) * step_mib * MIB, str(error), held


def hold(step_mib: int) -> None:
    import torch

    size, error, held = fill(step_mib)
    torch.cuda.synchronize()
    answer(allocated=size, reserved=torch.cuda.memory_reserved(), error=error[:300])
    sys.stdin.readline()
    held.clear()


def raise_limit() -> None:
    """Allocate after raising the limit, as a program that wants more than its share."""
    import torch

    torch.cuda.init()
    torch.cuda.set_per_process_memory_fraction(1.0)
    answer(allocated=fill(256)[0])


def _spawned(queue: Any) -> None:
    queue.put(fill(256)[0])


def spawn() -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=_spawned, args=(queue,))
    process.start()
    answer(allocated=queue.get(timeout=120))
    process.join()


def context_and_nccl() -> None:
    """Touch what every training touches, so that lazily loaded kernels and handles are counted."""
    import torch
    import torch.distributed as dist

    matrix = torch.randn(512, 512, device="cuda")
    (matrix @ matrix).sum().item()
    torch.nn.functional.conv2d(torch.randn(8, 3, 32, 32, device="cuda"), torch.randn(8, 3, 3, 3, device="cuda"))
    torch.cuda.synchronize()
    answer(reserved=torch.cuda.memory_reserved())
    sys.stdin.readline()
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    dist.all_reduce(torch.ones(1 << 22, device="cuda"))
    torch.cuda.synchronize()
    answer(reserved=torch.cuda.memory_reserved())
    sys.stdin.readline()
    dist.destroy_process_group()


def sees() -> None:
    import torch

    count = [sys.executable, "-c", "import torch; print(torch.cuda.device_count())"]
    bare = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    answer(
        uuids=[f"GPU-{torch.cuda.get_device_properties(index).uuid}" for index in range(devices)],
        child=subprocess.run(count, capture_output=True, text=True, check=False).stdout.strip(),
        unset=subprocess.run(count, capture_output=True, text=True, check=False, env=bare).stdout.strip(),
    )


def multiprocessors() -> None:
    """Answer how much of the GPU this process computes on, and stay there until it is told to go."""
    import torch

    torch.ones(1, device="cuda").sum().item()
    answer(multiprocessors=torch.cuda.get_device_properties(0).multi_processor_count)
    sys.stdin.readline()


def train(steps: int, reporting: int) -> None:
    """A few milliseconds of matrix products per step; one turn of `steps` for every line on stdin."""
    import torch

    from cotenant_worker import report, should_stop

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = True
    layers = [part for _ in range(6) for part in (torch.nn.Linear(2048, 2048), torch.nn.GELU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(2048, 10)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images, labels = torch.randn(4096, 2048, device="cuda"), torch.randint(10, (4096,), device="cuda")
    done = 0

    def turn() -> float:
        nonlocal done
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad(set_to_none=True)
            torch.nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            done += 1
            if reporting:
                report(step=done, of=100_000)
                should_stop()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / steps * 1e3

    turn()
    answer(ready=True)
    while sys.stdin.readline().strip() == "go":
        answer(ms=turn())


def write_pattern() -> None:
    import torch

    free, _ = torch.cuda.mem_get_info()
    held = torch.full((int(free * 0.9) // 8,), PATTERN, dtype=torch.int64, device="cuda")
    torch.cuda.synchronize()
    answer(written=held.numel() * 8)


def scan() -> None:
    """Fresh memory of the driver, as it was handed to us: nothing was cached in this process before."""
    import torch

    free, _ = torch.cuda.mem_get_info()
    chunk, scanned, pattern, other = 1 << 30, 0, 0, 0
    held = []
    while scanned < free * 0.8:
        block = torch.empty(chunk // 8, dtype=torch.int64, device="cuda")
        held.append(block)
        for part in block.split(1 << 24):
            pattern += int((part == PATTERN).sum())
            other += int((part != 0).sum())
        scanned += chunk
    answer(scanned=scanned, pattern_words=pattern, nonzero_words=other)


DEEDS = {
    each.__name__: each
    for each in (usable, hold, raise_limit, spawn, context_and_nccl, sees, multiprocessors, train, write_pattern, scan)
}

if __name__ == "__main__":
    DEEDS[sys.argv[1]](*(int(word) for word in sys.argv[2:]))
