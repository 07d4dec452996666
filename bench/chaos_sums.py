"""How the job that chaos kills adds up over all ranks. Apart from the program, so that only who uses torch loads it:
the worker imports ahead what the program's own text imports.
"""

from __future__ import annotations

from collections.abc import Callable

from cotenant_worker import ParameterServer, all_reduce


def sum_up(kind: str, value: float) -> Callable[[float], float]:
    """Adds the mean of what all ranks bring to what there was, `value`, and says what there is."""
    if kind == "servers":
        return _push(value)
    if kind == "torch":
        import torch.distributed as dist

        dist.init_process_group("gloo")

    def reduce(own: float) -> float:
        nonlocal value
        value += all_reduce(own, "mean")
        return value

    return reduce


def _push(value: float) -> Callable[[float], float]:
    import torch

    held = torch.nn.Parameter(torch.tensor([value]))
    servers = ParameterServer([held], lr=1.0)

    def push(own: float) -> float:
        held.grad = torch.tensor([-own])
        servers.step()
        return float(held.detach()[0])

    return push
