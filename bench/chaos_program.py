"""The job that chaos kills: adds known numbers up over all ranks, and saves. Arguments: torch, ring or servers; steps.

The sum does not depend on how often it was interrupted or how many ranks there were, unless something was lost or
done twice.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from cotenant_worker import Saver, all_reduce, context, report, results, should_stop

EVERY = 10


def summand(step: int) -> float:
    return float(step * step % 11)


def right(steps: int) -> float:
    """What the job must come to."""
    return sum(summand(step) for step in range(1, steps + 1))


def sum_up(kind: str, value: float) -> Callable[[float], float]:
    """Adds the mean of what all ranks bring to what there was, `value`, and says what there is."""
    if kind == "servers":
        import torch

        from cotenant_worker import ParameterServer

        held = torch.nn.Parameter(torch.tensor([value]))
        servers = ParameterServer([held], lr=1.0)

        def push(own: float) -> float:
            held.grad = torch.tensor([-own])
            servers.step()
            return float(held.detach()[0])

        return push

    def reduce(own: float) -> float:
        nonlocal value
        value += all_reduce(own, "mean")
        return value

    return reduce


def main(kind: str, steps: int) -> None:
    if kind == "torch":
        import torch.distributed as dist

        dist.init_process_group("gloo")
    saver = Saver()
    found = saver.latest()
    state = json.loads((found.path / "state.json").read_text()) if found else {"step": 0, "value": 0.0}
    rank, size = context().rank, context().world_size
    print(f"rank {rank} of {size} starts at {state['step']}", flush=True)

    def save(directory: Path) -> None:
        (directory / "state.json").write_text(json.dumps(state))

    add = sum_up(kind, state["value"])
    for step in range(state["step"] + 1, steps + 1):
        # Only the mean over all ranks is right: each rank is off by its distance from the middle.
        state = {"step": step, "value": add(summand(step) + rank - (size - 1) / 2)}
        report(step=step, of=steps)
        if step % EVERY == 0:
            saver.save(step, save)
        if should_stop():
            saver.save(step, save)
            sys.exit(0)
        time.sleep(0.05)
    results({"value": state["value"]})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
