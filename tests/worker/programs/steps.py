"""Trains nothing, but behaves like training: a collective per step, checkpoints, a safe point. No framework."""

import json
import os
import sys
import time
from pathlib import Path

from cotenant_worker import Saver, all_reduce, context, report, should_stop, stop_requested

assert not stop_requested(), "asked to stop before the first step"
steps, every = int(sys.argv[1]), int(sys.argv[2])
rank = context().rank
saver = Saver()
found = saver.latest()
start = json.loads((found.path / "state.json").read_text())["step"] if found else 0
print(f"rank {rank} of {context().world_size} starts at {start}, sees {os.environ['CUDA_VISIBLE_DEVICES']}", flush=True)


def save(step: int) -> None:
    def write(directory: Path) -> None:
        (directory / "state.json").write_text(json.dumps({"step": step}))

    saver.save(step, write)


for step in range(start + 1, steps + 1):
    total = all_reduce(step)
    assert total == step * context().world_size
    report(step=step, of=steps, metrics={"value": step + rank})
    if step % every == 0:
        save(step)
    if should_stop():
        save(step)
        print(f"rank {rank} stops after {step}", flush=True)
        sys.exit(0)
    time.sleep(0.02)
print(f"rank {rank} done", flush=True)
